/* Programs write the variables of gc.h in place of calling setters (neko, ecl, crystal), and
   define some themselves: the program's copy of a variable is the one that the library uses, at
   each collection anew. This program is not position-independent, so that it has copies. Rules
   3, 4. */
#include "../roots/survival.h"

enum { kCount = 2000 };

/* The program's own definitions come first. */
__attribute__((visibility("default"))) int GC_full_freq = 77;
__attribute__((visibility("default"))) GC_word GC_free_space_divisor = 8;

static char *slots[kCount];

static void expect_copy(const void *variable) {
  Dl_info of_variable, of_program;
  CHECK_NE(dladdr(variable, &of_variable), 0);
  CHECK_NE(dladdr(slots, &of_program), 0);
  CHECK_PTR(of_variable.dli_fbase, of_program.dli_fbase);
}

int main(void) {
  expect_copy(&GC_all_interior_pointers);
  expect_copy(&GC_no_dls);
  expect_copy(&GC_full_freq);
  CHECK_EQ(GC_get_full_freq(), 77);
  CHECK_EQ(GC_get_free_space_divisor(), 8);
  GC_set_full_freq(5);
  CHECK_EQ(GC_full_freq, 5);
  /* neko's prelude. */
  GC_all_interior_pointers = 0;
  GC_java_finalization = 0;
  CHECK_EQ(GC_get_all_interior_pointers(), 0);
  CHECK_EQ(GC_get_java_finalization(), 0);
  GC_INIT();
  CHECK_EQ(GC_all_interior_pointers, 0);
  CHECK_EQ(GC_java_finalization, 0);
  CHECK_EQ(GC_full_freq, 5);
  CHECK_EQ(count_gone(slots, kCount, 48, 0), 0);
  CHECK_MOSTLY(count_gone(slots, kCount, 48, 8), kCount);
  /* Once the program runs. */
  GC_no_dls = 1;
  GC_clear_roots();
  CHECK_MOSTLY(count_gone(slots, kCount, 48, 0), kCount);
  return check_result();
}
