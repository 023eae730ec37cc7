/* Every function of the family: what it returns, how that is aligned, errno, overflow. */
#define _GNU_SOURCE
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <errno.h>
#include <malloc.h>
#include <stdint.h>

#include "check.h"

/* Not in the C library any more, or not yet. */
static void (*old_cfree)(void* p);
static void (*sized)(void* p, size_t bytes);
static void (*aligned_sized)(void* p, size_t alignment, size_t bytes);

/* Not constants, so that no compiler judges them. */
static volatile size_t huge = SIZE_MAX;
static volatile size_t too_aligned = SIZE_MAX / 2 + 2;
static volatile size_t no_power_of_two = 24;
static volatile size_t four_gib = (size_t)1 << 32;

static void sizes(void) {
  for (size_t bytes = 0; bytes < 70000; bytes += bytes < 2048 ? 1 : 509) {
    void* p = malloc(bytes);
    CHECK(p != NULL && (uintptr_t)p % 16 == 0);
    CHECK(malloc_usable_size(p) >= bytes);
    fill(p, malloc_usable_size(p), (unsigned)bytes);
    void* q = calloc(1, bytes);
    CHECK(q != NULL && q != p && is_zero(q, bytes));
    fill(q, malloc_usable_size(q), (unsigned)bytes + 1);
    CHECK(holds(p, malloc_usable_size(p), (unsigned)bytes));
    CHECK(holds(q, malloc_usable_size(q), (unsigned)bytes + 1));
    free(p);
    free(q);
  }
  for (size_t bytes = 1 << 16; bytes <= (size_t)1 << 28; bytes *= 2) {
    char* p = malloc(bytes + 1);
    CHECK(p != NULL && malloc_usable_size(p) >= bytes + 1);
    p[0] = p[bytes] = 1;
    char* q = calloc(bytes / 16, 16);
    CHECK(q != NULL && q[0] == 0 && q[bytes - 1] == 0 && q[bytes / 2] == 0);
    free(p);
    free(q);
  }
}

static void unique(void) {
  void* a = malloc(0);
  void* b = malloc(0);
  CHECK(a != NULL && b != NULL && a != b);
  CHECK(realloc(a, 0) == NULL);
  free(b);
  free(NULL);
  *(void**)&old_cfree = dlsym(RTLD_DEFAULT, "cfree");
  *(void**)&sized = dlsym(RTLD_DEFAULT, "free_sized");
  *(void**)&aligned_sized = dlsym(RTLD_DEFAULT, "free_aligned_sized");
  CHECK(old_cfree != NULL && sized != NULL && aligned_sized != NULL);
  old_cfree(malloc(3));
  sized(malloc(100), 100);
  aligned_sized(aligned_alloc(64, 128), 64, 128);
  void* c = realloc(NULL, 10);
  CHECK(c != NULL);
  free(c);
  CHECK(malloc_usable_size(NULL) == 0);
}

