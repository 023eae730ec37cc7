// The order in which threads take snapshots: one at a time, first come, first served (beyond
// kMaxWaiting threads in any order). So a thread that takes one after the other does not keep out
// the snapshot at the end of the process.
//
// Threads wait without a lock, so that they can be stopped. A thread that has waited long gives up:
// the one before it may never end its turn, as when a callback of the program has left it by a
// jump.
#pragma once

#include "platform/os/atomic.h"
#include "platform/os/base.h"

namespace gleaner::runtime {

class SnapshotTurns {
 public:
  // Waits for the turn. False if that takes `max_moments` of a millisecond.
  [[nodiscard]] bool Begin(int max_moments);
  // pre: the calling thread has the turn.
  void End();
  // Whether a thread has the turn.
  bool IsTaken() const;
  // In a forked child, by its only thread.
  void Reset();

 private:
  static constexpr uint64_t kMaxWaiting = 64;

  // False if kMaxWaiting threads wait already.
  [[nodiscard]] bool Draw(uint64_t* ticket);
  // Clears the mark that nobody waits for the ticket's turn. Whether it was set.
  bool ClearMark(uint64_t ticket);

  // Tickets are drawn in ascending order; serving_ is the one whose turn it is. At most kMaxWaiting
  // are drawn and have not ended, so that each has a mark of its own: a thread that gives up sets
  // it, and then reads serving_; one that ends its turn stores serving_, and then reads the mark.
  // All are sequentially consistent: one of the two sees what the other stores. If both do, the
  // turn is theirs who clears the mark.
  platform::Atomic<uint64_t> next_{0};
  platform::Atomic<uint64_t> serving_{0};
  platform::Atomic<bool> marks_[kMaxWaiting];
};

}  // namespace gleaner::runtime
