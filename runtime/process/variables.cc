#include "runtime/process/variables.h"

#include <cstdio>
#include <cstdlib>

#include "alloc/page_space.h"
#include "runtime/process/options.h"
#include "runtime/process/printing.h"

namespace {
void* ReturnNull(size_t) { return nullptr; }
void PushNothing() {}

// The default of GC_on_abort, as in libgc. The process aborts when it returns.
void PrintReason(const char* reason) {
  if (reason != nullptr) gleaner::runtime::Log("%s\n", reason);
}
}  // namespace

extern "C" {

int GC_all_interior_pointers = 1;
int GC_dont_expand = 0;
int GC_dont_precollect = 0;
int GC_finalize_on_demand = 0;
int GC_find_leak = 0;
int GC_full_freq = 19;
int GC_java_finalization = 1;
int GC_no_dls = 0;
int GC_parallel = 0;
unsigned long GC_time_limit = 999999;
GC_word GC_free_space_divisor = 3;
GC_word GC_gc_no = 0;
GC_word GC_max_retries = 0;
GC_word GC_non_gc_bytes = 0;
GC_abort_func GC_on_abort = PrintReason;
GC_oom_func GC_oom_fn = ReturnNull;
GC_on_heap_resize_proc GC_on_heap_resize = nullptr;
GC_finalizer_notifier_proc GC_finalizer_notifier = nullptr;
GC_push_other_roots_proc GC_push_other_roots = PushNothing;
int GC_dont_gc = 0;
int GC_use_entire_heap = 0;
char* GC_stackbottom = nullptr;
void* GC_least_plausible_heap_addr = reinterpret_cast<void*>(~uintptr_t{0});
void* GC_greatest_plausible_heap_addr = nullptr;

}  // extern "C"

namespace gleaner::runtime {

constinit GC_has_static_roots_func g_has_static_roots = nullptr;
constinit GC_stop_func g_stop_func = nullptr;
constinit GC_on_collection_event_proc g_on_collection_event = nullptr;
constinit GC_on_thread_event_proc g_on_thread_event = nullptr;
constinit GC_sp_corrector_proc g_sp_corrector = nullptr;
constinit GC_start_callback_proc g_start_callback = nullptr;
constinit GC_toggleref_func g_toggleref_func = nullptr;
constinit int g_handle_fork = 1;
constinit int g_manual_vdb_allowed = 0;
constinit int g_disable_automatic = 0;
constinit bool g_force_unmap = false;
constinit GC_word g_min_bytes_allocd = 0;
constinit GC_word g_allocd_bytes_per_finalizer = 10000;
constinit unsigned long g_time_limit_ns = 0;
constinit platform::Hint<uint64_t> g_pause_goal_ns{0};
constinit platform::Hint<bool> g_goal_is_set{false};
constinit platform::Hint<uint64_t> g_memory_limit{0};
constinit int g_rate = 10;
constinit int g_markers_wanted = 0;

namespace {

// The client has set a limit.
constinit bool g_max_heap_is_set = false;

void PrintWarning(char* format, GC_word argument) {
  char message[256];
  snprintf(message, sizeof message, format, argument);
  Log("%s", message);
}

}  // namespace

// The default procedure is skipped: the message has been printed.
void TellOfAbort(const char* reason) {
  if (GC_on_abort != nullptr && GC_on_abort != PrintReason) GC_on_abort(reason);
}

constinit GC_warn_proc g_warn_proc = PrintWarning;

void Warn(const char* format, GC_word argument) {
  g_warn_proc(const_cast<char*>(format), argument);
}

void SetMaxHeap(size_t bytes) {
  g_max_heap_is_set = true;
  alloc::SetHeapLimit(bytes);
}

void ApplyOptionsToVariables() {
  if (!g_max_heap_is_set) alloc::SetHeapLimit(static_cast<size_t>(g_options.max_heap));
  if (GC_all_interior_pointers == 1)
    GC_all_interior_pointers = g_options.all_interior_pointers ? 1 : 0;
  if (GC_free_space_divisor == 3) GC_free_space_divisor = g_options.free_space_divisor;
  if (g_options.dont_gc) GC_dont_gc = 1;
  if (GC_full_freq == 19) GC_full_freq = static_cast<int>(g_options.full_frequency);
  if (GC_time_limit == GC_TIME_UNLIMITED) GC_time_limit = g_options.pause_time_target;
  if (g_pause_goal_ns.Get() == 0) {
    constexpr double kDefaultMs = 10;
    const double goal_ms = g_options.pause_goal != 0 ? g_options.pause_goal : kDefaultMs;
    g_pause_goal_ns.Set(static_cast<uint64_t>(goal_ms * 1e6));
    g_goal_is_set.Set(g_options.pause_goal != 0);
  }
  if (g_memory_limit.Get() == 0) g_memory_limit.Set(g_options.memory_limit);
  if (g_options.use_entire_heap) GC_use_entire_heap = 1;
  if (g_options.find_leak) GC_find_leak = 1;
  if (g_options.unmap_on_gcollect) g_force_unmap = true;
}

}  // namespace gleaner::runtime
