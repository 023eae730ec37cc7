// The GC_ API: ranges that are added to the roots or excluded from them.
//
// No call here needs an initialised runtime: the ranges are read by the next collection.
#include "runtime/api/api.h"

using runtime::g_static_roots;

namespace {

bool IsOrdered(const char* call, const void* low, const void* high) {
  if (low <= high) return true;
  Complain("%s(%p, %p): the range ends before it begins; ignored", call, low, high);
  return false;
}

}  // namespace

extern "C" {

void GC_add_roots(void* low, void* high) {
  if (!IsOrdered("GC_add_roots", low, high)) return;
  platform::LockGuard guard(g_collector.lock());
  if (!g_static_roots.added.Add({AddressOf(low), AddressOf(high)})) {
    // A collection would free objects that are referred to from that range only.
    GC_disable();
    Complain("GC_add_roots(%p, %p): no memory to note it; there are no collections from here on",
             low, high);
  }
}

void GC_remove_roots(void* low, void* high) {
  if (!IsOrdered("GC_remove_roots", low, high)) return;
  platform::LockGuard guard(g_collector.lock());
  if (!g_static_roots.added.Remove({AddressOf(low), AddressOf(high)})) {
    Complain("GC_remove_roots(%p, %p): no memory to split a root; it stays", low, high);
  }
}

void GC_clear_roots(void) {
  platform::LockGuard guard(g_collector.lock());
  g_static_roots.added.Clear();
  g_static_roots.main_data_cleared = true;
}

void GC_exclude_static_roots(void* low, void* high) {
  if (!IsOrdered("GC_exclude_static_roots", low, high)) return;
  const platform::Range range{AddressOf(low), AddressOf(high)};
  platform::LockGuard guard(g_collector.lock());
  if (g_static_roots.excluded.Overlaps(range)) {
    Complain("GC_exclude_static_roots(%p, %p): overlaps an earlier range; both are excluded", low,
             high);
  }
  if (!g_static_roots.excluded.Add(range)) {
    Complain("GC_exclude_static_roots(%p, %p): no memory to note it; it stays a root", low, high);
  }
}

void GC_clear_exclusion_table(void) {
  platform::LockGuard guard(g_collector.lock());
  g_static_roots.excluded.Clear();
}

int GC_is_tmp_root(void* address) {
  if (!runtime::IsInitialised() || GC_no_dls != 0) return 0;
  platform::LockGuard guard(g_collector.lock());
  return Threads::IsDataOfLoadedObject(AddressOf(address)) ? 1 : 0;
}

void GC_register_has_static_roots_callback(GC_has_static_roots_func filter) {
  platform::LockGuard guard(g_collector.lock());
  runtime::g_has_static_roots = filter;
}

GLEANER_SETTING(int, no_dls, GC_no_dls)
GLEANER_SETTING(GC_push_other_roots_proc, push_other_roots, GC_push_other_roots)

}  // extern "C"
