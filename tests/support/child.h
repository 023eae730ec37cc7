// Runs a part of a test in a forked child: the heap's state is global, and some tests end the
// process.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>

namespace gleaner::testing {

struct ChildResult {
  int status = -1;  // as of waitpid
  std::string err;  // what it wrote to standard error
  bool ok() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
  bool aborted() const { return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT; }
};

// f's failures are the child's exit status and are printed; its standard error is returned.
template <class F>
ChildResult RunInChild(F f, unsigned seconds = 220) {
  ChildResult result;
  char path[] = "/tmp/gleaner_test_XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) return result;
  unlink(path);
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds);
    dup2(file, STDERR_FILENO);
    f();
    fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  if (child > 0) waitpid(child, &result.status, 0);
  char buffer[4096];
  lseek(file, 0, SEEK_SET);
  for (ssize_t n; (n = read(file, buffer, sizeof buffer)) > 0;)
    result.err.append(buffer, static_cast<size_t>(n));
  close(file);
  return result;
}

// The same, for code that must succeed.
#define EXPECT_CHILD_OK(...)                                                                 \
  do {                                                                                       \
    const auto child_result = ::gleaner::testing::RunInChild(__VA_ARGS__);                   \
    EXPECT_TRUE(child_result.ok()) << "status 0x" << std::hex << child_result.status << "\n" \
                                   << child_result.err;                                      \
  } while (false)

}  // namespace gleaner::testing
