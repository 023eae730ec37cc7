#include "runtime/observe/snapshot_turns.h"

#include "platform/os/lock.h"

namespace gleaner::runtime {

using platform::memory_order_seq_cst;

bool SnapshotTurns::Draw(uint64_t* ticket) {
  do {
    // Read first: serving_ grows up to next_, so that the difference is never too small.
    const uint64_t serving = serving_.Load(memory_order_seq_cst);
    *ticket = next_.Load(memory_order_seq_cst);
    if (*ticket - serving >= kMaxWaiting) return false;
  } while (!next_.CompareExchange(*ticket, *ticket + 1, memory_order_seq_cst));
  return true;
}

bool SnapshotTurns::ClearMark(uint64_t ticket) {
  return marks_[ticket % kMaxWaiting].Exchange(false, memory_order_seq_cst);
}

bool SnapshotTurns::Begin(int max_moments) {
  constexpr uint64_t kMomentNs = 1'000'000;
  int moments = 0;
  uint64_t ticket;
  for (; !Draw(&ticket); ++moments) {
    if (moments == max_moments) return false;
    platform::FutexSleep(kMomentNs);
  }
  for (; serving_.Load(memory_order_seq_cst) != ticket; ++moments) {
    if (moments == max_moments) {
      marks_[ticket % kMaxWaiting].Store(true, memory_order_seq_cst);
      // The turn may have come meanwhile.
      return serving_.Load(memory_order_seq_cst) == ticket && ClearMark(ticket);
    }
    platform::FutexSleep(kMomentNs);
  }
  return true;
}

void SnapshotTurns::End() {
  uint64_t ticket = serving_.Load(memory_order_seq_cst);
  do {
    serving_.Store(++ticket, memory_order_seq_cst);
  } while (ClearMark(ticket));
}

bool SnapshotTurns::IsTaken() const {
  return serving_.Load(memory_order_seq_cst) != next_.Load(memory_order_seq_cst);
}

void SnapshotTurns::Reset() {
  next_.Store(0, memory_order_seq_cst);
  serving_.Store(0, memory_order_seq_cst);
  for (auto& mark : marks_) mark.Store(false, memory_order_seq_cst);
}

}  // namespace gleaner::runtime
