// The roots in static data, and what the loader has loaded.
#include <cstring>

#include "alloc/sampler.h"
#include "platform/loader/loaded_objects.h"
#include "platform/mprotect/system_calls.h"
#include "platform/threads/stop_world.h"
#include "platform/unwind/unwind.h"
#include "runtime/process/limits.h"
#include "runtime/process/variables.h"
#include "runtime/threads/registry.h"

namespace gleaner::runtime {

using platform::LoaderGeneration;
using platform::Range;
using platform::TlsModule;

constinit StaticRoots g_static_roots;

namespace {

// Whether a shared object is another collector, judged by its file name.
bool IsCollector(const char* name) {
  const char* slash = name != nullptr ? strrchr(name, '/') : nullptr;
  const char* base = slash != nullptr ? slash + 1 : name;
  return base != nullptr &&
         (strncmp(base, "libgc.so", 8) == 0 || strncmp(base, "libgleaner.so", 13) == 0);
}

void AddSegment(void*, const char* name, Range range) {
  if (IsCollector(name)) platform::LeaveDefaultSuspendSignal();
  if (g_has_static_roots != nullptr &&
      !g_has_static_roots(name, PointerAt<void>(range.begin), range.bytes())) {
    return;
  }
  const bool is_main = name == nullptr || name[0] == 0;
  if (!(is_main ? g_registry.main_segments : g_registry.library_segments).Add(range)) {
    g_registry.is_complete = false;
  }
}

// Adds a module with thread-local storage. A module in the static block is skipped: that block is
// scanned as a whole, and a module that is in one thread's static block is in every thread's.
void AddTls(void*, TlsModule module) {
  if (!g_registry.tls_is_known) return;
  const Addr block = platform::TlsTable(platform::CurrentThreadPointer()).BlockOf(module.id);
  if (platform::CurrentStaticTls().Contains(block)) return;
  if (!g_registry.modules.EnsureCommitted(g_registry.module_count + 1)) {
    g_registry.is_complete = false;
    return;
  }
  g_registry.modules[g_registry.module_count++] = module;
}

}  // namespace

void RefreshLoadedObjects(void*) {
  if (!platform::LoaderCanBeAsked()) return;  // keeps what was known before the fork
  const LoaderGeneration now = platform::CurrentLoaderGeneration();
  if (now != g_registry.generation || !g_registry.is_complete || g_has_static_roots != nullptr ||
      g_registry.filter != nullptr) {
    // Other objects may get the addresses of those that were unloaded.
    if (now.unloads != g_registry.generation.unloads && alloc::g_sample_mean_bytes != 0) {
      platform::ForgetUnwindRules();
    }
    g_registry.generation = now;
    g_registry.filter = g_has_static_roots;
    g_registry.main_segments.Clear();
    g_registry.library_segments.Clear();
    g_registry.module_count = 0;
    g_registry.is_complete = true;
    platform::VisitLoadedObjects({AddSegment, AddTls, nullptr});
    platform::RecordLoaderList();
    platform::InterposeInNewObjects();
    ReplaceLimitsInNewObjects();
  }
}

void Threads::ForEachStaticRoot(void (*f)(void* context, Range range), void* context) {
  const auto add = [f, context](Range range) {
    g_static_roots.excluded.ForEachGap(range, [f, context](Range part) { f(context, part); });
  };
  const bool libraries = GC_no_dls == 0;
  if (libraries || !g_static_roots.main_data_cleared) {
    for (size_t i = 0; i < g_registry.main_segments.size(); ++i)
      add(g_registry.main_segments.at(i));
  }
  if (libraries) {
    for (size_t i = 0; i < g_registry.library_segments.size(); ++i) {
      add(g_registry.library_segments.at(i));
    }
  }
  for (size_t i = 0; i < g_static_roots.added.size(); ++i) add(g_static_roots.added.at(i));
}

bool Threads::IsDataOfLoadedObject(Addr address) {
  platform::WithLoaderLocked(RefreshLoadedObjects, nullptr);
  return g_registry.main_segments.Contains(address) ||
         g_registry.library_segments.Contains(address);
}

void Threads::PrepareFork() { platform::WithLoaderLocked(RefreshLoadedObjects, nullptr); }

}  // namespace gleaner::runtime
