/* fork() in a program with threads, with the library's own fork handlers. */
#include "forking.h"

int main(void) {
  fail_after(55);
  GC_set_handle_fork(1);
  GC_INIT();
  fork_often(fork);
  return check_result();
}
