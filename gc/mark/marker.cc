#include "gc/mark/marker.h"

#include <sched.h>

#include <cstring>
#include <new>

#include "alloc/mark_bytes.h"
#include "alloc/thread_heap.h"
#include "alloc/walk.h"
#include "platform/os/clock.h"

namespace gleaner::gc {

using alloc::g_space;
using alloc::ObjectRef;
using alloc::PageInfo;
using alloc::PageNumber;
using alloc::PageState;
using platform::memory_order_relaxed;
using platform::memory_order_seq_cst;

constinit uint8_t g_valid_displacement[alloc::kPageBytes] = {};

void Marker::UseInstructions(const char* name) {
  ScanCode codes[kMaxScanCodes];
  const size_t count = FindScanCodes(codes);
  scan_code_ = codes[0];
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(codes[i].name, name) == 0) scan_code_ = codes[i];
  }
}

bool Marker::Init(WorkerPool* pool, int max_workers) {
  g_valid_displacement[0] = 1;  // set at run time, so that the table is in .bss
  pool_ = pool;
  UseInstructions("auto");
  if (max_workers > kMaxWorkers) max_workers = kMaxWorkers;
  // Room for as many ranges as the heap may hold objects of 256 bytes, 2 GiB at most.
  size_t entries = g_space.bytes / 256;
  constexpr size_t kMaxEntries = 2 * kGiB / sizeof(PackedRange);
  if (entries > kMaxEntries) entries = kMaxEntries;
  for (int i = 0; i < max_workers; ++i) {
    void* memory = alloc::MetaAllocate(sizeof(MarkWorker));
    if (memory == nullptr) break;
    auto* worker = new (memory) MarkWorker();
    bool ready = worker->Init(this, i, entries, max_workers);
    while (!ready && entries >= 8192) {
      entries /= 2;
      ready = worker->Init(this, i, entries, max_workers);
    }
    if (!ready) break;
    workers_[i] = worker;
    worker_count_ = i + 1;
  }
  // A helper without a MarkWorker must not be woken.
  if (worker_count_ < pool->size()) pool->SetSize(worker_count_);
  return worker_count_ > 0;
}

void Marker::RunJob(void* marker, int worker) {
  auto* self = static_cast<Marker*>(marker);
  self->workers_[worker]->Run(self->slice_bytes_);
}

void Marker::BeginConcurrent(const MarkConfig& config, RescanSet* rescan_set,
                             ShadowCopies* shadows) {
  Begin(config);
  is_concurrent_ = true;
  concurrent_workers_ = 1;
  rescan_set_ = rescan_set;
  shadows_ = shadows;
}

void Marker::Begin(const MarkConfig& config, bool minor) {
  config_ = config;
  is_concurrent_ = false;
  white_ = minor ? alloc::g_young : alloc::g_epoch | alloc::g_young;
  black_ = minor ? alloc::g_epoch : alloc::OtherEpoch(alloc::g_epoch);
  marked_explicitly_.Store(false, memory_order_relaxed);  // no worker runs
  kept_explicitly_.Store(false, memory_order_relaxed);    // no worker runs
  overflowed_.Store(false, memory_order_relaxed);         // published with the helpers' wake-up
  rescan_set_ = nullptr;
  shadows_ = nullptr;
  rescan_end_ = 0;
  times_ = {};
  has_hole_ = !platform::KeepWhole(g_space.info);
  for (int i = 0; i < worker_count_; ++i) workers_[i]->BeginCycle();
}

bool Marker::MarkFromRoots(RootTasks* roots, uint64_t slice_bytes) {
  roots_ = roots;
  return Continue(slice_bytes);
}

bool Marker::Continue(uint64_t slice_bytes) {
  slice_bytes_ = slice_bytes;  // published with the helpers' wake-up
  slice_over_.Store(false, memory_order_seq_cst);
  crew_.BeginJob(config_.termination, worker_count_);
  // Work that a helper had left when marking was paused is continued by the same helper.
  int last = worker_count_ - 1;
  while (last > 0 && workers_[last]->HasNothing()) --last;
  const bool is_whole = !is_concurrent_ && rescan_set_ == nullptr;
  const uint64_t busy_before = is_whole ? statistics().busy_ns : 0;
  const uint64_t begin_ns = platform::NowNs();
  pool_->Begin(RunJob, this);
  // All begin in a concurrent cycle, in its stop and in a minor collection, where there may be
  // dirty pages, which workers claim and do not share; and without balancing, since then no worker
  // wakes helpers later.
  const bool all_begin = rescan_set_ != nullptr || !config_.balance;
  pool_->WakeAll(all_begin || at_start_ > MaxWorkersNow() ? MaxWorkersNow() : at_start_);
  while (pool_->last_workers() <= last && pool_->CanWake()) pool_->WakeOne();
  workers_[0]->Run(slice_bytes);
  pool_->Finish();
  if (is_whole) {
    times_ = {platform::NowNs() - begin_ns, statistics().busy_ns - busy_before,
              pool_->last_workers()};
    // A number that is fixed is woken as soon as one helper has found work.
    at_start_ = config_.adapts_markers     ? MarkersAtStart(times_, kMaxWorkers)
                : statistics().steals != 0 ? kMaxWorkers
                                           : 1;
  }
  if (!IsPausing()) DrainLeftovers();
  return IsAllClaimed() && HasNothing() && RescanHeap();
}

