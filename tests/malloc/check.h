/* For programs that run under LD_PRELOAD=libgleaner_malloc.so, in C and C++. */
#ifndef GLEANER_TESTS_MALLOC_CHECK_H_
#define GLEANER_TESTS_MALLOC_CHECK_H_

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Without the heap that may be what is broken. */
#define CHECK(condition)                                                                        \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      char line_[256];                                                                          \
      fflush(stdout);                                                                           \
      int n_ =                                                                                  \
          snprintf(line_, sizeof line_, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      if (write(2, line_, (size_t)n_) < 0) _exit(99);                                           \
      _exit(1);                                                                                 \
    }                                                                                           \
  } while (0)

/* A test of another malloc would prove nothing. tests/failures has a library in front of ours. */
static inline void require_gleaner(void) {
  Dl_info info;
  void* (*behind)(const char*) = (void* (*)(const char*))dlsym(RTLD_DEFAULT, "gleaner_insist_next");
  CHECK(dladdr(behind != NULL ? behind("malloc") : dlsym(RTLD_DEFAULT, "malloc"), &info) != 0);
  CHECK(strstr(info.dli_fname, "libgleaner_malloc.so") != NULL);
}

/* Bytes that tell blocks apart. */
static inline void fill(void* p, size_t bytes, unsigned tag) {
  unsigned char* at = (unsigned char*)p;
  for (size_t i = 0; i < bytes; ++i) at[i] = (unsigned char)(tag * 31 + i);
}
static inline int holds(const void* p, size_t bytes, unsigned tag) {
  const unsigned char* at = (const unsigned char*)p;
  for (size_t i = 0; i < bytes; ++i) {
    if (at[i] != (unsigned char)(tag * 31 + i)) return 0;
  }
  return 1;
}
static inline int is_zero(const void* p, size_t bytes) {
  const unsigned char* at = (const unsigned char*)p;
  for (size_t i = 0; i < bytes; ++i) {
    if (at[i] != 0) return 0;
  }
  return 1;
}

/* A field of /proc/self/status in bytes, "VmRSS:" say. */
static inline size_t status_bytes(const char* field) {
  char text[4096];
  FILE* file = fopen("/proc/self/status", "r");
  CHECK(file != NULL);
  setvbuf(file, text, _IOFBF, sizeof text);
  char line[256];
  size_t kib = 0;
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, field, strlen(field)) == 0) kib = strtoul(line + strlen(field), NULL, 10);
  }
  fclose(file);
  return kib * 1024;
}

/* What the compiler must not see through. */
static inline void* opaque(void* p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}

#endif
