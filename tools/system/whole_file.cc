#include "tools/system/whole_file.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "tools/system/write_all.h"

namespace gleaner::tools {

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
  std::string name = path_ + ".XXXXXX";
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0) return false;
  temporary_ = name;
  const mode_t mask = umask(0);
  umask(mask);
  (void)fchmod(descriptor, 0666 & ~mask);
  file_ = fdopen(descriptor, "w");
  if (file_ == nullptr) close(descriptor);
  return file_ != nullptr;
}

bool WholeFile::Write(const std::string& text) {
  return WriteAll(fileno(file_), text.data(), text.size());
}

bool WholeFile::Commit() {
  FILE* file = file_;
  file_ = nullptr;
  const bool is_written = ferror(file) == 0;  // else errno is of the last output that failed
  if ((file == stdout ? fflush(file) : fclose(file)) != 0 || !is_written) return false;
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
