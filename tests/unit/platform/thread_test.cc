// What a thread knows of its stacks.
#include "platform/thread.h"

#include <gtest/gtest.h>
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
  for (const int error : {0, EPERM, ENOMEM}) {
    if (error != 0) testing::Refuse(SYS_sigaltstack, 0, 0, error);
    for (int deep = 0; deep < 3; ++deep) {
      g_found = 0;
      g_deep = deep;
      raise(SIGUSR1);
      EXPECT_EQ(g_found, AddressOf(g_alternate.data()) + g_alternate.size())
          << error << ", " << deep;
    }
    EXPECT_EQ(AlternateStackEnd(Here()), 0u) << error;
  }
}

TEST(ThreadTest, TheAlternateStackIsKnownWithoutTheSystemsAnswer) {
  EXPECT_CHILD_OK(FindItInHandlers);
}

}  // namespace
}  // namespace gleaner::platform
