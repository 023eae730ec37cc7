/* Rule 4: no -Bsymbolic, no protected visibility, the exact sizes of the data, no symbol versions:
   the program's copy of a variable is the one the library uses. */
#include "check.h"

/* After check.h, which asks for the extensions. */
#include <elf.h>
#include <link.h>

/* The program's own definition comes first. */
__attribute__((visibility("default"))) int GC_full_freq = 77;
__attribute__((visibility("default"))) GC_word GC_free_space_divisor = 8;

static const struct {
  const char *name;
  size_t bytes;
} variables[] = {{"GC_all_interior_pointers", 4},
                 {"GC_aobjfreelist_ptr", 8},
                 {"GC_auobjfreelist_ptr", 8},
                 {"GC_debug_header_size", 8},
                 {"GC_dont_expand", 4},
                 {"GC_dont_gc", 4},
                 {"GC_dont_precollect", 4},
                 {"GC_finalize_on_demand", 4},
                 {"GC_finalizer_notifier", 8},
                 {"GC_find_leak", 4},
                 {"GC_free_space_divisor", 8},
                 {"GC_full_freq", 4},
                 {"GC_gc_no", 8},
                 {"GC_gcj_debug_kind", 4},
                 {"GC_gcj_kind", 4},
                 {"GC_greatest_plausible_heap_addr", 8},
                 {"GC_is_valid_displacement_print_proc", 8},
                 {"GC_is_visible_print_proc", 8},
                 {"GC_java_finalization", 4},
                 {"GC_least_plausible_heap_addr", 8},
                 {"GC_max_retries", 8},
                 {"GC_no_dls", 4},
                 {"GC_non_gc_bytes", 8},
                 {"GC_objfreelist_ptr", 8},
                 {"GC_on_abort", 8},
                 {"GC_on_heap_resize", 8},
                 {"GC_oom_fn", 8},
                 {"GC_parallel", 4},
                 {"GC_push_other_roots", 8},
                 {"GC_same_obj_print_proc", 8},
                 {"GC_stackbottom", 8},
                 {"GC_time_limit", 8},
                 {"GC_uobjfreelist_ptr", 8},
                 {"GC_use_entire_heap", 4}};

int main(void) {
  void *library = dlopen("libgc.so.1", RTLD_NOW | RTLD_NOLOAD);
  struct link_map *map = NULL;
  const ElfW(Dyn) * entry;
  size_t i;
  CHECK_EQ(GC_get_full_freq(), 77);
  CHECK_EQ(GC_get_free_space_divisor(), 8);
  GC_set_full_freq(5);
  CHECK_EQ(GC_full_freq, 5);
  GC_INIT();
  CHECK_EQ(GC_full_freq, 5);
  CHECK(library != NULL);
  if (library == NULL) return check_result();
  for (i = 0; i < sizeof variables / sizeof *variables; i++) {
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    void *address = dlsym(library, variables[i].name);
    if (address == NULL || dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) == 0 ||
        symbol == NULL) {
      fprintf(stderr, "no variable %s\n", variables[i].name);
      check_failures++;
      continue;
    }
    if (symbol->st_size != variables[i].bytes || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT ||
        ELF64_ST_VISIBILITY(symbol->st_other) != STV_DEFAULT) {
      fprintf(stderr, "%s: size %lu, info 0x%x, visibility %d\n", variables[i].name,
              (unsigned long)symbol->st_size, symbol->st_info,
              ELF64_ST_VISIBILITY(symbol->st_other));
      check_failures++;
    }
  }
  CHECK_EQ(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
  for (entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
    CHECK_NE(entry->d_tag, DT_SYMBOLIC);
    CHECK_NE(entry->d_tag, DT_VERDEF);
    if (entry->d_tag == DT_FLAGS) CHECK_EQ(entry->d_un.d_val & DF_SYMBOLIC, 0);
  }
  return check_result();
}
