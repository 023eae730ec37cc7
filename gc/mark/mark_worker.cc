#include "alloc/walk.h"
#include "gc/mark/mark_pipeline.h"
#include "gc/mark/worker_nodes.h"
#include "observe/events.h"
#include "platform/nodes/topology.h"
#include "platform/os/clock.h"

namespace gleaner::gc {

using alloc::Contents;
using alloc::g_space;
using alloc::NodeMark;
using alloc::ObjectRef;
using alloc::PageNumber;
using platform::memory_order_relaxed;
using platform::memory_order_seq_cst;

template bool MarkLoop<MarkWorker, RealClock>::Drain();

bool MarkWorker::Init(Marker* marker, int id, size_t max_stack_entries, int max_workers) {
  marker_ = marker;
  return InitLoop(id, max_stack_entries, g_space.bytes, max_workers);
}

void MarkWorker::BeginCycle() {
  base_ = g_space.base;
  heap_bytes_ = g_space.bytes;
  info_ = g_space.info;
  marks_ = g_space.marks;
  white_ = marker_->white_;
  black_ = marker_->black_;
  interior_ = marker_->config_.all_interior_pointers;
  past_the_end_ = interior_ && marker_->config_.past_the_end;
  pad_objects_ = marker_->config_.pad_objects;
  filter_ = marker_->scan_code_.filter;
  min_select_words_ = marker_->scan_code_.min_select_words;
  select_ = interior_ ? marker_->scan_code_.select : nullptr;
  const size_t bytes = alloc::EndCommitted(alloc::Space::kScanned) * size_t{alloc::kPageBytes};
  BeginLoop(base_, bytes, bytes, marker_->config_.min_batch, marker_->config_.split);
  has_hole_ = marker_->has_hole_;
  hole_begin_ = alloc::EndCommitted(alloc::Space::kScanned);
  hole_pages_ =
      has_hole_ ? alloc::FirstCommitted(alloc::Space::kPointerFree) - hole_begin_ : PageNumber{0};
}

GLEANER_COLD void MarkWorker::LeaveForRescan(PackedRange range) {
  ++statistics.overflows;
  if (marker_->rescan_set_ == nullptr) {
    marker_->overflowed_.Store(true, memory_order_relaxed);  // read after all workers are done
    return;
  }
  ObjectRef object;
  if (range.bytes() != 0) {
    marker_->rescan_set_->Set(range.begin(), range.bytes());
  } else if (FindSlot(range.begin(), &object)) {
    marker_->rescan_set_->Set(object.base, object.bytes);
  }
}

// A range of 0 bytes on the stack stands for the object that begins there.
void MarkWorker::PushForDescription(Addr base) { PushOrLeave({base, 0}); }

void MarkWorker::PushContents(const ObjectRef& object) {
  switch (g_space.info[object.page].contents) {
    case Contents::kWords:
      return PushSpan(object.base, object.bytes);
    case Contents::kPointerFree:
      return;
    case Contents::kDescribed:
      return PushForDescription(object.base);
  }
}

void MarkWorker::PushFound(MarkSink* sink, Addr word) {
  MarkWorker* worker = static_cast<Sink*>(sink)->worker;
  if (word - worker->base_ < worker->heap_bytes_) worker->AddWord(word, false);
}

void MarkWorker::PushFoundRange(MarkSink* sink, Addr begin, Addr end, bool interior) {
  MarkWorker* worker = static_cast<Sink*>(sink)->worker;
  for (Addr at = AlignUp(begin, kWordBytes); at + kWordBytes <= end; at += kWordBytes) {
    const Addr word = LoadForeignWord(at);
    if (word - worker->base_ < worker->heap_bytes_) worker->AddWord(word, interior);
  }
}

// Marks all pending words. Does not make words pending.
GLEANER_NOINLINE void MarkWorker::MarkPending() {
  Pipeline(this).MarkWords(words_, pending_);
  pending_ = 0;
  ChooseOrder();
}

// Marks the object of a word for which any displacement counts where those of the pending words are
// checked.
GLEANER_NOINLINE void MarkWorker::MarkInterior(Addr word) {
  Pipeline pipeline(this);
  uint8_t* mark = pipeline.Resolve<true>(word);
  if (mark != nullptr) pipeline.Settle({mark, word});
}

// Makes words pending.
void MarkWorker::ScanDescribed(Addr base) {
  ObjectRef object;
  if (!FindSlot(base, &object)) return;
  statistics.bytes_scanned += object.bytes;
  if (!marker_->is_concurrent_) return PushDescribed(object, &sink_);
  if (!TryPushDescribed(object, &sink_)) marker_->rescan_set_->Set(object.base, object.bytes);
}

void MarkWorker::PushContentsButSelf(const ObjectRef& object) {
  if (g_space.info[object.page].contents == Contents::kPointerFree) return;
  for (Addr at = object.base; at < object.base + object.bytes; at += kWordBytes) {
    const Addr word = LoadForeignWord(at);
    if (word - object.base >= object.bytes && word - base_ < heap_bytes_) AddWord(word, false);
  }
}

void MarkWorker::MarkObject(const ObjectRef& object) {
  // Relaxed, load and store: another worker may mark the object, too (Note [mark-race]).
  if ((__atomic_load_n(object.mark(), __ATOMIC_RELAXED) & white_) == 0) return;
  platform::MaybeDelay();                                     // another worker may mark the object
  __atomic_store_n(object.mark(), black_, __ATOMIC_RELAXED);  // Note [mark-race]
  ++statistics.objects;
  PushContents(object);
}

void MarkWorker::ScanRoots(platform::Range range, bool interior) {
  for (Addr at = range.begin; at < range.end; at += kScanWords * kWordBytes) {
    const size_t left = (range.end - at) / kWordBytes;
    const size_t count = left < kScanWords ? left : kScanWords;
    // A word one past the reservation's end may be one past the end of its last object.
    Addr* const found = words_ + kPendingWords;  // words become pending while these are read
    const size_t kept = filter_(PointerAt<const Addr>(at), count, base_, heap_bytes_ + 1, found);
    for (size_t i = 0; i < kept; ++i) {
      const Addr word = found[i];
      if (GLEANER_LIKELY(word - base_ < heap_bytes_)) AddWord(word, interior);
      // Objects have no padding byte: a pointer one past the end of an object is the base of the
      // next. The program may mean either object, so both are kept.
      if (past_the_end_ && word % alloc::kGranuleBytes == 0 && word != base_) {
        AddWord(word - 1, true);
      }
    }
    if (stack_.size() > kDrainRootsAt) Drain();
  }
}

bool MarkWorker::MustPause() const {
  return statistics.bytes_scanned >= pause_at_bytes_ ||
         marker_->slice_over_.Load(memory_order_seq_cst) || IsPauseWanted();
}

// Whether another thread waits for the pause; else it may come a little later.
bool MarkWorker::IsPauseWanted() const {
  if (marker_->pause_.Load(memory_order_seq_cst)) return true;
  // If this misses a stop, the mutator parks at the end of its critical section.
  return marker_->is_concurrent_ && platform::t_critical.stop_pending->Get();
}

void MarkWorker::Prefetch(PackedRange range) const {
  __builtin_prefetch(PointerAt<void>(range.begin()), 0, 3);
  // Objects that are no longer than a cache line may straddle two.
  const size_t near = range.bytes() < kCacheLineBytes ? range.bytes() : kCacheLineBytes;
  __builtin_prefetch(PointerAt<void>(range.begin() + near - 1), 0, 3);
}

bool MarkWorker::IsPausing() const { return marker_->IsPausing(); }
bool MarkWorker::Shares() const { return marker_->config_.balance && !marker_->IsAlone(); }
bool MarkWorker::WakeHelper() { return marker_->pool_->WakeOne(marker_->MaxWorkersNow()); }
NodeMark MarkWorker::NodeOf(Addr range) const {
  return g_space.Contains(range) ? alloc::NodeOfPage(g_space.PageOf(range)) : alloc::kNoNode;
}
MarkCrew<RealClock>& MarkWorker::crew() { return marker_->crew_; }
MarkWorker& MarkWorker::other(int i) { return *marker_->workers_[i]; }
int MarkWorker::worker_count() const { return marker_->worker_count_; }

void MarkWorker::OrderVictims() {
  is_by_node_ = false;
  if (GLEANER_LIKELY(g_space.nodes == nullptr) || !marker_->config_.balance) return;
  const platform::Topology* topology = platform::LoadedTopologyOfThisMachine();
  if (topology == nullptr) return;
  int nodes[kMaxWorkers];
  for (int i = 0; i < marker_->worker_count_; ++i) {
    nodes[i] = NodeOfWorker(*topology, i, marker_->worker_count_);
  }
  const int node = id_ == 0 ? platform::CurrentNode() : nodes[id_];
  node_ = alloc::NodeMarkOf(node);
  platform::NearestFirst(*topology, node, nodes, static_cast<size_t>(marker_->worker_count_),
                         static_cast<size_t>(id_) + 1, victims_);
  is_by_node_ = true;
}

void MarkWorker::RunRootTask(size_t task) {
  const RootTasks& roots = *marker_->roots_;
  const platform::Range range = roots.at(task).range;
  const RootKind kind = roots.at(task).kind;
  if (kind != RootKind::kUncollectablePages) {
    ScanRoots(range, kind == RootKind::kStack);
  } else {
    for (auto page = static_cast<PageNumber>(range.begin); page < range.end; ++page) {
      const alloc::Kind kind_of_page = info_[page].kind;
      const bool marked_too = IsUncollectable(kind_of_page);
      if (!marked_too && !RowOf(kind_of_page).marks_contents_of_unreachable) continue;
      alloc::ForEachSlotOf(page, [this, marked_too](const ObjectRef& object) {
        if (marked_too) {
          MarkObject(object);
        } else if (*object.mark() != alloc::kFreeSlot) {
          PushContents(object);
        }
      });
      if (stack_.size() > kDrainRootsAt) Drain();
    }
  }
  Drain();
}

void MarkWorker::Run(uint64_t slice_bytes) {
  RootTasks& roots = *marker_->roots_;
  pause_at_bytes_ =
      slice_bytes == kNeverPause ? kNeverPause : statistics.bytes_scanned + slice_bytes;
  AllowBatches(slice_bytes >= kMinSortingSlice || marker_->config_.min_batch != 0);
  OrderVictims();
  marker_->crew_.termination.SetBusy(id_);
  const platform::MarkEvent event;
  const uint64_t begin_ns = platform::NowNs();
  const MarkStatistics before = statistics;
  // A claimed task is pushed whole even if the worker has to pause meanwhile.
  while (!MustPause()) {
    const size_t task = roots.Claim();
    if (task == roots.size()) break;
    RunRootTask(task);
    if (roots.HasUnclaimed(kHelpWithRootBytes)) HelpWithRoots();
  }
  while (!MustPause() && RescanNext()) {
  }
  while (Drain()) {
    if (!FindWork(marker_->config_.balance)) break;
  }
  if (MustPause()) marker_->EndSlice();
  pause_at_bytes_ = kNeverPause;
  statistics.busy_ns += platform::NowNs() - begin_ns - (statistics.idle - before.idle);
  event.End(id_, statistics.steals - before.steals, statistics.bytes_scanned - before.bytes_scanned,
            statistics.objects - before.objects);
}

}  // namespace gleaner::gc
