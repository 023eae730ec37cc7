/* The soft limit of the process's memory. */
#include <gleaner.h>

#include "check.h"

static int g_warnings;
static GC_word g_limit;

static void GC_CALLBACK on_warning(char *message, GC_word argument) {
  if (strstr(message, "memory limit") == NULL) return;
  ++g_warnings;
  g_limit = argument;
}

static void allocate(size_t bytes) {
  for (size_t i = 0; i < bytes / 64; ++i) CHECK(GC_MALLOC(64) != NULL);
}

int main(void) {
  GC_INIT();
  GC_set_warn_proc(on_warning);
  /* No limit. */
  gleaner_set_memory_limit(UINT64_MAX);
  CHECK_EQ(gleaner_get_memory_limit(), 0);
  allocate(40u << 20);
  CHECK_EQ(g_warnings, 0);

  /* One that cannot be kept is let go, with one warning, and the program goes on. */
  gleaner_set_memory_limit(4096);
  CHECK_EQ(gleaner_get_memory_limit(), 4096);
  GC_word before = GC_get_gc_no();
  allocate(40u << 20);
  CHECK_EQ(g_warnings, 1);
  CHECK_EQ(g_limit, 4096);
  CHECK(GC_get_gc_no() > before);

  /* Another one is told of again. */
  gleaner_set_memory_limit(8192);
  allocate(40u << 20);
  CHECK_EQ(g_warnings, 2);
  CHECK_EQ(g_limit, 8192);

  /* There is room enough below this one. */
  gleaner_set_memory_limit((uint64_t)1 << 40);
  allocate(40u << 20);
  CHECK_EQ(g_warnings, 2);
  return check_result();
}