// Does the work left by helpers that cannot be woken again, as in a forked child. Serial.
void Marker::DrainLeftovers() {
  if (HasNothing()) return;
  const bool balance = config_.balance;
  config_.balance = false;  // no helper may be woken outside a job
  for (int i = 1; i < worker_count_; ++i) {
    while (!workers_[i]->HasNothing() && !IsPausing()) workers_[i]->Run(kNeverPause);
  }
  config_.balance = balance;
}

bool Marker::IsAllClaimed() const {
  return roots_->AllClaimed() && next_rescanned_.Next() >= rescan_end_;
}

bool Marker::HasNothing() const {
  for (int i = 0; i < worker_count_; ++i) {
    if (!workers_[i]->HasNothing()) return false;
  }
  return true;
}

void Marker::FinishRescanWorldStopped() {
  for (uint64_t seen = 0; statistics().overflows != seen;) {
    seen = statistics().overflows;
    BeginRescan();
    Continue();
  }
  UseRescanSet(nullptr);
}

void Marker::Pause() {
  pause_.Store(true, memory_order_seq_cst);
  crew_.WakeSleepers();
}

void Marker::End() {
  white_ = 0;
  platform::AllowHole(g_space.info);
}

void Marker::EndSlice() {
  slice_over_.Store(true, memory_order_seq_cst);
  crew_.WakeSleepers();
}

void Marker::DiscardMarks() {
  for (int i = 0; i < worker_count_; ++i) workers_[i]->Forget();
  is_concurrent_ = false;
  slice_over_.Store(false, memory_order_seq_cst);
  alloc::ForEachPage([this](PageNumber page, const PageInfo& info) {
    const uint32_t slots = info.state == PageState::kSmall   ? info.slot_count
                           : info.state == PageState::kLarge ? 1
                                                             : 0;
    alloc::Recolour(g_space.MarksOf(page), slots, black_, alloc::g_epoch);
  });
  End();
  black_ = alloc::g_epoch;
}

void Marker::SetMark(const ObjectRef& object, bool marked) {
  // Relaxed, load and store: a mark procedure may call this while other workers mark the object
  // (Note [mark-race]).
  if (white_ == 0 || is_concurrent_ ||
      __atomic_load_n(object.mark(), __ATOMIC_RELAXED) == alloc::kFreeSlot) {
    return;
  }
  SetMarkedExplicitly();
  if (!marked && black_ == alloc::g_epoch) {
    // Objects that refer to this object need not be scanned in this collection.
    kept_explicitly_.Store(true, memory_order_relaxed);  // published by the end of the job
    return;
  }
  __atomic_store_n(object.mark(), marked ? black_ : AnyWhite(),
                   __ATOMIC_RELAXED);  // Note [mark-race]
}

void Marker::MarkMore() {
  config_.balance = false;  // the helpers have left
  workers_[0]->Drain();
  RescanHeap();
}

// After an overflow black objects may have white children. Scans all black objects, again until no
// overflow occurs.
bool Marker::RescanHeap() {
  while (overflowed_.Load(memory_order_relaxed)) {  // the workers are done
    overflowed_.Store(false, memory_order_relaxed);
    config_.balance = false;
    MarkWorker& worker = *workers_[0];
    alloc::ForEachPage(alloc::Space::kScanned, [&](PageNumber page, const PageInfo&) {
      alloc::ForEachSlotOf(page, [&](const ObjectRef& object) {
        if (!IsMarked(object) || IsPausing()) return;
        worker.PushContents(object);
        worker.Drain();
      });
    });
    if (IsPausing()) {
      overflowed_.Store(true, memory_order_relaxed);  // the next call begins again
      return false;
    }
  }
  return true;
}

MarkStatistics Marker::statistics() const {
  MarkStatistics total;
  for (int i = 0; i < worker_count_; ++i) total.Add(workers_[i]->statistics);
  return total;
}

}  // namespace gleaner::gc
