// The roots of one stopped thread: its stacks, its registers and its thread-local storage.
#include "platform/os/filters.h"
#include "platform/os/memory.h"
#include "platform/os/readable.h"
#include "runtime/process/variables.h"
#include "runtime/threads/registry.h"

namespace gleaner::runtime {

using gc::RootKind;
using platform::Range;
using platform::TlsModule;

namespace {

// Start of the nearest memory above the address that belongs to something known: a reservation of
// the library, or a thread's stack.
Addr NextKnownMemory(Addr address) {
  struct Search {
    Addr above;
    Addr nearest;
  } search{address, ~Addr{0}};
  const auto look = [](void* context, Range range) {
    auto* s = static_cast<Search*>(context);
    if (range.begin > s->above && range.begin < s->nearest) s->nearest = range.begin;
  };
  platform::VisitReservations(look, &search);
  for (size_t i = 0; i < g_registry.count; ++i) {
    look(&search, ThreadAt(i)->stack);
  }
  return search.nearest;
}

// Adds as much of the range as can be read. A system call copies it, since part of it may be
// unmapped [inv.foreign-copied]. Whether all of it could be read.
bool AddReadable(RootKind kind, Range range, const ThreadRoots& roots) {
  Addr at = range.begin;
  if (!roots.copied->CopyIfMapped(kind, &at, range.end)) {
    const Addr end = platform::EndOfReadable(at, range.end);
    roots.in_place->Add(kind, at, end);
    at = end;
  }
  return at >= AlignDown(range.end, kWordBytes);
}

// Adds a stack of the program's own, in use from `low` and assumed to end at `end`. Under a malloc
// replacement it may lie in a heap block, which the stack pointer keeps: it is a root or lies in
// one. Whether all of it was there.
bool AddForeignStack(Addr low, Addr end, const ThreadRoots& roots) {
  alloc::ObjectRef block;
  if (!alloc::FindSlot(low, &block)) return AddReadable(RootKind::kStack, {low, end}, roots);
  const Addr block_end = block.base + block.bytes;
  roots.in_place->Add(RootKind::kStack, low, end < block_end ? end : block_end);
  return end <= block_end;
}

// Adds the thread's own stack, of which the part in use is unknown.
void AddWholeStack(Range stack, const ThreadRoots& roots) {
  // Unreadable pages are guard pages below the others.
  for (Addr at = platform::LowestMapped(stack); at < stack.end;) {
    if (AddReadable(RootKind::kStack, {at, stack.end}, roots)) break;
    at = AlignDown(platform::EndOfReadable(at, stack.end), platform::OsPageBytes());
    at += platform::OsPageBytes();
  }
}

// The stacks that handlers on an alternate stack have interrupted.
struct Interrupted {
  Thread& thread;
  const ThreadRoots& roots;
  Addr own_low = 0;  // lowest address in use on the thread's own stack; 0: none
  bool on_fiber = false;
};

void AddInterrupted(void* context, Addr low) {
  auto* found = static_cast<Interrupted*>(context);
  const Range own = found->thread.stack;
  if (Threads::IsOnOwnStack(&found->thread, low + platform::kRedZoneBytes)) {
    if (low < own.begin) low = own.begin;
    if (found->own_low == 0 || low < found->own_low) found->own_low = low;
  } else if (Fiber* fiber = Fibers::FindWorldStopped(low + platform::kRedZoneBytes)) {
    if (low < fiber->stack.begin) low = fiber->stack.begin;
    if (low < fiber->live) fiber->live = low;
    found->on_fiber = true;
  } else {
    (void)AddForeignStack(low, NextKnownMemory(low), found->roots);
  }
}

// The stack pointer that the program's corrector gives instead of the thread's; 0: no other.
Addr CorrectedStackPointer(const Thread& thread) {
  const GC_sp_corrector_proc correct = g_sp_corrector;
  if (correct == nullptr) return 0;
  auto* stack_pointer = PointerAt<void>(thread.stack_pointer);
  correct(&stack_pointer, PointerAt<void>(thread.id));
  return AddressOf(stack_pointer) != thread.stack_pointer ? AddressOf(stack_pointer) : 0;
}

// Adds the stacks of a stopped thread. True if that includes the thread's own stack up to its end.
bool AddStacks(Thread& thread, const ThreadRoots& roots) {
  const Addr low = thread.stack_pointer;
  const Addr corrected = CorrectedStackPointer(thread);
  const Range own = thread.stack;
  const Addr bottom =
      thread.is_main && GC_stackbottom != nullptr ? AddressOf(GC_stackbottom) : thread.stack_bottom;
  const bool bottom_is_own = bottom > own.begin && bottom <= own.end;
  const Addr own_bottom = bottom_is_own ? bottom : own.end;
  // Lowest address in use when the own stack was left for a fiber; 0: not known to have been left.
  Addr own_low = thread.own_stack_pointer;
  if (thread.alternate_stack_end != 0) {
    const Range alternate{low, thread.alternate_stack_end};
    (void)AddForeignStack(alternate.begin, alternate.end, roots);
    Interrupted found{thread, roots};
    platform::VisitInterruptedStacks(alternate, AddInterrupted, &found);
    if (found.own_low != 0) {
      own_low = found.own_low;
    } else if (!found.on_fiber) {
      own_low = 0;
    }
  } else if (Threads::IsOnOwnStack(&thread, low)) {
    own_low = low;
    if (platform::HasFilter()) {  // it may be an alternate stack that lies in this one
      Interrupted found{thread, roots, own_low};
      platform::VisitInterruptedStacks(own, low, AddInterrupted, &found);
      own_low = found.own_low;
    }
  } else if (Fiber* fiber = Fibers::FindWorldStopped(low)) {
    fiber->live = low;
  } else {
    // The thread is on a stack of the program's own. If the program has told its end
    // (GC_set_stackbottom), the program also makes the stacks that it has left known to the
    // collector. If not, the readable memory above the stack pointer is scanned, and the thread's
    // own stack wherever it may be in use.
    const bool told = !bottom_is_own && bottom > low;
    if (told && AddForeignStack(low, bottom, roots) && corrected == 0) return false;
    if (!told) (void)AddForeignStack(low, NextKnownMemory(low), roots);
    own_low = 0;
  }
  if (corrected != 0 && !own.Contains(corrected)) {
    (void)AddForeignStack(corrected, NextKnownMemory(corrected), roots);
  } else if (corrected != 0) {
    AddWholeStack({own_low != 0 && own_low < corrected ? own_low : corrected, own.end}, roots);
    return true;
  }
  if (own_low == 0) {
    AddWholeStack(own, roots);
    return true;
  }
  const Addr own_end = own_low < own_bottom ? own_bottom : own.end;
  roots.in_place->Add(RootKind::kStack, own_low, own_end);
  return own_end == own.end;
}

}  // namespace

void AddThreadRoots(Thread& thread, const ThreadRoots& roots) {
  // The C library's own copy may lie outside the known stack.
  const Addr result = AddressOf(&thread.result);
  if (IsObject(thread.result)) roots.in_place->Add(RootKind::kData, result, result + kWordBytes);
  if (thread.stack_pointer == 0) return;  // it has ended
  const bool to_the_end = AddStacks(thread, roots);
  // The C library puts static TLS at the end of the stacks that it allocates.
  if (!to_the_end || !thread.stack.Contains(thread.static_tls.begin)) {
    roots.in_place->Add(RootKind::kData, thread.static_tls.begin, thread.static_tls.end);
  }
  if (g_registry.module_count == 0) return;
  const platform::TlsTable table(thread.thread_pointer);
  for (size_t i = 0; i < g_registry.module_count; ++i) {
    const TlsModule& module = g_registry.modules[i];
    const Addr block = table.BlockOf(module.id);
    if (block != 0) (void)AddReadable(RootKind::kData, {block, block + module.bytes}, roots);
  }
}

// The bound of the first thread's stack is a limit, which may have been raised over other mappings.
// So an address is on that stack only if all pages from it to the stack's end are mapped.
bool Threads::IsOnOwnStack(Thread* thread, Addr address) {
  if (!thread->stack.Contains(address)) return false;
  if (!thread->is_main || address >= thread->stack_mapped_from) return true;
  if (platform::LowestMapped({address, thread->stack.end}) != address) return false;
  thread->stack_mapped_from = address;
  return true;
}

void Threads::AddRoots(gc::RootTasks* roots) {
  Fibers::BeginRootsWorldStopped();
  g_registry.copied.Clear();
  for (size_t i = 0; i < g_registry.count; ++i) {
    AddThreadRoots(*ThreadAt(i), {roots, &g_registry.copied});
  }
  g_registry.copied.AddTo(roots);
  Fibers::AddRootsWorldStopped(roots);
  roots->Add(RootKind::kData, g_registry.results.storage_begin(), g_registry.results.storage_end());
  ForEachStaticRoot(
      [](void* tasks, Range range) {
        static_cast<gc::RootTasks*>(tasks)->Add(RootKind::kData, range.begin, range.end);
      },
      roots);
}

void Threads::ForEachStackWorldStopped(void (*f)(void* context, Range stack, bool is_main),
                                       void* context) {
  for (size_t i = 0; i < g_registry.count; ++i) {
    const auto& thread = *ThreadAt(i);
    // A thread that ended without unregistering has no stack: other memory may be there now.
    if (thread.stack_pointer != 0) f(context, thread.stack, thread.is_main);
  }
}

bool Threads::OverlapsStackLocked(Range range, Addr here) {
  for (size_t i = 0; i < g_registry.count; ++i) {
    const auto* thread = ThreadAt(i);
    Range used = thread->stack;
    if (thread == Current()) {
      used.begin = used.Contains(here) ? here : thread->own_stack_pointer;
      if (used.begin == 0) continue;  // the caller is on an unknown stack
    } else if (thread->is_main) {
      continue;  // Its bound is a limit that may have been raised over other mappings.
    }
    if (used.begin < range.end && range.begin < used.end) return true;
  }
  return false;
}

}  // namespace gleaner::runtime
