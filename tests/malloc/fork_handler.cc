// A handler forks, wherever in malloc the program's only thread is: no lock is waited for that the
// thread has itself. The child ends, or goes on where the signal came.
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "check.h"

namespace {

constexpr int kForks = 300;
volatile int g_forks = 0;
bool g_is_child = false;
int g_rounds = 0;  // after the fork, of the child

// Once: forks that take longer than the interval would leave the thread no time of its own.
void SetTimer() {
  const itimerval timer = {{0, 0}, {0, 1000}};
  CHECK(setitimer(ITIMER_REAL, &timer, nullptr) == 0);
}

void Fork(int) {
  const int saved = errno;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    struct sigaction ends = {};
    ends.sa_handler = SIG_DFL;
    CHECK(sigaction(SIGALRM, &ends, nullptr) == 0);
    alarm(20);  // itimers are not inherited
    if (g_forks % 2 == 0) _exit(0);
    g_is_child = true;
  } else {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    g_forks = g_forks + 1;
    if (g_forks < kForks) SetTimer();
  }
  errno = saved;
}

void AllocateAndFree() {
  static char* blocks[64];
  for (size_t i = 0; i < 64; ++i) {
    const size_t bytes = i % 16 == 0 ? 30'000 * (i / 16 + 1) : 16 + i * 37 % 9000;
    CHECK((blocks[i] = static_cast<char*>(malloc(bytes))) != nullptr);
    memset(blocks[i], static_cast<int>(i), bytes < 100 ? bytes : 100);
  }
  for (size_t i = 0; i < 64; ++i) {
    CHECK(blocks[i][0] == static_cast<char>(i) && blocks[i][15] == static_cast<char>(i));
    free(blocks[i]);
  }
}

}  // namespace

int main() {
  struct sigaction action = {};
  action.sa_handler = Fork;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGALRM, &action, nullptr) == 0);
  SetTimer();
  while (g_forks < kForks) {
    AllocateAndFree();
    if (g_is_child && ++g_rounds == 20) _exit(0);
  }
  return 0;
}
