// Spans for a heap without a collector (malloc), on the scanned page space.
//
// Such a heap leaves the pages' descriptors alone, so a span of any length costs O(log n): the user
// keeps the states, and `needs_zeroing` and `resident` mean nothing. Residency tracks instead which
// memory is resident and which is zero, in pieces of 2 MiB. A budget of free memory stays resident;
// the rest goes back to the system in steps, as spans are freed or DecaySurplus is called. The heap
// limit counts pages handed out.
//
// Spans are named by their blocks, for users that keep the block instead of PageMeta::block.
//
// The lock of the page space guards everything here. Thread-safe.
#pragma once

#include "alloc/page_space.h"
#include "alloc/residency.h"

namespace gleaner::alloc {

class SpanSpace {
 public:
  explicit constexpr SpanSpace(PageSpace& pages) : pages_(pages) {}

  // From then on the page space gives its own users (free pages of thread heaps) spans of this.
  // pre: the page space is initialised and has handed nothing out. False if there is no memory for
  // the tables.
  [[nodiscard]] bool Init(size_t budget_bytes, uint64_t decay_ns);

  // A span of at least `count` pages, which outside of `unknown` reads as zero.
  struct Span {
    PageNumber first;  // kNoPage if there is none
    BlockId block;
    Residency::Range unknown;
  };
  Span Allocate(PageCount count);
  void Free(BlockId block);
  // Grows or shrinks a span in place; false if the neighbour is not free or a limit is in the way.
  bool Resize(BlockId block, PageCount count);
  PageNumber FirstOf(BlockId block);

  // For PageSpace: as its Allocate.
  PageNumber AllocateNamedByPage(PageCount count, bool* untouched);
  // For PageSpace, under its lock: frees the waiting blocks, which joins them with their
  // neighbours.
  void FreeWaiting();

  // Whether free memory waits to go back to the system. A hint.
  bool HasSurplus() const { return next_step_ns_.Get() != Residency::kNever; }
  // Makes the step of the decay if one is due. Returns whether it has. Any thread; takes no lock
  // unless a step is due.
  bool DecaySurplus();

  // Discards all free memory. Returns the bytes of whole pieces of 2 MiB; free memory in pieces
  // that spans in use share is not counted. Looks at all free spans and at the whole reservation.
  size_t Trim();
  // Bytes of whole free pieces of 2 MiB that may be resident. A snapshot.
  size_t IdleBytes();

 private:
  // Takes the top waiting block if it has exactly `count` pages. Else frees all waiting blocks and
  // returns kNone.
  BlockId TakeWaiting(PageCount count);
  // Updates next_step_ns_ after idle memory has changed.
  void PublishSurplus();

  PageSpace& pages_;
  // A stack of the spans freed last, chained through kWaitingWord, for programs that free and
  // allocate spans of one size. The tree-fit space takes them for allocated; everything else counts
  // them as free. All are freed before a span of another size is looked for, so they do not change
  // what best fit finds.
  static constexpr uint32_t kWaitingWord = 0;
  static constexpr uint32_t kMaxWaiting = 64;
  BlockId waiting_ = TreeFit::kNone;
  uint32_t waiting_count_ = 0;
  Residency residency_;
  // A copy of Residency::next_step_ns for threads without the lock.
  platform::Hint<uint64_t> next_step_ns_{Residency::kNever};
};

extern SpanSpace g_spans;

}  // namespace gleaner::alloc
