// Functions of the C library that a collecting malloc replaces, so that threads start registered,
// and no thread blocks the suspend signal or waits for it: neither by its mask nor in a waiting
// call. When nothing is collected, they only call the C library's functions.
//
// The C library starts threads of its own for events (SIGEV_THREAD). For timers, aio and
// getaddrinfo_a these threads free a block before they call the program's function, and so
// register; for mq_notify they do not.
#include "runtime/threads/threads.h"

#include <mqueue.h>
#include <pthread.h>
#include <threads.h>

#include <cerrno>
#include <cstdlib>  // declares pselect

#include "malloc/collecting.h"
#include "malloc/next.h"
#include "malloc/process.h"
#include "platform/threads/stop_world.h"
#include "platform/threads/thread.h"

namespace proxy = gleaner::malloc_proxy;
namespace platform = gleaner::platform;
using gleaner::runtime::Threads;

#define GLEANER_MALLOC_API extern "C" __attribute__((visibility("default")))

namespace {

// Structures of <signal.h>, <poll.h> and <sys/epoll.h>, which only the platform layer includes, are
// void here: nothing behind the pointers is read.
using proxy::NextCall;
constinit NextCall<decltype(thrd_create)> g_thrd_create("thrd_create");
constinit NextCall<int(mqd_t, const sigevent*)> g_mq_notify("mq_notify");
constinit NextCall<int(const sigset_t*, int*)> g_sigwait("sigwait");
constinit NextCall<int(const sigset_t*, void*)> g_sigwaitinfo("sigwaitinfo");
constinit NextCall<int(const sigset_t*, void*, const void*)> g_sigtimedwait("sigtimedwait");
constinit NextCall<int(const sigset_t*)> g_sigsuspend("sigsuspend");
constinit NextCall<int(void*, unsigned long, const void*, const sigset_t*)> g_ppoll("ppoll");
constinit NextCall<decltype(pselect)> g_pselect("pselect");
constinit NextCall<int(int, void*, int, int, const sigset_t*)> g_epoll_pwait("epoll_pwait");
constinit NextCall<int(int, void*, int, const void*, const sigset_t*)> g_epoll_pwait2(
    "epoll_pwait2");

// The signal set to pass to the C library: without the suspend signal in a collecting malloc.
class Mask {
 public:
  explicit Mask(const sigset_t* set)
      : set_(proxy::IsCollecting() ? platform::WithoutSuspend(set, &copy_) : set) {}
  operator const sigset_t*() const { return set_; }

 private:
  sigset_t copy_;
  const sigset_t* const set_;
};

// The program's function of an mq_notify. Until the notification the kernel holds the only pointer
// to this block, so the block is uncollectable.
struct Notification {
  void (*function)(sigval);
  sigval value;
};

void RunNotification(sigval data) {
  auto* call = static_cast<Notification*>(data.sival_ptr);
  const Notification own = *call;
  (void)proxy::Collecting::Free(call, "mq_notify");  // registers the thread
  own.function(own.value);
}

int SetMask(int how, const sigset_t* set, sigset_t* old) {
  return proxy::IsCollecting() ? platform::SigmaskKeepingSuspend(how, set, old)
                               : platform::RealSigmask(how, set, old);
}

}  // namespace

namespace gleaner::malloc_proxy {

// Looks the functions up now: a program calls them in signal handlers and after fork, where no
// symbol may be looked up.
void FindSignalFunctions() {
  (void)platform::RealSigmask(0, nullptr, nullptr);
  (void)g_sigwait.get();
  (void)g_sigwaitinfo.get();
  (void)g_sigtimedwait.get();
  (void)g_sigsuspend.get();
  (void)g_ppoll.get();
  (void)g_pselect.get();
  (void)g_epoll_pwait.get();
}

}  // namespace gleaner::malloc_proxy

GLEANER_MALLOC_API int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                      void* (*start)(void*), void* argument) {
  if (!platform::IsCreatingThread() && proxy::Start() && proxy::IsCollecting()) {
    return Threads::Create(thread, attributes, start, argument, platform::NextPthreadCreate);
  }
  return platform::NextPthreadCreate(thread, attributes, start, argument);
}

GLEANER_MALLOC_API int thrd_create(thrd_t* thread, thrd_start_t start, void* argument) {
  if (proxy::Start() && proxy::IsCollecting()) return Threads::CreateC11(thread, start, argument);
  return g_thrd_create.get()(thread, start, argument);
}

GLEANER_MALLOC_API int mq_notify(mqd_t queue, const sigevent* event) noexcept {
  if (event == nullptr || !platform::NotifiesByThread(*event) || !proxy::IsCollecting()) {
    return g_mq_notify.get()(queue, event);
  }
  auto* call = static_cast<Notification*>(proxy::Collecting::AllocateRoot(sizeof(Notification)));
  if (call == nullptr) return errno = ENOMEM, -1;
  *call = {event->sigev_notify_function, event->sigev_value};
  sigevent ours = *event;
  ours.sigev_notify_function = RunNotification;
  ours.sigev_value.sival_ptr = call;
  const int result = g_mq_notify.get()(queue, &ours);
  if (result != 0) (void)proxy::Collecting::Free(call, "mq_notify");
  return result;
}

GLEANER_MALLOC_API int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  return SetMask(how, set, old);
}

GLEANER_MALLOC_API int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  const int error = SetMask(how, set, old);
  return error == 0 ? 0 : (errno = error, -1);
}

GLEANER_MALLOC_API int sigwait(const sigset_t* set, int* signal) {
  return g_sigwait.get()(Mask(set), signal);
}
GLEANER_MALLOC_API int sigwaitinfo(const sigset_t* set, void* info) {
  return g_sigwaitinfo.get()(Mask(set), info);
}
GLEANER_MALLOC_API int sigtimedwait(const sigset_t* set, void* info, const void* timeout) {
  return g_sigtimedwait.get()(Mask(set), info, timeout);
}
GLEANER_MALLOC_API int sigsuspend(const sigset_t* mask) { return g_sigsuspend.get()(Mask(mask)); }

GLEANER_MALLOC_API int ppoll(void* files, unsigned long count, const void* timeout,
                             const sigset_t* mask) {
  return g_ppoll.get()(files, count, timeout, Mask(mask));
}
GLEANER_MALLOC_API int pselect(int count, fd_set* read, fd_set* write, fd_set* except,
                               const timespec* timeout, const sigset_t* mask) {
  return g_pselect.get()(count, read, write, except, timeout, Mask(mask));
}
GLEANER_MALLOC_API int epoll_pwait(int epoll, void* events, int count, int timeout,
                                   const sigset_t* mask) {
  return g_epoll_pwait.get()(epoll, events, count, timeout, Mask(mask));
}
GLEANER_MALLOC_API int epoll_pwait2(int epoll, void* events, int count, const void* timeout,
                                    const sigset_t* mask) {
  return g_epoll_pwait2.get()(epoll, events, count, timeout, Mask(mask));
}
