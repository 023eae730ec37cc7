// The collector without threads or signals: its roots are a list of words, and the test sees to it
// that no other thread changes the heap during a collection.
#pragma once

#include <vector>

#include "gc/collector.h"
#include "tests/support/heap.h"

namespace gleaner::testing {

inline std::vector<void*> g_roots;  // data, not stack
inline gc::Tunables g_tunables;
// gc::World::inspect; may be null.
inline void (*g_inspect)(const gc::Marker&, const gc::RootTasks&, const gc::MarkConfig&) = nullptr;

inline bool g_world_is_stopped = false;
// Handshakes still to make: one, with the calling thread.
inline int g_handshakes = 0;

inline void StartCollector(int markers = 1) {
  g_tunables.verify = true;
  g_tunables.pacer.min_allowance_bytes = 1 * kMiB;
  static constexpr gc::World kWorld = {
      [] { return g_world_is_stopped = true; },
      [] { g_world_is_stopped = false; },
      [](gc::RootTasks* roots, Addr) {
        const Addr begin = AddressOf(g_roots.data());
        roots->Add(gc::RootKind::kData, begin, begin + g_roots.size() * sizeof(void*));
      },
      [](gc::Tunables* tunables) { *tunables = g_tunables; },
      [](gc::CycleEvent) {},
      [](Addr) {},
      []() -> gc::ToggleStatus (*)(void*) { return nullptr; },
      [](const gc::Marker& marker, const gc::RootTasks& roots, const gc::MarkConfig& config) {
        if (g_inspect != nullptr) g_inspect(marker, roots, config);
      },
      {[] { g_handshakes = 1; },
       [](Addr, gc::RootTasks*, gc::RootBuffer*) {
         if (g_handshakes == 0) return false;
         --g_handshakes;
         alloc::t_heap->ReviveRunsStopped();
         return true;
       },
       [](gc::RootPosition* position, gc::RootBuffer* words) {
         const Addr begin = AddressOf(g_roots.data());
         const bool more = position->static_bytes == 0;
         if (more) {
           words->Copy(gc::RootKind::kData, begin, begin + g_roots.size() * sizeof(void*));
         }
         position->static_bytes = 1;
         return more;
       }},
  };
  alloc::g_hooks.sweep = gc::Collector::SweepSome;
  ASSERT_TRUE(gc::g_collector.Init(kWorld, markers));
}

inline void Collect() { ASSERT_TRUE(gc::g_collector.Collect(gc::Cause::kExplicit, 0)); }

inline bool IsAllocated(const void* p) {
  alloc::ObjectRef object;
  return alloc::FindObject(AddressOf(p), &object) && object.base == AddressOf(p);
}

}  // namespace gleaner::testing
