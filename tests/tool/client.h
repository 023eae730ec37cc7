/* What clients of these tests share: garbage to make, and children to wait for. */
#ifndef GLEANER_TESTS_TOOL_CLIENT_H
#define GLEANER_TESTS_TOOL_CLIENT_H

#include <gc.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct node {
  struct node *left, *right;
};

static inline struct node *tree(int depth) {
  struct node *node = GC_MALLOC(sizeof *node);
  if (depth > 0) {
    node->left = tree(depth - 1);
    node->right = tree(depth - 1);
  }
  return node;
}

/* Ends this process if the child has not ended with status 0. Returns its number. */
static inline pid_t await_child(pid_t child) {
  int status = 1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) exit(3);
  return child;
}

/* A child that does that and ends by exit; waits for it. */
static inline void in_child(void (*work)(void)) {
  const pid_t child = fork();
  if (child == 0) {
    if (work != NULL) work();
    exit(0);
  }
  await_child(child);
}

/* A child that executes the program, with one argument more than its name. */
static inline pid_t in_program(const char *path, char *name, const char *argument) {
  const pid_t child = fork();
  if (child == 0) {
    execl(path, name, argument, (char *)NULL);
    _exit(4);
  }
  return await_child(child);
}

static inline void close_descriptors(void) {
  for (int fd = 3; fd < 4096; ++fd) close(fd);
}

#endif
