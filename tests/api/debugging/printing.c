/* Printing and dumps: where the text goes, and that the dumps name what is there. */
#include "capture.h"

#include <fcntl.h>
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>

static char path[] = "/tmp/gleaner_printing_XXXXXX";
static void *object;
static void *link_to_it;

static void GC_CALLBACK nothing(void *p, void *data) {}

/* What is in the file at `path`. */
static const char *contents(void) {
  static char text[1 << 16];
  const int fd = open(path, O_RDONLY);
  const ssize_t n = read(fd, text, sizeof text - 1);
  text[n > 0 ? n : 0] = 0;
  close(fd);
  return text;
}

static void to_all(void) {
  GC_INIT();
  GC_printf("to %s %d\n", "output", 1);
  GC_err_printf("to %s %d\n", "error", 2);
  GC_log_printf("to %s %d\n", "log", 3);
}

static void to_output_only(void) {
  close(STDERR_FILENO);
  to_all();
}

static void to_log_fd(void) {
  GC_INIT();
  GC_set_log_fd(open(path, O_WRONLY | O_TRUNC));
  GC_log_printf("into the log\n");
  GC_err_printf("to standard error\n");
}

static void to_log_file(void) {
  setenv("GC_LOG_FILE", path, 1);
  to_all();
}

static void only_log_to_file(void) {
  setenv("GC_ONLY_LOG_TO_FILE", "1", 1);
  to_log_file();
}

static void long_text(void) {
  char text[4000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  GC_INIT();
  if (on_gleaner()) GC_printf("%s", text); /* libgc aborts */
  GC_printf("%.900s\n", text);
}

static void dumps(void) {
  GC_INIT();
  object = GC_malloc(100);
  GC_register_finalizer(object, nothing, NULL, NULL, NULL);
  link_to_it = (void *)GC_HIDE_POINTER(object);
  GC_general_register_disappearing_link(&link_to_it, object);
  GC_gcollect();
  GC_dump();
  GC_dump_named("a name");
  printf("<%p>\n", object);
  printf("<%p>\n", (void *)&link_to_it);
  fflush(stdout);
  GC_dump_finalization();
  GC_dump_regions();
}

static void regular_dumps(void) {
  setenv("GC_DUMP_REGULARLY", "1", 1);
  GC_INIT();
  GC_gcollect();
  GC_gcollect();
}

static void address_map(void) {
  setenv("GC_PRINT_ADDRESS_MAP", "1", 1);
  GC_INIT();
  GC_gcollect();
}

static void free_list(void) {
  GC_INIT();
  GC_free(GC_malloc(60));
  GC_malloc(60);
  GC_print_free_list(1, 4);
}

static void counts(void) {
  GC_INIT();
  GC_disable();
  size_t allocated = GC_get_bytes_since_gc();
  size_t freed = GC_get_expl_freed_bytes_since_gc();
  GC_incr_bytes_allocd(100);
  GC_incr_bytes_freed(50);
  CHECK_EQ(GC_get_bytes_since_gc() - allocated, 100);
  CHECK_EQ(GC_get_expl_freed_bytes_since_gc() - freed, 50);
}

static void wrong_kinds(void) {
  GC_INIT();
  GC_print_free_list(-1, 4);
  GC_print_free_list(99, 4);
  GC_register_describe_type_fn(-1, NULL);
  GC_register_describe_type_fn(16, NULL);
}

int main(void) {
  static struct captured c;
  char text[64];
  fail_after(50);
  CHECK_GE(mkstemp(path), 0);

  CAPTURE_WELL(&c, to_all);
  CHECK_SAYS(&c, "to output 1\nto error 2\nto log 3\n");

  capture(&c, to_output_only);
  CHECK_SAYS(&c, "to output 1\n");
  CHECK_SILENT_ABOUT(&c, "to error");

  CAPTURE_WELL(&c, to_log_fd);
  CHECK_SAYS(&c, "to standard error");
  CHECK_SILENT_ABOUT(&c, "into the log");
  CHECK(strstr(contents(), "into the log") != NULL);

  CAPTURE_WELL(&c, to_log_file);
  CHECK_SILENT_ABOUT(&c, "to ");
  CHECK(strstr(contents(), "to output 1\nto error 2\nto log 3\n") != NULL);

  CHECK_EQ(truncate(path, 0), 0);
  CAPTURE_WELL(&c, only_log_to_file);
  CHECK_SAYS(&c, "to output 1\nto error 2\n");
  CHECK(strstr(contents(), "to log 3\n") != NULL);
  CHECK(strstr(contents(), "to error") == NULL);

  CAPTURE_WELL(&c, long_text);
  CHECK_CAPTURED(&c, strlen(c.text) >= 901);
  if (on_gleaner()) CHECK_EQ(strlen(c.text), 1023 + 901);

  CAPTURE_WELL(&c, dumps);
  CHECK_SAYS(&c, "a name");
  CHECK_SAYS(&c, "oots");
  CHECK_SAYS(&c, "eap");
  /* The addresses come back in the dump of finalizers and links. */
  const char *at = strchr(c.text, '<');
  if (at != NULL && sscanf(at, "<%60[0-9a-fx]", text) == 1) {
    CHECK_CAPTURED(&c, count_text(&c, text) >= 3);
    at = strchr(at + 1, '<');
  }
  if (at != NULL && sscanf(at, "<%60[0-9a-fx]", text) == 1) {
    CHECK_CAPTURED(&c, count_text(&c, text) >= 2);
  }
  CHECK(at != NULL);

  CAPTURE_WELL(&c, regular_dumps);
  if (on_gleaner()) CHECK_CAPTURED(&c, count_text(&c, "dump: collection") == 3);
  CHECK_SAYS(&c, "oots");

  CAPTURE_WELL(&c, address_map);
  CHECK_SAYS(&c, "[stack]");

  CAPTURE_WELL(&c, free_list);
  CHECK_SAYS(&c, "0x");

  CAPTURE_WELL(&c, counts);

  if (on_gleaner()) {
    CAPTURE_WELL(&c, wrong_kinds);
    CHECK_CAPTURED(&c, count_text(&c, "GC_print_free_list") == 2);
    CHECK_CAPTURED(&c, count_text(&c, "GC_register_describe_type_fn") == 2);
  }
  unlink(path);
  return check_result();
}
