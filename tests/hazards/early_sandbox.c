/* A sandbox that is there before the program uses the library for the first time. It ends the
   process for a call that its author did not think of; he has thought of memory, threads' signals,
   messages and the time. One source for the collector (HAZARDS_GC) and for malloc, which is
   preloaded.

   usage: early_sandbox [modes]      the sandbox knows the calls of modes that were asked for, too
   exit status 77: the system lets nobody make a sandbox */
#ifdef HAZARDS_GC
#include <gc.h>
#define NEW(bytes) GC_MALLOC(bytes)
#define FREE(p) GC_FREE(p)
#else
#define NEW(bytes) calloc(1, bytes)
#define FREE(p) free(p)
#endif
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const unsigned known[] = {SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect,
                                 SYS_madvise, SYS_futex, SYS_tgkill, SYS_getpid, SYS_gettid,
                                 SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_clock_gettime,
                                 SYS_sched_yield, SYS_write, SYS_exit, SYS_exit_group,
                                 /* docs/design/reliability.md names these. */
                                 SYS_ioctl, SYS_clone3, SYS_clone, SYS_rseq, SYS_set_robust_list,
                                 SYS_sched_getaffinity, SYS_rt_sigaction};
enum { kAll = sizeof known / sizeof *known, kUsual = kAll - 7 };

static int enter_sandbox(int with_modes) {
  struct sock_filter code[2 * kAll + 2];
  struct sock_fprog program = {0, code};
  const int count = with_modes ? kAll : kUsual;
  int i, n = 0;
  code[n++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (i = 0; i < count; i++) {
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, known[i], 0, 1);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  program.len = (unsigned short)n;
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* In OS pages. */
static long address_space(void) {
  char text[200] = "";
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0 || read(file, text, sizeof text - 1) <= 0) _exit(3);
  close(file);
  return atol(text);
}

/* That of a child is none of its parent's, though a child of vfork has its memory: there the
   library must not start. */
static int child_enters_sandbox(int with_modes) {
  int status = -1;
  const long before = address_space();
  const pid_t child = vfork();
  if (child == 0) _exit(enter_sandbox(with_modes) ? 0 : 77);
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 4;
  return address_space() > before + 100000 ? 5 : WEXITSTATUS(status);
}

struct node {
  struct node *next;
  uintptr_t number;
  void *more;
};

int main(int argc, char **argv) {
  struct node *list = NULL, *node;
  uintptr_t i, round;
  const int of_child = child_enters_sandbox(argc > 1);
  (void)argv;
  if (of_child != 0) return of_child;
  if (!enter_sandbox(argc > 1)) return 77;
  for (round = 0; round < 20; round++) {
    void *big;
    for (i = 0; i < 20000; i++) {
      node = (struct node *)NEW(sizeof *node);
      node->number = i + 1;
      node->more = NEW(16 + i % 500);
      node->next = list;
      list = node;
    }
    big = NEW((size_t)3 << 20);
    ((char *)big)[0] = 1;
    FREE(big);
    if (round % 2 == 0) continue;
    for (i = 20000; list != NULL; i = i == 1 ? 20000 : i - 1) {
      if (list->number != i) return 1;
      node = list->next;
      if (round % 4 == 1) { /* else it is dropped */
        FREE(list->more);
        FREE(list);
      }
      list = node;
    }
  }
  _exit(0);
}
