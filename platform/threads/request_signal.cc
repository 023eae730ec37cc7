#include "platform/threads/request_signal.h"

#include <strings.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "platform/os/atomic.h"

namespace gleaner::platform {

namespace {

constinit Hint<bool> g_requested{false};

void OnRequest(int) { g_requested.Set(true); }

// After a handler that only notes the signal, the instruction that has caused it is repeated
// forever, or goes on with what the kernel did not do. No handler can be had for the last two.
bool IsForRequests(int number) {
  for (const int other : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGKILL, SIGSTOP}) {
    if (number == other) return false;
  }
  return true;
}

}  // namespace

int SignalNumber(const char* text) {
  if (strncasecmp(text, "SIG", 3) == 0) text += 3;
  char* end;
  const unsigned long long number = strtoull(text, &end, 10);
  if (end != text && *end == 0 && number > 0 && number < NSIG) {
    return IsForRequests(static_cast<int>(number)) ? static_cast<int>(number) : 0;
  }
  for (int i = 1; i < NSIG; ++i) {
    const char* name = sigabbrev_np(i);
    if (name == nullptr || strcasecmp(name, text) != 0) continue;
    return IsForRequests(i) ? i : 0;
  }
  return 0;
}

int InstallRequestHandler(int number) {
  struct sigaction action = {};
  if (sigaction(number, nullptr, &action) != 0) return errno;
  if ((action.sa_flags & SA_SIGINFO) != 0 ||
      (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN)) {
    return EBUSY;
  }
  action = {};
  action.sa_handler = OnRequest;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  return sigaction(number, &action, nullptr) == 0 ? 0 : errno;
}

bool TakeRequest() { return IsRequested() && g_requested.Exchange(false); }
bool IsRequested() { return g_requested.Get(); }

}  // namespace gleaner::platform
