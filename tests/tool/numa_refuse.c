/* numa_refuse CALL ERROR PROGRAM [ARGUMENT...] runs the program where a system call fails:
 * move_pages or ptrace, or mprotect of memory that becomes executable, by the number of the error.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
  const int is_mprotect = argc > 3 && strcmp(argv[1], "mprotect") == 0;
  const unsigned call = is_mprotect                                  ? SYS_mprotect
                        : argc > 3 && strcmp(argv[1], "ptrace") == 0 ? SYS_ptrace
                                                                     : SYS_move_pages;
  if (argc <= 3) return 125;
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, is_mprotect ? PROT_EXEC : ~0u, 0, is_mprotect ? 1 : 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)atoi(argv[2])),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    perror("a filter of system calls");
    return 125;
  }
  execvp(argv[3], argv + 3);
  perror(argv[3]);
  return 127;
}
