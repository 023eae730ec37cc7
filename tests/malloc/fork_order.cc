// Fork handlers that were registered before the program called malloc: they allocate, and wait for
// a thread that does.
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

namespace {

void Allocate() {
  for (size_t bytes = 16; bytes < (size_t{8} << 20); bytes = bytes * 2 + 8) {
    char* p = static_cast<char*>(malloc(bytes));
    CHECK(p != nullptr);
    p[0] = p[bytes - 1] = 1;
    free(p);
  }
}

void* Work(void*) {
  Allocate();
  return nullptr;
}

void Prepare() {
  pthread_t thread;
  Allocate();
  CHECK(pthread_create(&thread, nullptr, Work, nullptr) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
}

__attribute__((constructor)) void Register() {
  CHECK(pthread_atfork(Prepare, Allocate, Allocate) == 0);
}

}  // namespace

int main() {
  alarm(60);  // a way to fail instead of hanging
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      Allocate();
      _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  return 0;
}
