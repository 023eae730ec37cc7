#include "runtime/observe/snapshot_content.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>

#include "alloc/page_space.h"
#include "gc/collector.h"
#include "platform/os/clock.h"
#include "platform/os/process.h"
#include "platform/os/readable.h"
#include "runtime/debug/findings.h"
#include "runtime/process/options.h"
#include "runtime/process/printing.h"
#include "runtime/process/variables.h"
#include "runtime/threads/registry.h"

namespace gleaner::runtime {

using gc::g_collector;
using gc::SnapshotBlock;
using platform::Range;

bool SnapshotContent::Init(gc::SnapshotWriter::Write write, uint64_t seed) {
  type_count_ = 0;
  if (writer_.Init(write, nullptr, seed) && walk_.Init(&writer_) &&
      types_.Reserve(kMaxTypeRanges)) {
    return true;
  }
  Release();
  return false;
}

void SnapshotContent::Release() {
  types_.Release();
  walk_.Release();
  writer_.Release();
}

// --- Before the stop ---

void SnapshotContent::WriteHead(const char* reason) {
  WriteDescription(reason);
  WriteModules();
}

void SnapshotContent::WriteDescription(const char* reason) {
  static char text[8192];  // as `command`: a thread may have a small stack
  static char command[4096];
  platform::ReadCommandLine(command, sizeof command);
  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const auto wall_ns =
      static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
  static const char* const kModes[] = {"auto", "stop", "concurrent", "generational"};
  const int n = snprintf(
      text, sizeof text,
      "version=%s\nprocess=%d\nparent=%d\nhost=%s\nwall_ns=%llu\nreason=%s\nmode=%s\n"
      "collections=%llu\nmarkers=%d\npage_bytes=%zu\nheap_begin=%llu\nresident_bytes=%zu\n"
      "interior_pointers=%d\ncommand=%s\n",
      GLEANER_VERSION, getpid(), getppid(), host, AsNumber(wall_ns), reason, kModes[g_options.mode],
      AsNumber(g_collector.collections()), g_collector.pool().size(), alloc::kPageBytes,
      AsNumber(alloc::g_space.base), alloc::ResidentBytes(), GC_all_interior_pointers, command);
  writer_.Begin(SnapshotBlock::kDescription);
  writer_.Bytes(text, n < 0 ? 0 : static_cast<size_t>(n));
  writer_.End();
}

void SnapshotContent::WriteModules() {
  writer_.Begin(SnapshotBlock::kModules);
  {
    platform::LockGuard guard(g_collector.lock());
    platform::VisitObjects(
        [](void* content, const platform::LoadedObject& object) {
          static_cast<SnapshotContent*>(content)->WriteModule(object);
        },
        this);
  }
  writer_.End();
}

void SnapshotContent::WriteModule(const platform::LoadedObject& object) {
  constexpr size_t kMaxSegments = 64;
  constexpr size_t kMaxBuildId = 64;
  constexpr size_t kMaxText = 4096;
  static char program[kMaxText];
  const char* name = object.name;
  if (name[0] == 0 && platform::ReadProgramPath(program, sizeof program)) name = program;
  const size_t name_bytes = strlen(name);
  platform::LoadedSegment segments[kMaxSegments];
  size_t count = 0;
  for (size_t i = 0; i < object.segments && count < kMaxSegments; ++i) {
    if (GetSegment(object, i, &segments[count])) ++count;
  }
  writer_.BreakIfFull(4 * kMaxText);
  writer_.Text(name, name_bytes < kMaxText ? name_bytes : kMaxText);
  writer_.Number(object.bias);
  writer_.Text(reinterpret_cast<const char*>(object.build_id),
               object.build_id_bytes < kMaxBuildId ? object.build_id_bytes : kMaxBuildId);
  writer_.Number(count);
  for (size_t i = 0; i < count; ++i) {
    writer_.Number(segments[i].range.begin);
    writer_.Number(segments[i].range.bytes());
    writer_.Number(segments[i].offset);
    writer_.Number(segments[i].flags);
    constexpr uint32_t kExecutable = 1;
    if ((segments[i].flags & kExecutable) == 0) AddTypeRange(segments[i].range);
  }
}

void SnapshotContent::AddTypeRange(Range range) {
  if (!types_.EnsureCommitted(type_count_ + 1)) return;
  size_t i = type_count_++;
  for (; i > 0 && types_[i - 1].begin > range.begin; --i) types_[i] = types_[i - 1];
  types_[i] = range;
}

// --- In the stop ---

void SnapshotContent::WriteWorldStopped(const gc::Marker& marker, const gc::RootTasks& roots,
                                        const gc::MarkConfig& config) {
  stopped_ns_ = platform::NowNs();
  WriteKinds();
  WriteThreads();
  walk_.Begin(marker, config, {types_.data(), type_count_});
  walk_.WriteObjects();
  writer_.Begin(SnapshotBlock::kRoots);
  WriteRoots(roots, false);
  WriteThreadLocals();
  WriteReady();
  WriteToggleReferences();
  WriteRoots(roots, true);
  writer_.End();
  WriteFinalizers();
  WriteLinks();
  WriteEnd();
}

void SnapshotContent::WriteKinds() {
  writer_.Begin(SnapshotBlock::kKinds);
  for (size_t i = 0; i < gc::g_kind_count; ++i) {
    const auto kind = static_cast<alloc::Kind>(i);
    char name[32];
    if (i < alloc::kBuiltInKinds) {
      snprintf(name, sizeof name, "%s", NameOf(kind));
    } else {
      snprintf(name, sizeof name, "KIND %zu", i);
    }
    const alloc::Contents contents = alloc::ContentsOf(kind);
    writer_.Text(name, strlen(name));
    uint64_t flags = 0;
    if (contents == alloc::Contents::kPointerFree) flags |= gc::kKindPointerFree;
    if (contents == alloc::Contents::kDescribed) flags |= gc::kKindDescribed;
    if (IsUncollectable(kind)) flags |= gc::kKindUncollectable;
    if (gc::RowOf(kind).disclaim != nullptr) flags |= gc::kKindDisclaims;
    writer_.Number(flags);
  }
  writer_.End();
}

// --- Threads ---

void SnapshotContent::WriteThreads() {
  writer_.Begin(SnapshotBlock::kThreads);
  for (size_t i = 0; i < g_registry.count; ++i) WriteThread(*ThreadAt(i));
  writer_.End();
  for (size_t i = 0; i < g_registry.count; ++i) {
    const Thread& thread = *ThreadAt(i);
    const Addr low = thread.stack_pointer;
    if (low == 0) continue;
    const auto number = static_cast<uint32_t>(i + 1);
    if (thread.stack.Contains(low)) {
      WriteStack(number, {low, thread.stack.end});
    } else if (thread.alternate_stack_end > low) {
      WriteStack(number, {low, thread.alternate_stack_end});
    } else if (const Fiber* fiber = Fibers::FindWorldStopped(low); fiber != nullptr) {
      WriteStack(number, {low, fiber->stack.end});
    }
  }
}

void SnapshotContent::WriteThread(const Thread& thread) {
  char path[64];
  char name[64] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/comm", thread.tid);
  if (platform::ReadSmallFile(path, name, sizeof name) != 0) name[0] = 0;
  if (char* end = strrchr(name, '\n'); end != nullptr) *end = 0;  // the last: names may have some
  platform::StoppedRegisters registers;
  const bool known = thread.stack_pointer != 0 && GetStoppedRegisters(thread, &registers);
  constexpr size_t kMaxThreadBytes = 1024;
  writer_.BreakIfFull(kMaxThreadBytes);
  writer_.Number(static_cast<uint64_t>(thread.tid));
  uint64_t flags = 0;
  if (thread.is_main) flags |= gc::kThreadIsMain;
  if (&thread == Threads::Current()) flags |= gc::kThreadTookSnapshot;
  writer_.Number(flags);
  writer_.Text(name, strlen(name));
  writer_.Number(thread.stack.begin);
  writer_.Number(thread.stack.bytes());
  writer_.Number(thread.stack_pointer);
  uint64_t count = 0;
  for (size_t i = 0; known && i < registers.kMax; ++i) count += registers.is_known[i] ? 1 : 0;
  writer_.Number(count);
  for (size_t i = 0; known && i < registers.kMax; ++i) {
    if (!registers.is_known[i]) continue;
    writer_.Number(i);
    writer_.Number(registers.value[i]);
  }
}

void SnapshotContent::WriteStack(uint32_t number, Range words) {
  words.begin = AlignDown(words.begin, kWordBytes);
  if (words.bytes() > kMaxStackBytes) words.end = words.begin + kMaxStackBytes;
  writer_.Begin(SnapshotBlock::kStack);
  const uint64_t head[] = {number, words.begin};
  writer_.Bytes(head, sizeof head);
  ForEachCopy(words, [this](Addr, const Addr* copy, size_t bytes) { writer_.Bytes(copy, bytes); });
  writer_.End();
}

// --- Finalizers, links, the end ---

void SnapshotContent::WriteFinalizers() {
  constexpr size_t kBytes = 64;
  writer_.Begin(SnapshotBlock::kFinalizers);
  const auto write = [this](Addr object, const auto& finalizer, bool is_queued) {
    if (finalizer.function == nullptr) return;  // of an object that was freed
    writer_.BreakIfFull(kBytes);
    writer_.Number(object);
    writer_.Number(AddressOf(reinterpret_cast<const void*>(finalizer.function)));
    writer_.Number(is_queued ? 1 : 0);
    writer_.Number(AddressOf(&finalizer.data));
  };
  g_collector.registered().finalizers.ForEach(
      [&write](Addr object, const gc::Finalizer& finalizer) { write(object, finalizer, false); });
  g_collector.registered().finalizers.ForEachReady([&write](const gc::Finalizers::Ready& ready) {
    write(AddressOf(ready.object), ready, true);
  });
  writer_.End();
}

void SnapshotContent::WriteLinks() {
  constexpr size_t kBytes = 64;
  writer_.Begin(SnapshotBlock::kLinks);
  for (const bool is_long : {false, true}) {
    gc::Links& links =
        is_long ? g_collector.registered().long_links : g_collector.registered().short_links;
    links.ForEach([this, is_long](Addr link, Addr object) {
      writer_.BreakIfFull(kBytes);
      writer_.Number(link);
      writer_.Number(object);
      writer_.Number(is_long ? 1 : 0);
    });
  }
  writer_.End();
}

void SnapshotContent::WriteEnd() {
  const gc::SnapshotCounts& counts = walk_.counts();
  const gc::MarkingTimes& marking = g_collector.marker().times();
  writer_.Begin(SnapshotBlock::kEnd);
  for (const uint64_t n :
       {counts.objects, counts.bytes, counts.references, counts.roots, counts.root_references,
        platform::NowNs() - stopped_ns_, marking.elapsed_ns, marking.busy_ns,
        static_cast<uint64_t>(marking.workers)}) {
    writer_.Number(n);
  }
  writer_.End();
}

}  // namespace gleaner::runtime
