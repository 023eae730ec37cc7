/* The dynamic symbols: every function of gc.h is there under its own name, without a version, and
   every variable has the size that copy relocations of existing programs expect. */
#include "check.h"

#include <elf.h>
#include <link.h>

static const char *const kFunctions[] = {
    "GC_abort_on_oom",
    "GC_add_roots",
    "GC_alloc_lock",
    "GC_alloc_unlock",
    "GC_allow_register_threads",
    "GC_atfork_child",
    "GC_atfork_parent",
    "GC_atfork_prepare",
    "GC_base",
    "GC_call_with_alloc_lock",
    "GC_call_with_gc_active",
    "GC_call_with_stack_base",
    "GC_change_stubborn",
    "GC_clear_exclusion_table",
    "GC_clear_roots",
    "GC_clear_stack",
    "GC_collect_a_little",
    "GC_deinit",
    "GC_disable",
    "GC_dlopen",
    "GC_do_blocking",
    "GC_enable",
    "GC_end_stubborn_change",
    "GC_exclude_static_roots",
    "GC_expand_hp",
    "GC_finalize_all",
    "GC_free",
    "GC_gcollect",
    "GC_gcollect_and_unmap",
    "GC_general_register_disappearing_link",
    "GC_get_abort_func",
    "GC_get_all_interior_pointers",
    "GC_get_allocd_bytes_per_finalizer",
    "GC_get_await_finalize_proc",
    "GC_get_bytes_since_gc",
    "GC_get_disable_automatic_collection",
    "GC_get_dont_expand",
    "GC_get_dont_precollect",
    "GC_get_expl_freed_bytes_since_gc",
    "GC_get_finalize_on_demand",
    "GC_get_finalizer_notifier",
    "GC_get_force_unmap_on_gcollect",
    "GC_get_free_bytes",
    "GC_get_free_space_divisor",
    "GC_get_full_freq",
    "GC_get_full_gc_total_time",
    "GC_get_gc_no",
    "GC_get_heap_size",
    "GC_get_heap_usage_safe",
    "GC_get_java_finalization",
    "GC_get_max_prior_attempts",
    "GC_get_max_retries",
    "GC_get_memory_use",
    "GC_get_min_bytes_allocd",
    "GC_get_my_stackbottom",
    "GC_get_no_dls",
    "GC_get_non_gc_bytes",
    "GC_get_obtained_from_os_bytes",
    "GC_get_on_collection_event",
    "GC_get_on_heap_resize",
    "GC_get_on_thread_event",
    "GC_get_oom_fn",
    "GC_get_pages_executable",
    "GC_get_parallel",
    "GC_get_prof_stats",
    "GC_get_prof_stats_unsafe",
    "GC_get_push_other_roots",
    "GC_get_rate",
    "GC_get_size_map_at",
    "GC_get_stack_base",
    "GC_get_start_callback",
    "GC_get_stop_func",
    "GC_get_suspend_signal",
    "GC_get_thr_restart_signal",
    "GC_get_time_limit",
    "GC_get_time_limit_tv",
    "GC_get_total_bytes",
    "GC_get_unmapped_bytes",
    "GC_get_version",
    "GC_get_warn_proc",
    "GC_ignore_warn_proc",
    "GC_init",
    "GC_invoke_finalizers",
    "GC_is_disabled",
    "GC_is_heap_ptr",
    "GC_is_init_called",
    "GC_is_thread_suspended",
    "GC_is_tmp_root",
    "GC_is_valid_displacement",
    "GC_is_visible",
    "GC_malloc",
    "GC_malloc_atomic",
    "GC_malloc_atomic_ignore_off_page",
    "GC_malloc_atomic_uncollectable",
    "GC_malloc_ignore_off_page",
    "GC_malloc_stubborn",
    "GC_malloc_uncollectable",
    "GC_memalign",
    "GC_move_disappearing_link",
    "GC_move_long_link",
    "GC_noop1",
    "GC_posix_memalign",
    "GC_post_incr",
    "GC_pre_incr",
    "GC_pthread_cancel",
    "GC_pthread_create",
    "GC_pthread_detach",
    "GC_pthread_exit",
    "GC_pthread_join",
    "GC_pthread_sigmask",
    "GC_ptr_store_and_dirty",
    "GC_realloc",
    "GC_register_altstack",
    "GC_register_disappearing_link",
    "GC_register_displacement",
    "GC_register_finalizer",
    "GC_register_finalizer_ignore_self",
    "GC_register_finalizer_no_order",
    "GC_register_finalizer_unreachable",
    "GC_register_has_static_roots_callback",
    "GC_register_long_link",
    "GC_register_my_thread",
    "GC_remove_roots",
    "GC_resume_thread",
    "GC_same_obj",
    "GC_set_abort_func",
    "GC_set_all_interior_pointers",
    "GC_set_allocd_bytes_per_finalizer",
    "GC_set_await_finalize_proc",
    "GC_set_disable_automatic_collection",
    "GC_set_dont_expand",
    "GC_set_dont_precollect",
    "GC_set_finalize_on_demand",
    "GC_set_finalizer_notifier",
    "GC_set_force_unmap_on_gcollect",
    "GC_set_free_space_divisor",
    "GC_set_full_freq",
    "GC_set_handle_fork",
    "GC_set_java_finalization",
    "GC_set_log_fd",
    "GC_set_markers_count",
    "GC_set_max_heap_size",
    "GC_set_max_prior_attempts",
    "GC_set_max_retries",
    "GC_set_min_bytes_allocd",
    "GC_set_no_dls",
    "GC_set_non_gc_bytes",
    "GC_set_on_collection_event",
    "GC_set_on_heap_resize",
    "GC_set_on_thread_event",
    "GC_set_oom_fn",
    "GC_set_pages_executable",
    "GC_set_push_other_roots",
    "GC_set_rate",
    "GC_set_stackbottom",
    "GC_set_start_callback",
    "GC_set_stop_func",
    "GC_set_suspend_signal",
    "GC_set_thr_restart_signal",
    "GC_set_time_limit",
    "GC_set_time_limit_tv",
    "GC_set_warn_proc",
    "GC_should_invoke_finalizers",
    "GC_size",
    "GC_start_mark_threads",
    "GC_start_performance_measurement",
    "GC_start_world_external",
    "GC_stop_world_external",
    "GC_strdup",
    "GC_strndup",
    "GC_suspend_thread",
    "GC_thread_is_registered",
    "GC_try_to_collect",
    "GC_unregister_disappearing_link",
    "GC_unregister_long_link",
    "GC_unregister_my_thread",
};