static void alignments(void) {
  for (size_t alignment = 1; alignment <= (size_t)1 << 24; alignment *= 2) {
    for (size_t bytes = 0; bytes < 40000; bytes = bytes * 3 / 2 + 1) {
      void* p[4];
      p[0] = memalign(alignment, bytes);
      p[1] = aligned_alloc(alignment, bytes);
      if (alignment >= sizeof(void*)) {
        CHECK(posix_memalign(&p[2], alignment, bytes) == 0);
      } else {
        void* untouched = &p;
        p[2] = untouched;
        CHECK(posix_memalign(&p[2], alignment, bytes) == EINVAL && p[2] == untouched);
        p[2] = malloc(bytes);
      }
      p[3] = memalign(alignment, bytes);
      for (unsigned i = 0; i < 4; ++i) {
        CHECK(p[i] != NULL && (i == 2 || (uintptr_t)p[i] % alignment == 0));
        CHECK((uintptr_t)p[i] % alignment == 0 || alignment < sizeof(void*));
        CHECK(malloc_usable_size(p[i]) >= bytes);
        fill(p[i], bytes, i);
      }
      for (unsigned i = 0; i < 4; ++i) CHECK(holds(p[i], bytes, i));
      p[0] = realloc(p[0], bytes + 5000);
      CHECK(p[0] != NULL && holds(p[0], bytes, 0));
      for (unsigned i = 0; i < 4; ++i) free(p[i]);
    }
  }
  const size_t os_page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t bytes = 0; bytes < 20000; bytes += 777) {
    void* v = valloc(bytes);
    void* p = pvalloc(bytes);
    CHECK(v != NULL && p != NULL && (uintptr_t)v % os_page == 0 && (uintptr_t)p % os_page == 0);
    CHECK(malloc_usable_size(p) >= (bytes + os_page - 1) / os_page * os_page);
    free(v);
    free(p);
  }
  void* p = memalign(no_power_of_two, 10); /* rounded up to 32 */
  CHECK(p != NULL && (uintptr_t)p % 32 == 0);
  free(p);
  errno = 0;
  CHECK(aligned_alloc(no_power_of_two, 10) == NULL && errno == EINVAL);
  CHECK(posix_memalign(&p, 0, 1) == EINVAL && posix_memalign(&p, no_power_of_two, 1) == EINVAL);
  errno = 0;
  CHECK(memalign(too_aligned, 1) == NULL && errno == EINVAL);
}

static void reallocs(void) {
  for (size_t from = 1; from < 300000; from = from * 5 / 3 + 1) {
    for (size_t to = 1; to < 300000; to = to * 7 / 4 + 1) {
      char* p = malloc(from);
      CHECK(p != NULL);
      fill(p, from, (unsigned)from);
      p = realloc(p, to);
      CHECK(p != NULL && malloc_usable_size(p) >= to);
      CHECK(holds(p, from < to ? from : to, (unsigned)from));
      fill(p, to, (unsigned)to);
      p = reallocarray(p, 3, to);
      CHECK(p != NULL && holds(p, to, (unsigned)to));
      free(p);
    }
  }
  /* Doubling and halving in steps keep the contents. */
  size_t bytes = 1;
  char* p = malloc(bytes);
  *p = 42;
  for (; bytes < (size_t)64 << 20; bytes *= 2) {
    p = realloc(p, bytes * 2);
    CHECK(p != NULL && p[0] == 42 && (bytes == 1 || p[bytes - 1] == 43));
    p[bytes * 2 - 1] = 43;
  }
  for (; bytes > 1; bytes /= 2) {
    p = realloc(p, bytes);
    CHECK(p != NULL && p[0] == 42);
  }
  free(p);
}

static unsigned mappings(void) {
  FILE* file = fopen("/proc/self/maps", "r");
  CHECK(file != NULL);
  unsigned lines = 0;
  for (int c; (c = getc(file)) != EOF;) lines += c == '\n';
  fclose(file);
  return lines;
}

/* Blocks that are in each other's way when they grow: their pages move, and what that leaves in the
   system's account of mappings goes away with them. */
static void moves(void) {
  enum { kBlocks = 8 };
  const unsigned before = mappings();
  for (int round = 0; round < 3; ++round) {
    unsigned char* p[kBlocks];
    size_t bytes[kBlocks];
    for (unsigned i = 0; i < kBlocks; ++i) {
      bytes[i] = ((size_t)1 << 20) + 100 + i;
      p[i] = malloc(bytes[i]);
      fill(p[i], bytes[i], i);
    }
    for (int step = 0; step < 6; ++step) {
      for (unsigned i = 0; i < kBlocks; ++i) {
        const size_t more = bytes[i] * 3 / 2 + i * 1000;
        p[i] = realloc(p[i], more);
        CHECK(p[i] != NULL && holds(p[i], bytes[i], i));
        for (size_t b = bytes[i]; b < more; ++b) p[i][b] = (unsigned char)(i * 31 + b);
        bytes[i] = more;
      }
    }
    for (unsigned i = 0; i < kBlocks; ++i) {
      bytes[i] /= 3;
      p[i] = realloc(p[i], bytes[i]);
      CHECK(p[i] != NULL && holds(p[i], bytes[i], i));
    }
    for (unsigned i = 0; i < kBlocks; ++i) free(p[i]);
  }
  CHECK(mappings() <= before + 8);
}

