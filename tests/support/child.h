// Runs a part of a test in a forked child: the heap's state is global, and some tests end the
// process.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ios>
#include <string>

namespace gleaner::testing {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kAddressSanitizer = true;  // needs memory, mappings and signals of its own
#else
inline constexpr bool kAddressSanitizer = false;
#endif

struct ChildResult {
  int status = -1;  // as of waitpid
  std::string err;  // what it wrote to standard error
  bool ok() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
  bool ended_by(int signal) const { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }
  bool aborted() const { return ended_by(SIGABRT); }
};

// As of waitpid; -1 if there is no such child.
inline int StatusOf(pid_t child) {
  int status = -1;
  return waitpid(child, &status, 0) == child ? status : -1;
}

// How many times longer than usual anything may take: the kernel test runs in an emulated machine.
inline unsigned Patience() {
  const char* patience = getenv("TEST_PATIENCE");
  return patience != nullptr ? static_cast<unsigned>(atoi(patience)) : 1;
}

// Failures of the current test so far.
inline int CountFailures() {
  const ::testing::TestResult& result =
      *::testing::UnitTest::GetInstance()->current_test_info()->result();
  int count = 0;
  for (int i = 0; i < result.total_part_count(); ++i) {
    count += result.GetTestPartResult(i).failed() ? 1 : 0;
  }
  return count;
}

// f's failures are the child's exit status and are printed; its standard error is returned.
template <class F>
ChildResult RunInChild(F f, unsigned seconds = 220) {
  ChildResult result;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return result;
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int failures_before = CountFailures();
    alarm(seconds * Patience());
    dup2(ends[1], STDERR_FILENO);
    f();
    fflush(nullptr);
    _exit(CountFailures() == failures_before ? 0 : 1);
  }
  close(ends[1]);
  // Until the child has ended: what it leaves behind may keep the pipe open.
  bool ended = child < 0;
  for (bool last = ended; !last; last = ended) {
    ended = waitpid(child, &result.status, WNOHANG) != 0;
    pollfd readable = {ends[0], POLLIN, 0};
    while (poll(&readable, 1, ended ? 0 : 20) > 0 && (readable.revents & POLLIN) != 0) {
      char buffer[4096];
      const ssize_t n = read(ends[0], buffer, sizeof buffer);
      if (n <= 0) break;
      result.err.append(buffer, static_cast<size_t>(n));
    }
    if (!ended && (readable.revents & POLLHUP) != 0) {  // it has closed its standard error
      waitpid(child, &result.status, 0);
      ended = true;
    }
  }
  close(ends[0]);
  return result;
}

// The same, for code that must succeed.
#define EXPECT_CHILD_OK(...)                                                                 \
  do {                                                                                       \
    const auto child_result = ::gleaner::testing::RunInChild(__VA_ARGS__);                   \
    EXPECT_TRUE(child_result.ok()) << "status 0x" << std::hex << child_result.status << "\n" \
                                   << child_result.err;                                      \
  } while (false)

// A test that is all done in a child.
#define CHILD_TEST(suite, name)                                \
  void suite##name##InChild();                                 \
  TEST(suite, name) { EXPECT_CHILD_OK(suite##name##InChild); } \
  void suite##name##InChild()

// The same with a fixture, of which the child has the static members.
#define CHILD_TEST_OF(kind, suite, name)                            \
  struct suite##name##InChild : suite {                             \
    static void Run();                                              \
  };                                                                \
  kind(suite, name) { EXPECT_CHILD_OK(suite##name##InChild::Run); } \
  void suite##name##InChild::Run()
#define CHILD_TEST_F(suite, name) CHILD_TEST_OF(TEST_F, suite, name)
#define CHILD_TEST_P(suite, name) CHILD_TEST_OF(TEST_P, suite, name)

}  // namespace gleaner::testing
