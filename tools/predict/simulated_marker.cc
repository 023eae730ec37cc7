#include "tools/predict/simulated_marker.h"

#include <algorithm>
#include <cmath>

#include "tools/predict/branch_guess.h"

namespace gleaner::tools {

namespace {

uint64_t Ps(double ns) { return static_cast<uint64_t>(ns * 1000); }

// As MarkWorker::kDrainRootsAt.
constexpr size_t kDrainRootsAt = 256;
constexpr uint64_t kPageBytes = alloc::kPageBytes;
// Processors fetch up to 16 to 20 lines ahead, and come to that one line after the other.
constexpr uint64_t kFetchedAheadIn = 16 * kCacheLineBytes;

// Where a cell's page descriptor and mark byte lie. The addresses only matter to the caches.
struct TableEntries {
  uint64_t info;
  uint64_t mark;
};
TableEntries EntriesOf(const SimulatedHeap& heap, uint32_t cell) {
  constexpr uint64_t kInfoBegin = uint64_t{1} << 60;
  constexpr uint64_t kMarksBegin = uint64_t{1} << 61;
  const uint64_t in_heap = heap.AddressOf(cell) - AlignDown(heap.heap_begin(), kPageBytes);
  const uint64_t page = in_heap / kPageBytes;
  const uint64_t slot = in_heap % kPageBytes / (heap.cell(cell).granules * uint64_t{16});
  return {kInfoBegin + page * sizeof(alloc::PageInfo),
          kMarksBegin + page * alloc::kMarkBytesPerPage + slot};
}

// Where the last cache holds the heap, what the marker reads is in it when a collection begins: the
// program has used it.
void Warm(const SimulatedHeap& heap, CacheSimulation* caches) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < heap.size(); ++i) bytes += heap.cell(i).granules * uint64_t{16};
  if (bytes > caches->last_cache_bytes()) return;
  for (uint32_t i = 0; i < heap.size(); ++i) {
    const TableEntries entries = EntriesOf(heap, i);
    caches->Warm(entries.info);
    caches->Warm(entries.mark);
    if ((heap.cell(i).flags & SimulatedHeap::kPointerFree) != 0) continue;
    const uint64_t begin = heap.AddressOf(i);
    const uint64_t end = begin + heap.cell(i).granules * uint64_t{16};
    for (uint64_t at = AlignDown(begin, kCacheLineBytes); at < end; at += kCacheLineBytes) {
      caches->Warm(at);
    }
  }
}

}  // namespace

// What the workers of a run share.
struct SimulatedMarker::Job {
  SimulatedHeap& heap;
  const SimulationOptions& options;
  CacheSimulation* caches;  // null: costs are known
  uint64_t reference_memory_ps;
  uint64_t live_parts, cold_access_ps, cold_access_parts;
  // What the marker itself takes.
  uint64_t range_ps, word_ps, reference_ps, object_ps, chain_ps, surprise_ps;
  std::vector<uint32_t>* order;  // of the cells, as they are scanned; where there are caches

  gc::MarkCrew<VirtualClock> crew = {};
  std::vector<std::unique_ptr<Worker>> workers = {};
  int joined = 1;
  VirtualClock::Atomic<size_t> next_task{0};
  bool overflowed = false;
  HugeVector<uint8_t> marks = {};  // of cells: 1 where an object is marked
  // Of all workers.
  uint64_t processor_ps = 0, memory_ps = 0, added_ps = 0, added_parts = 0;
};

class SimulatedMarker::Worker : private gc::MarkLoop<Worker, VirtualClock> {
 public:
  using MarkLoop::queue;
  using MarkLoop::statistics;

