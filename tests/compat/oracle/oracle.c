#include "oracle.h"

#include <stdarg.h>
#include <sys/wait.h>

static const char *section;

/* Texts of the section so far. */
enum { kMaxNames = 4096 };
static struct {
  char *text;
  int times;
} names[kMaxNames];

static int times_seen(const char *text) {
  size_t i;
  for (i = 0; i < kMaxNames && names[i].text != NULL; i++)
    if (!strcmp(names[i].text, text)) return ++names[i].times;
  if (i == kMaxNames) abort();
  names[i].text = strdup(text);
  return names[i].times = 1;
}

/* Threads print, too: a line is one piece. */
static void line(const char *name, const char *format, ...) {
  int times;
  va_list arguments;
  flockfile(stdout);
  times = times_seen(name);
  printf("%s.%s", section, name);
  if (times > 1) printf("#%d", times);
  printf(" = ");
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n");
  fflush(stdout);
  funlockfile(stdout);
}

void oracle_show(const char *name, long long value) { line(name, "%lld", value); }
void oracle_show_at(const char *text, long long index, long long value) {
  char name[200];
  snprintf(name, sizeof name, "%s[%lld]", text, index);
  line(name, "%lld", value);
}
void oracle_show_hex(const char *text, long long index, unsigned long long value) {
  char name[200];
  snprintf(name, sizeof name, "%s[%lld]", text, index);
  line(name, "0x%llx", value);
}
void oracle_show_text(const char *name, const char *text) {
  line(name, "%s", text ? text : "(null)");
}

static void describe_end(int status, char *out, size_t size) {
  if (WIFSIGNALED(status))
    snprintf(out, size, "signal %d", WTERMSIG(status));
  else
    snprintf(out, size, "status %d", WEXITSTATUS(status));
}

void oracle_show_end_of(const char *name, void (*fn)(void)) {
  char text[100], buffer[4096];
  int pipes[2], status = 0;
  size_t said = 0;
  ssize_t n;
  pid_t child;
  fflush(stdout);
  if (pipe(pipes) != 0) abort();
  child = fork();
  if (child == 0) {
    close(pipes[0]);
    dup2(pipes[1], 2);
    alarm(20);
    fn();
    fflush(stdout);
    _exit(0);
  }
  close(pipes[1]);
  while ((n = read(pipes[0], buffer, sizeof buffer)) > 0) said += (size_t)n;
  close(pipes[0]);
  waitpid(child, &status, 0);
  describe_end(status, text, sizeof text);
  line(name, "%s, %s", text, said ? "with a message" : "silently");
}

static void run(const struct oracle_section *s) {
  char text[100];
  int status = 0;
  pid_t child;
  section = s->name;
  fflush(stdout);
  child = fork();
  if (child == 0) {
    alarm(60);
    if (s->initialise) GC_INIT();
    s->run();
    fflush(stdout);
    _exit(check_result());
  }
  if (waitpid(child, &status, 0) != child) abort();
  describe_end(status, text, sizeof text);
  printf("%s.exit = %s\n", s->name, text);
}

int main(int argc, char **argv) {
  const struct oracle_section *all[] = {settings_sections, object_sections,       kind_sections,
                                        thread_sections,   finalization_sections, misuse_sections};
  const struct oracle_section *s;
  size_t i;
  for (i = 0; i < sizeof all / sizeof *all; i++)
    for (s = all[i]; s->name != NULL; s++)
      if (argc < 2 || !strcmp(argv[1], s->name)) run(s);
  return 0;
}
