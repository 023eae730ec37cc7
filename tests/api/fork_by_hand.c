/* fork() with handle_fork -1, where the program makes the three calls itself. */
#include "forking.h"

static pid_t fork_with_calls(void) {
  pid_t child;
  GC_atfork_prepare();
  child = fork();
  if (child == 0) {
    GC_atfork_child();
    GC_start_mark_threads();
  } else {
    GC_atfork_parent();
  }
  return child;
}

int main(void) {
  fail_after(55);
  GC_set_handle_fork(-1);
  GC_INIT();
  fork_often(fork_with_calls);
  return check_result();
}
