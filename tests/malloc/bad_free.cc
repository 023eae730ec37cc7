// Pointers that must not be freed end the program with a message that names call and address.
#include <fcntl.h>
#include <linux/kcmp.h>
#include <malloc.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

bool g_checked = false;
time_t g_ahead_seconds = 0;  // of the system's clocks

struct Ended {
  int status = -1;
  std::string text;
};

template <class F>
Ended Run(F f) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], 2);
    f();
    _exit(0);
  }
  close(ends[1]);
  Ended ended;
  char buffer[512];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) ended.text.append(buffer, n);
  close(ends[0]);
  CHECK(waitpid(child, &ended.status, 0) == child);
  return ended;
}

template <class F>
void Aborts(const char* message, F f) {
  const Ended ended = Run(f);
  if (!WIFSIGNALED(ended.status) || WTERMSIG(ended.status) != SIGABRT ||
      ended.text.find(message) == std::string::npos) {
    fprintf(stderr, "expected \"%s\", got status %d, \"%s\"\n", message, ended.status,
            ended.text.c_str());
    _exit(1);
  }
}

std::string Name(void* p, const char* call) {
  char text[64];
  snprintf(text, sizeof text, "%s(%p): ", call, p);
  return text;
}

// Where a message lands: not in a file that has got the number of standard error by being opened,
// but in one that the program puts in its place, as daemons do with a log for output and errors.
enum class Replaced { kByOpen, kByOpenOfBoth, kByDup };
void ReplacedStandardError(Replaced how) {
  char path[] = "/tmp/gleaner_test_XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    if (how == Replaced::kByDup) {
      const int log = open(path, O_WRONLY | O_APPEND);
      CHECK(log >= 0 && dup2(log, 1) == 1 && dup2(log, 2) == 2 && close(log) == 0);
    } else {
      if (how == Replaced::kByOpenOfBoth) {
        close(1);
        CHECK(open(path, O_WRONLY | O_APPEND) == 1);
      }
      close(2);
      CHECK(open(path, O_WRONLY | O_APPEND) == 2);
    }
    void* p = malloc(100);
    free(opaque(p));
    free(opaque(p));
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  // A system that does not compare descriptors tells no log from a file.
  const bool told = syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, file, file) == 0;
  CHECK((lseek(file, 0, SEEK_END) != 0) == (told && how == Replaced::kByDup));
  CHECK(unlink(path) == 0 && close(file) == 0);
}

}  // namespace

// The C library's, but that the time is another when a case says so: the library asks for it here.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  now->tv_sec += g_ahead_seconds;
  return result;
}

int main() {
  require_gleaner();
  for (const Replaced how : {Replaced::kByOpen, Replaced::kByOpenOfBoth, Replaced::kByDup}) {
    ReplacedStandardError(how);
  }
  g_checked = getenv("GLEANER_MALLOC_CHECK") != nullptr;
  auto* small = static_cast<char*>(malloc(100));
  auto* large = static_cast<char*>(malloc(2'000'000));
  for (size_t offset : {1, 8}) {
    Aborts((Name(small + offset, "free") + "invalid pointer").c_str(),
           [=] { free(opaque(small + offset)); });
  }
  Aborts((Name(large + 16, "free") + "invalid pointer").c_str(), [=] { free(opaque(large + 16)); });
  Aborts((Name(large + 65536, "free") + "invalid pointer").c_str(),
         [=] { free(opaque(large + 65536)); });
  Aborts((Name(large + 16, "realloc") + "invalid pointer").c_str(),
         [=] { large[0] = *static_cast<char*>(realloc(opaque(large + 16), 5)); });
  Aborts((Name(small + 16, "malloc_usable_size") + "invalid pointer").c_str(),
         [=] { large[0] = static_cast<char>(malloc_usable_size(opaque(small + 16))); });
  // At once.
  // With every call checked the page is given up with its last block.
  const std::string again = Name(small, "free") + (g_checked ? "invalid pointer" : "double free");
  Aborts(again.c_str(), [=] {
    free(opaque(small));
    free(opaque(small));
  });
  Aborts("free", [=] {
    delete static_cast<char*>(opaque(small));
    delete static_cast<char*>(opaque(small));
  });
  Aborts("free(", [=] {
    free(opaque(large));
    free(opaque(large));
  });
  // With another one between, of slots and medium blocks. In the very call.
  for (size_t bytes : {24, 100, 5000, 100'000, 1'000'000}) {
    static void* p[4];
    for (void*& each : p) each = malloc(bytes);
    Aborts(Name(p[0], "free").c_str(), [] {
      free(opaque(p[0]));
      free(opaque(p[1]));
      free(opaque(p[0]));
      _exit(0);
    });
    Aborts((Name(static_cast<char*>(p[0]) + 16, "free") + "invalid pointer").c_str(), [] {
      free(opaque(static_cast<char*>(p[0]) + 16));
      _exit(0);
    });
    // With more between: when the magazine gives its blocks back, here at the end of the thread,
    // and of the process.
    const auto free_again = [] {
      for (int i : {0, 1, 2, 0}) free(opaque(p[i]));
    };
    Aborts("free(", [=] { std::thread(free_again).join(); });
    Aborts("free(", [=] {
      free_again();
      exit(0);
    });
  }
  // The first call after a peak empties the magazines, as memory goes back to the system.
  Aborts(Name(small, "free").c_str(), [=] {
    std::vector<void*> blocks(64);
    for (void*& block : blocks) memset(block = malloc(2'000'000), 1, 2'000'000);
    for (void* block : blocks) free(block);
    g_ahead_seconds = 1;
    free(opaque(small));
    free(opaque(small));
    _exit(0);
  });
  // So does one between the two.
  Aborts(Name(small, "free").c_str(), [=] {
    std::vector<void*> blocks(64);
    for (void*& block : blocks) memset(block = malloc(2'000'000), 1, 2'000'000);
    for (void* block : blocks) free(block);
    free(opaque(small));
    g_ahead_seconds = 1;
    free(opaque(small));
    _exit(0);
  });
  // What was never given out: on the heap, on a stack.
  Aborts("free(", [=] {
    free(opaque(large + 2'000'000'000));
    _exit(0);
  });
  const auto free_local = [] {
    alignas(16) char local[64] = {};
    const std::string expected = Name(local, "free") + "invalid pointer";
    Aborts(expected.c_str(), [&] { free(opaque(local)); });
    Aborts((Name(local + 16, "realloc") + "invalid pointer").c_str(),
           [&] { local[0] = *static_cast<char*>(realloc(opaque(local + 16), 100)); });
  };
  free_local();
  std::thread(free_local).join();
  // Of another thread's block.
  Aborts("free(", [] {
    void* p = malloc(100);
    std::thread([p] { free(p); }).join();
    std::thread([p] { free(opaque(p)); }).join();
  });
}