  Worker(Job* job, int id) : job_(*job) {
    const size_t entries = std::max<size_t>(size_t{1} << 16, job_.heap.size());
    const uint64_t heap_bytes = job_.heap.scanned_bytes();
    is_ready_ = InitLoop(id, entries, heap_bytes, job_.options.workers);
    BeginLoop(0, job_.heap.size() << SimulatedHeap::kCellShift, heap_bytes, job_.options.min_batch,
              job_.options.split);
  }
  ~Worker() { Release(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  bool is_ready() const { return is_ready_; }

  // As WorkerPool wakes and MarkWorker::Run works.
  void Run() {
    const int at_start = job_.options.balance ? job_.options.at_start : job_.options.workers;
    while (job_.joined < at_start && WakeHelper()) {
    }
    job_.crew.termination.SetBusy(id_);
    const std::vector<SimulatedHeap::RootTask>& tasks = job_.heap.root_tasks();
    for (;;) {
      // Fibers of one thread: the orders are those of gc::RootTasks, whose counter this is.
      const size_t task = job_.next_task.FetchAdd(1, platform::memory_order_relaxed);
      if (task >= tasks.size()) break;
      ReadRoot(&job_.heap.root_tasks()[task]);
      for (const uint32_t cell : tasks[task].cells) {
        AddWord(SimulatedHeap::BeginOf(cell));
        if (stack_.size() > kDrainRootsAt) Drain();
      }
      Drain();
      if (HasUnclaimed(gc::kHelpWithRootBytes)) HelpWithRoots();
    }
    for (uint64_t steals = 0; Drain() && FindWork(job_.options.balance);) {
      if (statistics.steals == steals) continue;  // it has taken its own segment back
      steals = statistics.steals;
      cold_parts_ = job_.live_parts;
    }
  }

 private:
  template <class, class>
  friend class gc::MarkLoop;
  using Access = CacheSimulation::Access;

  class Pipeline {
   public:
    struct Resolved {
      uint8_t* mark;
      Addr word;
    };
    explicit Pipeline(Worker* worker) : worker_(*worker) {}

    size_t Filter(Addr begin, size_t bytes, Addr* out, Addr* last) {
      const size_t kept = worker_.Scan(begin, bytes, out, is_chain_);
      is_chain_ = false;
      *last = kept != 0 ? out[kept - 1] : 0;
      return kept;
    }
    // Only where a chain is followed.
    template <bool kInterior>
    uint8_t* Resolve(Addr word) {
      is_chain_ = true;
      return &worker_.job_.marks[SimulatedHeap::CellAt(word)];
    }
    bool Mark(const Resolved& found, Addr* begin, size_t* bytes) {
      return worker_.Mark(found.word, begin, bytes, true);
    }
    void MarkObjectsBefore(const Addr*, size_t) {}

   private:
    Worker& worker_;
    bool is_chain_ = false;
  };

  // A branch of the marker's: guessed wrong, it costs time.
  void Branch(BranchGuess* guess, bool taken) {
    if (guess->IsWrong(taken)) Spend(job_.surprise_ps);
  }

  SimulatedHeap::Cell& CellAt(Addr word) { return job_.heap.cell(SimulatedHeap::CellAt(word)); }

  void Spend(uint64_t ps) {
    job_.processor_ps += ps;
    VirtualTime::current().Charge(ps);
  }
  // For memory, as one marker would, with `accesses` to it.
  void Await(uint64_t ps, uint64_t accesses) {
    job_.memory_ps += ps;
    VirtualTime::current().Charge(ps);
    if (cold_parts_ == 0) return;
    const uint64_t parts = std::min(cold_parts_, accesses * job_.cold_access_parts);
    const uint64_t added_ps = accesses * job_.cold_access_ps;
    cold_parts_ -= parts;
    job_.added_parts += parts;
    job_.added_ps += added_ps;
    VirtualTime::current().Charge(added_ps);
  }

  size_t Scan(Addr begin, size_t bytes, Addr* out, bool is_chain) {
    const uint32_t id = SimulatedHeap::CellAt(begin);
    SimulatedHeap::Cell& cell = job_.heap.cell(id);
    const uint64_t offset = begin % SimulatedHeap::kCellBytes;
    size_t reference = cell.first_reference;
    const size_t end = job_.heap.cell(id + 1).first_reference;
    const bool is_whole = offset == 0 && bytes >= cell.granules * uint64_t{16};
    if (offset != 0) {
      const auto word = static_cast<uint16_t>(offset / kWordBytes);
      size_t low = reference, high = end;
      while (low < high) {
        const size_t middle = (low + high) / 2;
        if (job_.heap.word(middle) < word) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      reference = low;
    }
    const uint64_t end_word = (offset + bytes) / kWordBytes;
    size_t kept = 0;
    for (; reference < end && (is_whole || job_.heap.word(reference) < end_word); ++reference) {
      if (kept == gc::kScanWords) break;  // no more words than that are scanned at once
      out[kept++] = SimulatedHeap::BeginOf(job_.heap.target(reference));
    }
    Spend((is_chain ? 0 : job_.range_ps) + bytes / kWordBytes * job_.word_ps);
    Branch(&has_usual_size_, bytes == last_bytes_);
    last_bytes_ = bytes;
    if (job_.caches == nullptr) {
      // In proportion to the part of the cell.
      const uint64_t ps = cell.memory_ps;
      Await(is_whole ? ps : ps * bytes / (cell.granules * uint64_t{16}), LinesOf(bytes));
    } else {
      Touch(id, offset, bytes, is_chain);
    }
    return kept;
  }

  // As RootTasks::HasUnclaimed.
  bool HasUnclaimed(uint64_t bytes) const {
    const std::vector<SimulatedHeap::RootTask>& tasks = job_.heap.root_tasks();
    uint64_t found = 0;
    // A hint, as there: the fibers have one thread.
    for (size_t i = job_.next_task.Load(platform::memory_order_relaxed);
         i < tasks.size() && found < bytes; ++i) {
      found += tasks[i].words * kWordBytes;
    }
    return found >= bytes;
  }

  void ReadRoot(SimulatedHeap::RootTask* task) {
    Spend(task->words * job_.word_ps);
    const uint64_t bytes = task->words * kWordBytes;
    if (job_.caches == nullptr || task->begin == 0) return Await(task->memory_ps, LinesOf(bytes));
    for (uint64_t at = 0; at < bytes; at += kCacheLineBytes) {
      task->memory_ps += job_.caches->Touch(task->begin + at, Access::kAhead);
    }
    Await(task->memory_ps, 0);
  }

  static uint64_t LinesOf(uint64_t bytes) {
    return (bytes + kCacheLineBytes - 1) / kCacheLineBytes;
  }

  // The lines of a part of a cell.
  void Touch(uint32_t id, uint64_t offset, size_t bytes, bool is_chain) {
    if (offset == 0) job_.order->push_back(id);
    const uint64_t address = job_.heap.AddressOf(id) + offset;
    uint64_t ps = 0;
    // MarkWorker::Prefetch asks for the line of the first byte and for that of the 64th.
    const uint64_t first = AlignDown(address, kCacheLineBytes);
    ps += job_.caches->Touch(first, is_chain ? Access::kDependent : Access::kAhead);
    const uint64_t asked_for = address + std::min<uint64_t>(bytes, kCacheLineBytes);
    for (uint64_t line = first + kCacheLineBytes; line < address + bytes; line += kCacheLineBytes) {
      ps += line < asked_for && !is_chain      ? job_.caches->TouchAlong(line)
            : line < address + kFetchedAheadIn ? job_.caches->TouchFurther(line)
                                               : job_.caches->Touch(line, Access::kStream);
    }
    SimulatedHeap::Cell& cell = job_.heap.cell(id);
    cell.memory_ps = static_cast<uint32_t>(std::min<uint64_t>(~uint32_t{0}, cell.memory_ps + ps));
    Await(ps, 0);
  }

  // The mark byte of a reference's object, and the descriptor of its page.
  void TouchMark(Addr word, bool is_chain) {
    if (job_.caches == nullptr) return Await(job_.reference_memory_ps, 2);
    const uint32_t id = SimulatedHeap::CellAt(word);
    const TableEntries entries = EntriesOf(job_.heap, id);
    const auto access = is_chain ? Access::kAhead : Access::kBatch;
    Await(job_.caches->TouchTable(entries.info, access) +
              job_.caches->TouchTable(entries.mark, access),
          0);
  }

  bool Mark(Addr word, Addr* begin, size_t* bytes, bool is_chain) {
    Spend(is_chain ? job_.chain_ps : job_.reference_ps);
    TouchMark(word, is_chain);
    const uint32_t id = SimulatedHeap::CellAt(word);
    Branch(&is_white_, job_.marks[id] == 0);
    if (job_.marks[id] != 0) return false;
    job_.marks[id] = 1;
    ++statistics.objects;
    const SimulatedHeap::Cell& cell = job_.heap.cell(id);
    if (!is_chain) Spend(job_.object_ps);
    Branch(&has_words_, (cell.flags & SimulatedHeap::kPointerFree) == 0);
    if ((cell.flags & SimulatedHeap::kPointerFree) != 0) return false;
    if ((cell.flags & SimulatedHeap::kDescribed) != 0) {
      PushOrLeave({word, 0});
      return false;
    }
    const uint64_t all = job_.heap.BytesOf(id);
    if (all > kPageBytes) {
      PushSpan(word, all);
      return false;
    }
    *begin = word;
    *bytes = all;
    return true;
  }

  void AddWord(Addr word) {
    words_[pending_++] = word;
    if (pending_ == kPendingWords) MarkPending();
  }

  // --- What MarkLoop asks for ---

  void MarkPending() {
    for (size_t i = 0; i < pending_; ++i) {
      const uint32_t id = SimulatedHeap::CellAt(words_[i]);
      __builtin_prefetch(&job_.marks[id]);
      if (job_.caches != nullptr) job_.heap.PrefetchCell(id);
    }
    for (size_t i = 0; i < pending_; ++i) {
      Addr begin;
      size_t bytes;
      if (Mark(words_[i], &begin, &bytes, false)) PushOrLeave({begin, bytes});
    }
    pending_ = 0;
    ChooseOrder();
  }
  void ScanDescribed(Addr base) {
    const uint32_t id = SimulatedHeap::CellAt(base);
    const uint64_t bytes = job_.heap.BytesOf(id);
    uint64_t at = 0;
    for (uint32_t cell = id; at < bytes; ++cell, at += SimulatedHeap::kCellBytes) {
      const uint64_t part = std::min(bytes - at, SimulatedHeap::kCellBytes);
      Spend(job_.range_ps + part / kWordBytes * job_.word_ps);
      if (job_.caches == nullptr) {
        Await(job_.heap.cell(cell).memory_ps, LinesOf(part));
      } else {
        Touch(cell, 0, part, false);
      }
      const size_t end = job_.heap.cell(cell + 1).first_reference;
      for (size_t i = job_.heap.cell(cell).first_reference; i < end; ++i) {
        AddWord(SimulatedHeap::BeginOf(job_.heap.target(i)));
      }
    }
    statistics.bytes_scanned += bytes;
  }
  void LeaveForRescan(gc::PackedRange) { job_.overflowed = true; }
  void Prefetch(gc::PackedRange range) { job_.heap.PrefetchReferences(CellAt(range.begin())); }
  bool pads_objects() const { return false; }
  bool MustPause() {
    // A worker that marks lets the others catch up where it looks at what they have done.
    VirtualTime::current().Sync();
    return false;
  }
  bool IsPauseWanted() const { return false; }
  bool IsPausing() const { return false; }
  bool Shares() const { return job_.options.balance; }
  bool WakeHelper() {
    if (job_.joined >= job_.options.workers) return false;
    const int helper = job_.joined++;
    VirtualTime& time = VirtualTime::current();
    time.Charge(time.costs().wake_call_ps);
    time.Sync();
    time.Start(helper);
    return true;
  }
  alloc::NodeMark NodeOf(Addr) const { return alloc::kNoNode; }
  gc::MarkCrew<VirtualClock>& crew() { return job_.crew; }
  Worker& other(int i) { return *job_.workers[static_cast<size_t>(i)]; }
  int worker_count() const { return job_.options.workers; }

  Job& job_;
  bool is_ready_ = false;
  BranchGuess is_white_, has_words_, has_usual_size_;
  size_t last_bytes_ = 0;    // of the range that was scanned last
  uint64_t cold_parts_ = 0;  // of the lines that its last victim had at hand, those to come
};

SimulatedMarker::SimulatedMarker(SimulatedHeap* heap, const Machine& machine)
    : heap_(*heap), machine_(machine) {}

SimulationResult SimulatedMarker::Run(const SimulationOptions& options) const {
  return Run(options, nullptr, nullptr);
}

SimulationResult SimulatedMarker::RunSerial(CacheSimulation* caches) {
  for (size_t i = 0; i < heap_.size(); ++i) heap_.cell(i).memory_ps = 0;
  for (SimulatedHeap::RootTask& task : heap_.root_tasks()) task.memory_ps = 0;
  std::vector<uint32_t> order;
  order.reserve(heap_.size());
  Warm(heap_, caches);
  const SimulationResult result = Run({}, caches, &order);
  heap_.Reorder(order);
  uint64_t scanning_ps = 0;
  for (const SimulatedHeap::RootTask& task : heap_.root_tasks()) scanning_ps += task.memory_ps;
  for (size_t i = 0; i < heap_.size(); ++i) scanning_ps += heap_.cell(i).memory_ps;
  const uint64_t references = heap_.references() + 1;
  reference_memory_ps_ =
      result.memory_ps > scanning_ps ? (result.memory_ps - scanning_ps) / references : 0;
  live_parts_ = static_cast<uint64_t>(caches->live_lines() * kLineParts);
  cold_access_ps_ = static_cast<uint64_t>(caches->live_line_ps() * caches->live_share());
  cold_access_parts_ = static_cast<uint64_t>(std::ceil(caches->live_share() * kLineParts));
  return result;
}

SimulationResult SimulatedMarker::Run(const SimulationOptions& options, CacheSimulation* caches,
                                      std::vector<uint32_t>* order) const {
  Job job = {heap_,
             options,
             caches,
             reference_memory_ps_,
             live_parts_,
             cold_access_ps_,
             cold_access_parts_,
             Ps(machine_.range_ns),
             Ps(machine_.word_ns),
             Ps(machine_.reference_ns),
             Ps(machine_.object_ns),
             Ps(machine_.chain_ns),
             Ps(machine_.surprise_ns),
             order};
  job.marks.assign(heap_.size() + 1, 0);
  VirtualTime time(machine_.Costs(), options.workers);
  SimulationResult result;
  for (int i = 0; i < options.workers; ++i) {
    job.workers.push_back(std::make_unique<Worker>(&job, i));
    if (!job.workers.back()->is_ready()) job.overflowed = true;
  }
  const bool ended = time.Run([&](int worker) {
    if (worker == 0) job.crew.BeginJob(options.termination, options.workers);
    job.workers[static_cast<size_t>(worker)]->Run();
  });
  if (!ended) job.overflowed = true;
  for (int i = 0; i < options.workers; ++i) {
    const VirtualTime::Figures& figures = time.figures(i);
    if (!figures.has_run) continue;
    ++result.workers;
    result.length_ps = std::max(result.length_ps, figures.end_ps);
    result.contention_ps += figures.contention_ps;
    const Worker& worker = *job.workers[static_cast<size_t>(i)];
    result.idle_ps += worker.statistics.idle;
    result.busy_ps += figures.end_ps - figures.begin_ps - worker.statistics.idle;
    result.steals += worker.statistics.steals;
    result.objects += worker.statistics.objects;
    result.bytes_scanned += worker.statistics.bytes_scanned;
  }
  // Those that had no work to the end, or were not needed at all, are idle.
  for (int i = 0; i < options.workers; ++i) {
    const VirtualTime::Figures& figures = time.figures(i);
    if (figures.has_run) result.absent_ps += figures.begin_ps;
    result.idle_ps += result.length_ps - (figures.has_run ? figures.end_ps : 0);
  }
  result.processor_ps = job.processor_ps;
  result.memory_ps = job.memory_ps;
  result.added_ps = job.added_ps;
  result.added_lines = static_cast<double>(job.added_parts) / kLineParts;
  result.overflowed = job.overflowed;
  return result;
}

}  // namespace gleaner::tools
