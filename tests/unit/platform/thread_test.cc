// What a thread knows of its stacks.
#include "platform/threads/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

#include <vector>

#include "tests/support/child.h"
#include "tests/support/refusals.h"

namespace gleaner::platform {
namespace {

Addr Here() { return AddressOf(__builtin_frame_address(0)); }

std::vector<char> g_alternate(256 << 10);
Addr g_found;
int g_deep;

void FindTheEnd(int signal) {
  if (g_deep-- > 0) {
    raise(signal);
  } else {
    g_found = AlternateStackEnd(Here());
  }
}

void FindItInHandlers() {
  stack_t alternate = {};
  alternate.ss_sp = g_alternate.data();
  alternate.ss_size = g_alternate.size();
  ASSERT_EQ(sigaltstack(&alternate, nullptr), 0);
  struct sigaction action = {};
  action.sa_handler = FindTheEnd;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  for (int deep = 0; deep < 3; ++deep) {
    g_found = 0;
    g_deep = deep;
    raise(SIGUSR1);
    EXPECT_EQ(g_found, AddressOf(g_alternate.data()) + g_alternate.size()) << deep;
  }
  EXPECT_EQ(AlternateStackEnd(Here()), 0u);
}

TEST(ThreadTest, HandlersKnowTheEndOfTheAlternateStack) { EXPECT_CHILD_OK(FindItInHandlers); }

struct Bounds {
  Range told;
  Range refused;
};

void* FindTheBounds(void* bounds) {
  auto* found = static_cast<Bounds*>(bounds);
  found->told = CurrentStackBounds();
  testing::Refuse(SYS_sched_getaffinity, 0, 0, EPERM);  // pthread_getattr_np needs it
  pthread_attr_t attributes;
  EXPECT_EQ(pthread_getattr_np(pthread_self(), &attributes), EPERM);
  found->refused = CurrentStackBounds();
  return nullptr;
}

Bounds BoundsOfThread(const pthread_attr_t& attributes) {
  Bounds found;
  pthread_t thread;
  EXPECT_EQ(pthread_create(&thread, &attributes, FindTheBounds, &found), 0);
  EXPECT_EQ(pthread_join(thread, nullptr), 0);
  return found;
}

// The values of pthread_setspecific lie there: nobody else has them, maybe.
CHILD_TEST(ThreadTest, TheStackHasTheDescriptorWithoutTheSystemsAnswer) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  for (const size_t bytes : {size_t{64} << 10, size_t{1} << 20}) {
    ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
    const Bounds found = BoundsOfThread(attributes);
    EXPECT_EQ(found.refused.begin, found.told.begin);
    EXPECT_EQ(found.refused.end, found.told.end);
  }
  // A block of the program's.
  constexpr size_t kMinAlignment = 64;  // of the descriptor
  for (const size_t shift : {0, 16, 64, 2000, 4032, 4080}) {
    std::vector<char> memory((256 << 10) + shift);
    ASSERT_EQ(pthread_attr_setstack(&attributes, memory.data() + shift, 256 << 10), 0);
    const Bounds found = BoundsOfThread(attributes);
    EXPECT_GT(found.refused.end + kMinAlignment, found.told.end) << shift;
    EXPECT_LT(found.refused.end, found.told.end + kMinAlignment) << shift;
  }
}

}  // namespace
}  // namespace gleaner::platform
