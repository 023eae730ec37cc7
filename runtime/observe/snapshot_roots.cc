// The roots of a heap snapshot: the tasks of the collector's list, named by what their memory is.
#include "gc/collector.h"
#include "platform/os/readable.h"
#include "runtime/observe/snapshot_content.h"
#include "runtime/threads/registry.h"

namespace gleaner::runtime {

using gc::g_collector;
using gc::RootKind;
using gc::RootSource;
using gc::SnapshotRoot;
using platform::Range;

namespace {

// Whether the memory is a thread's, and what of it.
bool IsThreads(const Thread& thread, Addr address, RootSource* source) {
  const Range result{AddressOf(&thread.result), AddressOf(&thread.result) + kWordBytes};
  if (result.Contains(address)) {
    source->name = "result of the thread";
    source->end = result.end;
    return true;
  }
  if (thread.stack_pointer == 0) return false;
  if (thread.static_tls.Contains(address)) {
    source->kind = SnapshotRoot::kThreadLocal;
    source->end = thread.static_tls.end;
    return true;
  }
  if (!thread.stack.Contains(address)) return false;
  source->kind = SnapshotRoot::kStack;
  source->end = thread.stack.end;
  // The C library puts static TLS at the end of the stacks that it allocates, and its own data of
  // the thread behind that.
  const Addr tls = thread.static_tls.begin;
  if (!thread.stack.Contains(tls)) return true;
  if (address < tls) {
    source->end = tls;
  } else {
    source->kind = SnapshotRoot::kThreadLocal;
    source->name = "the C library's";
  }
  return true;
}

// Static data and what the program has registered. There may be many such ranges, and many
// threads: so a word of data is looked up here before it is among the threads.
bool IsStatic(Addr address, RootSource* source) {
  Range range;
  if (g_registry.main_segments.Find(address, &range) ||
      g_registry.library_segments.Find(address, &range)) {
    source->kind = SnapshotRoot::kStatic;
  } else if (g_static_roots.added.Find(address, &range)) {
    source->kind = SnapshotRoot::kRegistered;
    source->name = "GC_add_roots";
  } else {
    return false;
  }
  source->end = range.end;
  return true;
}

}  // namespace

RootSource SnapshotContent::SourceOf(Addr address, RootKind kind) const {
  RootSource source;
  if (kind == RootKind::kData && IsStatic(address, &source)) return source;
  for (size_t i = 0; i < g_registry.count; ++i) {
    if (!IsThreads(*ThreadAt(i), address, &source)) continue;
    source.thread = static_cast<uint32_t>(i + 1);
    return source;
  }
  if (kind != RootKind::kData && IsStatic(address, &source)) return source;
  if (g_collector.registered().finalizers.Holds(address)) {
    source.kind = SnapshotRoot::kFinalizer;
    source.name = "finalizers";
  } else if (address - g_registry.results.storage_begin() <
             g_registry.results.storage_end() - g_registry.results.storage_begin()) {
    source.name = "results of ended threads";
  } else if (const Fiber* fiber = Fibers::FindWorldStopped(address); fiber != nullptr) {
    source.kind = SnapshotRoot::kStack;
    source.name = "fiber stack";
    source.end = fiber->stack.end;
  } else if (g_registry.copied.Holds(address)) {
    // Those of stacks are as doubtful as if they were read there.
    const bool is_stack = kind == RootKind::kStack;
    if (is_stack) source.kind = SnapshotRoot::kStack;
    source.name = is_stack ? "copied words of a stack" : "copied words";
    source.is_copied = true;
  }
  return source;
}

// Writes the tasks that hold copies of words, or the others.
void SnapshotContent::WriteRoots(const gc::RootTasks& roots, bool copied) {
  const Range queue = g_collector.registered().finalizers.queue();
  for (size_t i = 0; i < roots.size() && !writer_.failed();) {
    Range range = roots.at(i).range;
    const RootKind kind = roots.at(i).kind;
    // Tasks are pieces of ranges.
    for (++i; i < roots.size() && roots.at(i).range.begin == range.end && roots.at(i).kind == kind;
         ++i) {
      range.end = roots.at(i).range.end;
    }
    if (kind == RootKind::kUncollectablePages) continue;
    // Since the list was made, finalizers have become due: WriteReady writes the queue.
    if (queue.Contains(range.begin)) continue;
    while (range.begin < range.end) {
      const RootSource source = SourceOf(range.begin, kind);
      const Addr end = source.end < range.end ? source.end : range.end;
      if (source.is_copied == copied) {
        walk_.BeginRoot(source, copied ? 0 : range.begin, copied ? 0 : end);
        walk_.AddWords(kind, range.begin, end);
        walk_.EndRoot();
      }
      range.begin = end;
    }
  }
}

// The memory of which the list of roots has but copies of words: thread-local storage outside the
// static block, and alternate stacks.
void SnapshotContent::WriteThreadLocals() {
  for (size_t i = 0; i < g_registry.count; ++i) {
    const Thread& thread = *ThreadAt(i);
    if (thread.stack_pointer == 0) continue;
    RootSource source;
    source.thread = static_cast<uint32_t>(i + 1);
    if (thread.alternate_stack_end > thread.stack_pointer) {
      source.kind = SnapshotRoot::kStack;
      source.name = "alternate stack";
      WriteCopied(source, RootKind::kStack, {thread.stack_pointer, thread.alternate_stack_end});
    }
    if (g_registry.module_count == 0) continue;
    source.kind = SnapshotRoot::kThreadLocal;
    source.name = "";
    const platform::TlsTable table(thread.thread_pointer);
    for (size_t k = 0; k < g_registry.module_count; ++k) {
      const platform::TlsModule& module = g_registry.modules[k];
      const Addr block = table.BlockOf(module.id);
      if (block != 0) WriteCopied(source, RootKind::kData, {block, block + module.bytes});
    }
  }
}

void SnapshotContent::WriteCopied(const RootSource& source, RootKind kind, Range range) {
  walk_.BeginRoot(source, range.begin, range.end);
  range.begin = AlignUp(range.begin, kWordBytes);
  ForEachCopy(range, [this, kind](Addr at, const Addr* copy, size_t bytes) {
    walk_.AddCopiedWords(kind, at, copy, bytes / kWordBytes);
  });
  walk_.EndRoot();
}

// Objects that wait for their finalizers, and the data of these. The words of those that became due
// in this collection were among the registered ones when the list of roots was made.
void SnapshotContent::WriteReady() {
  const gc::Finalizers& finalizers = g_collector.registered().finalizers;
  RootSource source;
  source.kind = SnapshotRoot::kFinalizer;
  source.name = "objects that wait for their finalizer";
  walk_.BeginRoot(source, 0, 0);
  finalizers.ForEachReady(
      [this](const gc::Finalizers::Ready& ready) { walk_.AddTarget(AddressOf(ready.object)); });
  walk_.EndRoot();
  source.name = "finalizers";
  walk_.BeginRoot(source, finalizers.queue().begin, finalizers.queue().end);
  finalizers.ForEachReady([this](const gc::Finalizers::Ready& ready) {
    const Addr word = AddressOf(&ready.data);
    walk_.AddWords(RootKind::kStack, word, word + kWordBytes);  // as the queue is read
  });
  walk_.EndRoot();
}

// Toggle references that are held strongly.
void SnapshotContent::WriteToggleReferences() {
  RootSource source;
  source.name = "toggle references";
  walk_.BeginRoot(source, 0, 0);
  g_collector.registered().toggle_refs.ForEachStrong(
      [this](Addr object) { walk_.AddTarget(object); });
  walk_.EndRoot();
}

}  // namespace gleaner::runtime
