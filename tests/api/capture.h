/* What a function prints, and how its process ends: it runs in a child, so the parent must not have
   used the collector before. */
#ifndef GLEANER_TESTS_API_CAPTURE_H
#define GLEANER_TESTS_API_CAPTURE_H

#include "check.h"

struct captured {
  char text[1 << 16]; /* of standard output and standard error; what does not fit is dropped */
  int status;         /* of waitpid */
};

/* The child ends with exit(), and with a status other than 0 if a check failed in it. */
static MAYBE_UNUSED void capture(struct captured *c, void (*fn)(void)) {
  int ends[2];
  size_t length = 0;
  char rest[1024];
  CHECK_EQ(pipe(ends), 0);
  fflush(NULL);
  pid_t child = fork();
  CHECK_GE(child, 0);
  if (child == 0) {
    check_failures = 0;
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    fn();
    exit(check_result());
  }
  close(ends[1]);
  for (;;) {
    const size_t room = sizeof c->text - 1 - length;
    const ssize_t n =
        room ? read(ends[0], c->text + length, room) : read(ends[0], rest, sizeof rest);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    if (room) length += (size_t)n;
  }
  c->text[length] = 0;
  close(ends[0]);
  CHECK_EQ(waitpid(child, &c->status, 0), child);
}

static MAYBE_UNUSED int ended_well(const struct captured *c) {
  return WIFEXITED(c->status) && WEXITSTATUS(c->status) == 0;
}
static MAYBE_UNUSED int was_aborted(const struct captured *c) {
  return WIFSIGNALED(c->status) && WTERMSIG(c->status) == SIGABRT;
}

static MAYBE_UNUSED size_t count_text(const struct captured *c, const char *text) {
  size_t count = 0;
  const char *p = c->text;
  while ((p = strstr(p, text)) != NULL) {
    count++;
    p += strlen(text);
  }
  return count;
}

/* Checks whose failure shows the text. */
#define CHECK_CAPTURED(c, condition)                          \
  ((condition) ? (void)0                                      \
               : (check_fail(__FILE__, __LINE__, #condition), \
                  (void)fprintf(stderr, "status %d, text:\n%s---\n", (c)->status, (c)->text)))
#define CHECK_SAYS(c, what) CHECK_CAPTURED(c, count_text(c, what) != 0)
#define CHECK_SILENT_ABOUT(c, what) CHECK_CAPTURED(c, count_text(c, what) == 0)
#define CHECK_ENDED_WELL(c) CHECK_CAPTURED(c, ended_well(c))
/* What fn prints whose process must end well. */
#define CAPTURE_WELL(c, fn) (capture(c, fn), CHECK_ENDED_WELL(c))

/* Writes one byte that differs from what is there, `offset` bytes from `p`: wherever that may be,
   as far as the compiler can see. */
static MAYBE_UNUSED NOINLINE void spoil(void *p, ptrdiff_t offset) {
  __asm__ __volatile__("" : "+r"(p));
  volatile unsigned char *byte = (volatile unsigned char *)p + offset;
  *byte = (unsigned char)(*byte ^ 0x5a);
}

#endif
