// The variables of the libgc API that clients read and write directly, and the callbacks they set.
//
// All of them are plain words that are read at each use. A client may write them at any time, also
// before initialisation.
#pragma once

#include "gc.h"
#include "platform/os/atomic.h"
#include "platform/os/base.h"

namespace gleaner::runtime {

extern GC_has_static_roots_func g_has_static_roots;
extern GC_warn_proc g_warn_proc;
extern GC_stop_func g_stop_func;
extern GC_on_collection_event_proc g_on_collection_event;
extern GC_on_thread_event_proc g_on_thread_event;
extern GC_sp_corrector_proc g_sp_corrector;
extern GC_start_callback_proc g_start_callback;
extern GC_toggleref_func g_toggleref_func;
extern int g_handle_fork;           // GC_set_handle_fork
extern int g_manual_vdb_allowed;    // GC_set_manual_vdb_allowed
extern int g_disable_automatic;     // GC_set_disable_automatic_collection
extern bool g_force_unmap;          // GC_set_force_unmap_on_gcollect
extern GC_word g_min_bytes_allocd;  // GC_set_min_bytes_allocd; 0: the option
extern GC_word g_allocd_bytes_per_finalizer;

extern unsigned long g_time_limit_ns;  // added to GC_time_limit, which is in milliseconds
// gleaner_set_pause_goal, or the option; 0 before the options are read.
extern platform::Hint<uint64_t> g_pause_goal_ns;
// The program or its user has set the goal.
extern platform::Hint<bool> g_goal_is_set;
// gleaner_set_memory_limit, or the option; 0: that of the control group.
extern platform::Hint<uint64_t> g_memory_limit;
extern int g_rate;  // GC_set_rate

extern int g_markers_wanted;  // GC_set_markers_count; 0: the number of processors

// Limits the heap to `bytes`; 0 is no limit. Any thread, also before initialisation.
void SetMaxHeap(size_t bytes);

// Called after the options are read. Stores each option that has a variable in that variable, or
// the heap's limit, unless the client has set it before.
void ApplyOptionsToVariables();

// Warns through the client's procedure; `format` has one %-conversion for the word. The text begins
// with "GC Warning: ", by which programs recognise it, and ends with a newline.
void Warn(const char* format, GC_word argument);

// Calls the program's abort function, if it has set one. Called before the process aborts.
void TellOfAbort(const char* reason);

}  // namespace gleaner::runtime