/* Those that libgc 8.2.2 as Debian builds it has not. */
static const char *const kLaterFunctions[] = {
    "GC_valloc",
    "GC_pvalloc",
    "GC_wcsdup",
};

struct variable {
  const char *name;
  size_t size;
};
static const struct variable kVariables[] = {
    {"GC_all_interior_pointers", 4},
    {"GC_dont_expand", 4},
    {"GC_dont_gc", 4},
    {"GC_dont_precollect", 4},
    {"GC_finalize_on_demand", 4},
    {"GC_finalizer_notifier", 8},
    {"GC_free_space_divisor", 8},
    {"GC_full_freq", 4},
    {"GC_gc_no", 8},
    {"GC_greatest_plausible_heap_addr", 8},
    {"GC_is_valid_displacement_print_proc", 8},
    {"GC_is_visible_print_proc", 8},
    {"GC_java_finalization", 4},
    {"GC_least_plausible_heap_addr", 8},
    {"GC_max_retries", 8},
    {"GC_no_dls", 4},
    {"GC_non_gc_bytes", 8},
    {"GC_on_abort", 8},
    {"GC_on_heap_resize", 8},
    {"GC_oom_fn", 8},
    {"GC_parallel", 4},
    {"GC_push_other_roots", 8},
    {"GC_same_obj_print_proc", 8},
    {"GC_stackbottom", 8},
    {"GC_time_limit", 8},
    {"GC_use_entire_heap", 4},
};

static void *library;

static const ElfW(Sym) * find(const char *name) {
  Dl_info info;
  const ElfW(Sym) *entry = NULL;
  void *address = dlsym(library, name);
  if (address == NULL) {
    fprintf(stderr, "%s is missing\n", name);
    check_failures++;
    return NULL;
  }
  CHECK_NE(dladdr1(address, &info, (void **)&entry, RTLD_DL_SYMENT), 0);
  return entry;
}

static void check_function(const char *name) {
  const ElfW(Sym) *entry = find(name);
  if (entry && (ELF64_ST_TYPE(entry->st_info) != STT_FUNC || entry->st_other != STV_DEFAULT)) {
    fprintf(stderr, "%s is no function of default visibility\n", name);
    check_failures++;
  }
}

int main(void) {
  size_t i;
  GC_INIT();
  /* The library's own definitions, not this program's copies of its variables. */
  library = dlopen("libgc.so.1", RTLD_NOW | RTLD_NOLOAD);
  CHECK(library != NULL);
  for (i = 0; i < sizeof kFunctions / sizeof *kFunctions; i++) check_function(kFunctions[i]);
  if (on_gleaner())
    for (i = 0; i < sizeof kLaterFunctions / sizeof *kLaterFunctions; i++)
      check_function(kLaterFunctions[i]);
  for (i = 0; i < sizeof kVariables / sizeof *kVariables; i++) {
    const ElfW(Sym) *entry = find(kVariables[i].name);
    if (entry == NULL) continue;
    if (ELF64_ST_TYPE(entry->st_info) != STT_OBJECT || entry->st_size != kVariables[i].size) {
      fprintf(stderr, "%s has %zu bytes instead of %zu\n", kVariables[i].name,
              (size_t)entry->st_size, kVariables[i].size);
      check_failures++;
    }
  }

  /* A variable that the program refers to directly is the one that the library uses. */
  CHECK_EQ(GC_gc_no, GC_get_gc_no());
  GC_gcollect();
  CHECK_EQ(GC_gc_no, GC_get_gc_no());
  CHECK(GC_least_plausible_heap_addr < GC_greatest_plausible_heap_addr);
  CHECK(GC_stackbottom != NULL);
  return check_result();
}
