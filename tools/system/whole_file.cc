#include "tools/system/whole_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "tools/system/write_all.h"

namespace gleaner::tools {

namespace {

constexpr char kDescriptors[] = "/proc/self/fd";

// Signals wait as long as this object lives.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

WholeFile::~WholeFile() {
  if (file_ != nullptr && file_ != stdout) fclose(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

bool WholeFile::Open(const std::string& path) {
  (void)signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is an error as any other
  struct stat status;
  if (path == "-") {
    file_ = stdout;
    return true;
  }
  path_ = path;
  if (stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) {
      file_ = fopen(path.c_str(), "w");
      return file_ != nullptr;
    }
    if (access(path.c_str(), W_OK) != 0) return false;
    // Of a link the file is replaced, not the link.
    char resolved[PATH_MAX];
    if (realpath(path.c_str(), resolved) == nullptr) return false;
    path_ = resolved;
  }
  // Known before the work: the temporary name is longer.
  if (stat((path_ + ".1234567.12").c_str(), &status) != 0 && errno == ENAMETOOLONG) return false;
  const size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  int descriptor = access(kDescriptors, X_OK) == 0
                       ? open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666)
                       : -1;
  has_no_name_ = descriptor >= 0;
  if (!has_no_name_) {
    std::string name = path_ + ".XXXXXX";
    descriptor = mkstemp(name.data());
    if (descriptor < 0) return false;
    temporary_ = name;
    const mode_t mask = umask(0);
    umask(mask);
    (void)fchmod(descriptor, 0666 & ~mask);
  }
  file_ = fdopen(descriptor, "w");
  if (file_ == nullptr) close(descriptor);
  return file_ != nullptr;
}

bool WholeFile::GiveName(int descriptor) {
  const std::string own = std::string(kDescriptors) + "/" + std::to_string(descriptor);
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const std::string name = path_ + "." + std::to_string(getpid()) + "." + std::to_string(i);
    if (linkat(AT_FDCWD, own.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = name;
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
}

bool WholeFile::Write(const std::string& text) {
  return WriteAll(fileno(file_), text.data(), text.size());
}

bool WholeFile::Commit() {
  FILE* file = file_;
  file_ = nullptr;
  const bool is_written = ferror(file) == 0;  // else errno is of the last output that failed
  // From the moment when the file has a temporary name until it has its own.
  const SignalsWait signals_wait;
  const bool is_named =
      fflush(file) == 0 && is_written && (!has_no_name_ || GiveName(fileno(file)));
  const int error = errno;
  if (file != stdout && fclose(file) != 0) return false;
  errno = error;
  if (!is_named) return false;
  if (temporary_.empty()) return true;
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return false;
  temporary_.clear();
  return true;
}

std::string NewTemporaryFolder() {
  char name[] = "/tmp/gleaner-report.XXXXXX";
  const char* folder = mkdtemp(name);
  return folder == nullptr ? "" : folder;
}

}  // namespace gleaner::tools
