// The GC_ API: settings, and the functions that the program wants called.
//
// A setting is one word that is read at each use. So setters may be called by any thread at any
// time, also before initialisation. Some settings have no effect: they exist for programs that call
// them, and the collector has no counterpart.
#include "runtime/api/api.h"
#include "runtime/process/printing.h"

namespace {

// For GC_set_max_prior_attempts; has no effect.
constinit int g_max_prior_attempts = 1;

constinit bool g_pages_executable = false;

int NeverStop() { return 0; }

}  // namespace

extern "C" {

// --- Words that need no check ---

GLEANER_SETTING(int, dont_expand, GC_dont_expand)
GLEANER_SETTING(int, dont_precollect, GC_dont_precollect)
GLEANER_SETTING(int, find_leak, GC_find_leak)
GLEANER_SETTING(GC_word, max_retries, GC_max_retries)
GLEANER_SETTING(GC_word, non_gc_bytes, GC_non_gc_bytes)
// Callbacks that may be null.
GLEANER_SETTING(GC_on_heap_resize_proc, on_heap_resize, GC_on_heap_resize)
GLEANER_SETTING(GC_on_collection_event_proc, on_collection_event, runtime::g_on_collection_event)
GLEANER_SETTING(GC_start_callback_proc, start_callback, runtime::g_start_callback)

// --- Words with a range ---

#define SETTING_FROM(type, format, name, min, variable)                             \
  void GC_set_##name(type value) {                                                  \
    if (value >= (min)) {                                                           \
      variable = value;                                                             \
    } else {                                                                        \
      Complain("GC_set_" #name "(" format "): at least %d; ignored", value, (min)); \
    }                                                                               \
  }                                                                                 \
  type GC_get_##name(void) { return variable; }
SETTING_FROM(GC_word, "%lu", free_space_divisor, 1, GC_free_space_divisor)
SETTING_FROM(int, "%d", full_freq, 0, GC_full_freq)
SETTING_FROM(int, "%d", max_prior_attempts, 0, g_max_prior_attempts)
SETTING_FROM(int, "%d", rate, 1, runtime::g_rate)
#undef SETTING_FROM

// The larger of this value and the option min_allowance is used. 0 means never set, and reads as 1.
void GC_set_min_bytes_allocd(size_t bytes) {
  if (bytes == 0) return Complain("GC_set_min_bytes_allocd(0): at least 1; ignored");
  runtime::g_min_bytes_allocd = bytes;
}
size_t GC_get_min_bytes_allocd(void) {
  return runtime::g_min_bytes_allocd != 0 ? runtime::g_min_bytes_allocd : 1;
}

void GC_set_all_interior_pointers(int on) { GC_all_interior_pointers = on != 0 ? 1 : 0; }
int GC_get_all_interior_pointers(void) { return GC_all_interior_pointers; }

void GC_set_force_unmap_on_gcollect(int on) { runtime::g_force_unmap = on != 0; }
int GC_get_force_unmap_on_gcollect(void) { return runtime::g_force_unmap ? 1 : 0; }

void GC_set_pages_executable(int on) {
  g_pages_executable = on != 0;
  // Without effect after initialisation: the heap is mapped then.
  if (!runtime::IsInitialised()) alloc::g_space.executable = g_pages_executable;
}
int GC_get_pages_executable(void) { return g_pages_executable ? 1 : 0; }

void GC_set_time_limit(unsigned long milliseconds) { GC_time_limit = milliseconds; }
unsigned long GC_get_time_limit(void) { return GC_time_limit; }

void GC_set_time_limit_tv(GC_timeval_s limit) {
  if (limit.tv_nsec >= 1000000) {
    return Complain(
        "GC_set_time_limit_tv: %lu nanoseconds beside the milliseconds, at most 999999; "
        "ignored",
        limit.tv_nsec);
  }
  GC_time_limit = limit.tv_ms;
  runtime::g_time_limit_ns = limit.tv_nsec;
}
GC_timeval_s GC_get_time_limit_tv(void) { return {GC_time_limit, runtime::g_time_limit_ns}; }

// --- Callbacks that must not be null ---

#define REQUIRED_FUNCTION(type, name, variable)                          \
  void GC_set_##name(type fn) {                                          \
    if (!RejectNull("GC_set_" #name, "the function", fn)) variable = fn; \
  }
REQUIRED_FUNCTION(GC_oom_func, oom_fn, GC_oom_fn)
REQUIRED_FUNCTION(GC_abort_func, abort_func, GC_on_abort)
REQUIRED_FUNCTION(GC_warn_proc, warn_proc, runtime::g_warn_proc)
REQUIRED_FUNCTION(GC_stop_func, stop_func, runtime::g_stop_func)
#undef REQUIRED_FUNCTION

GC_oom_func GC_get_oom_fn(void) { return GC_oom_fn; }
GC_abort_func GC_get_abort_func(void) { return GC_on_abort; }
GC_warn_proc GC_get_warn_proc(void) { return runtime::g_warn_proc; }
GC_stop_func GC_get_stop_func(void) {
  return runtime::g_stop_func != nullptr ? runtime::g_stop_func : NeverStop;
}

void GC_ignore_warn_proc(char*, GC_word) {}

void GC_set_log_fd(int fd) {
  if (fd < 0) return Complain("GC_set_log_fd(%d): no file descriptor; ignored", fd);
  runtime::SetLogFd(fd);
}

void GC_set_manual_vdb_allowed(int on) { runtime::g_manual_vdb_allowed = on != 0 ? 1 : 0; }
int GC_get_manual_vdb_allowed(void) { return runtime::g_manual_vdb_allowed; }

}  // extern "C"
