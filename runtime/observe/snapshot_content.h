// What a heap snapshot holds of the process: its description, loaded objects, threads, stacks, the
// sources of roots, finalizers and links; and, by gc/inspect/snapshot_walk.h, the objects.
//
// Used by the thread that takes the snapshot (runtime/observe/snapshot.h). Call order: Init and
// WriteHead before the stop, WriteWorldStopped in it, Release.
#pragma once

#include "gc/inspect/snapshot_walk.h"
#include "platform/loader/loaded_objects.h"
#include "platform/os/readable.h"
#include "runtime/threads/threads.h"

namespace gleaner::runtime {

// Calls f(at, copy, bytes) for copies of the range's words, piece after piece, as far as they can
// be read. The system copies them: memory may be unmapped meanwhile, or end earlier than assumed.
template <class F>
void ForEachCopy(platform::Range range, F f) {
  Addr copy[512];
  for (Addr at = range.begin; at + kWordBytes <= range.end;) {
    const size_t left = AlignDown(range.end - at, kWordBytes);
    const size_t want = left < sizeof copy ? left : sizeof copy;
    const size_t got = AlignDown(platform::CopyIfMapped(copy, at, want), kWordBytes);
    f(at, copy, got);
    if (got < want) return;
    at += got;
  }
}

class SnapshotContent {
 public:
  // False without memory. `seed`: the checksum of the file's head.
  [[nodiscard]] bool Init(gc::SnapshotWriter::Write write, uint64_t seed);
  // Writes the description and the loaded objects. `reason`: why there is a snapshot.
  void WriteHead(const char* reason);
  // Writes the rest.
  void WriteWorldStopped(const gc::Marker& marker, const gc::RootTasks& roots,
                         const gc::MarkConfig& config);
  void Release();
  bool failed() const { return writer_.failed(); }

 private:
  static constexpr size_t kMaxTypeRanges = size_t{1} << 14;
  // Of a thread's stack, from the stack pointer.
  static constexpr size_t kMaxStackBytes = 256 * kKiB;

  void WriteDescription(const char* reason);
  void WriteModules();
  void WriteModule(const platform::LoadedObject& object);
  void AddTypeRange(platform::Range range);
  void WriteKinds();
  void WriteThreads();
  void WriteThread(const Thread& thread);
  void WriteStack(uint32_t number, platform::Range words);
  void WriteRoots(const gc::RootTasks& roots, bool copied);
  void WriteThreadLocals();
  void WriteCopied(const gc::RootSource& source, gc::RootKind kind, platform::Range range);
  void WriteReady();
  void WriteToggleReferences();
  gc::RootSource SourceOf(Addr address, gc::RootKind kind) const;
  void WriteFinalizers();
  void WriteLinks();
  void WriteEnd();

  gc::SnapshotWriter writer_;
  gc::SnapshotWalk walk_;
  alloc::ReservedArray<platform::Range> types_;  // sorted
  size_t type_count_ = 0;
  uint64_t stopped_ns_ = 0;  // when the walk began
};

}  // namespace gleaner::runtime