#define FAILS(call)                           \
  do {                                        \
    errno = 0;                                \
    CHECK((call) == NULL && errno == ENOMEM); \
  } while (0)

static void failures(void) {
  const size_t too_much[] = {huge, huge - 15, huge / 2 + 1, huge / 2, (size_t)1 << 47};
  for (unsigned i = 0; i < sizeof too_much / sizeof *too_much; ++i) {
    FAILS(malloc(too_much[i]));
    FAILS(calloc(1, too_much[i]));
    FAILS(realloc(NULL, too_much[i]));
    FAILS(memalign(64, too_much[i]));
    FAILS(aligned_alloc(4096, too_much[i]));
    FAILS(valloc(too_much[i]));
    FAILS(pvalloc(too_much[i]));
    void* p = &p;
    errno = 7;
    CHECK(posix_memalign(&p, 64, too_much[i]) == ENOMEM && p == &p && errno == 7);
  }
  FAILS(calloc(huge, 2));
  FAILS(calloc(huge / 4 + 2, 4));
  FAILS(calloc(four_gib, four_gib));
  FAILS(reallocarray(NULL, huge / 2, 3));
  CHECK(calloc(0, huge) != NULL && calloc(huge, 0) != NULL);

  char* p = malloc(100);
  fill(p, 100, 9);
  FAILS(realloc(p, huge / 2));
  FAILS(realloc(p, huge));
  FAILS(reallocarray(p, huge, huge));
  CHECK(holds(p, 100, 9));
  char* large = malloc(100000);
  fill(large, 100000, 8);
  FAILS(realloc(large, huge / 2));
  CHECK(holds(large, 100000, 8));
  errno = 7;
  free(p);
  free(large);
  for (int i = 0; i < 10000; ++i) free(malloc((size_t)i * 37));
  CHECK(errno == 7);
}

static void figures(void) {
  void* small[1000];
  for (int i = 0; i < 1000; ++i) small[i] = malloc(1000);
  void* large = malloc(10000000);
  const struct mallinfo2 info = mallinfo2();
  CHECK(info.uordblks >= 1000 * 1000 + 10000000 && info.hblkhd >= 10000000);
  CHECK(mallinfo().uordblks >= 11000000);
  char text[4096] = "";
  FILE* out = fmemopen(text, sizeof text, "w");
  CHECK(malloc_info(0, out) == 0 && malloc_info(1, out) == EINVAL);
  fclose(out);
  CHECK(strstr(text, "<malloc version=\"gleaner") == text && strstr(text, "</malloc>") != NULL);
  malloc_stats();
  CHECK(mallopt(M_TRIM_THRESHOLD, 1) == 1 && mallopt(4711, 1) == 0);
  for (int i = 0; i < 1000; ++i) free(small[i]);
  free(large);
  CHECK(mallinfo2().uordblks + 10000000 <= info.uordblks);
}

static void trim(void) {
  enum { kBlocks = 64 * 1024 };
  static void* blocks[kBlocks];
  for (int i = 0; i < kBlocks; ++i) memset(blocks[i] = malloc(1000), 1, 1000);
  char* large = memset(malloc(50 << 20), 1, 50 << 20);
  const size_t before = status_bytes("VmRSS:");
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  free(large);
  CHECK(malloc_trim(0) == 1);
  const size_t after = status_bytes("VmRSS:");
  CHECK(before >= after + ((size_t)100 << 20));
  /* What went back comes back as zero. */
  large = calloc(1, 50 << 20);
  CHECK(is_zero(large, 50 << 20));
  free(large);
}

int main(void) {
  require_gleaner();
  sizes();
  unique();
  alignments();
  reallocs();
  moves();
  failures();
  figures();
  trim();
  return 0;
}
