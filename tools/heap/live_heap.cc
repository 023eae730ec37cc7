#include "tools/heap/live_heap.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "platform/os/clock.h"

namespace gleaner::tools {

using platform::memory_order_relaxed;
using runtime::HeapTables;
using runtime::LiveFigures;

namespace {

// The sizes that are believed: the process's memory may hold anything.
constexpr size_t kMaxSegments = 256;
constexpr size_t kMaxNoteBytes = 64 << 10;  // of a file, together
constexpr int kMaxLooksAtFile = 16;         // a file may be mapped often, and loaded more than once
constexpr int kMaxLooks = 4096;             // at object files
constexpr uint64_t kMaxHeaps = 65536;
constexpr uint64_t kMaxStallRows = 64;

// Of a copy, which nobody else touches.
uint64_t Value(const LiveFigures::Word& word) { return word.Load(memory_order_relaxed); }

bool ReadPlace(const ProcessMemory& memory, const LiveFigures::Place& place, uint64_t* number) {
  *number = 0;
  return place.bytes <= sizeof *number && memory.Read(place.address, number, place.bytes);
}

uint64_t Difference(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
// A count of bytes that may pass below 0.
uint64_t NotNegative(uint64_t number) { return static_cast<int64_t>(number) < 0 ? 0 : number; }

// Where g_live_figures is, by the note among `bytes` of notes at `address`; 0 if there is none.
uint64_t PointerByNotes(const std::vector<char>& notes, uint64_t address, uint64_t alignment) {
  const auto aligned = [alignment](uint64_t n) { return (n + alignment - 1) & ~(alignment - 1); };
  for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr head;
    memcpy(&head, &notes[at], sizeof head);
    const uint64_t name = at + sizeof head;
    const uint64_t descriptor = aligned(name + head.n_namesz);
    if (descriptor + head.n_descsz > notes.size()) break;
    constexpr char kOwner[] = "Gleaner";
    if (head.n_type == LiveFigures::kNoteType && head.n_namesz == sizeof kOwner &&
        head.n_descsz == sizeof(uint64_t) && memcmp(&notes[name], kOwner, sizeof kOwner) == 0) {
      uint64_t distance;
      memcpy(&distance, &notes[descriptor], sizeof distance);
      return address + descriptor + distance;
    }
    at = aligned(descriptor + head.n_descsz);
  }
  return 0;
}

// As PointerByNotes, for the object file with this head that is mapped at `address`.
uint64_t PointerOfFile(const ProcessMemory& memory, uint64_t address, const Elf64_Ehdr& head,
                       bool* has_32_bits) {
  if (head.e_ident[EI_CLASS] != ELFCLASS64) {
    *has_32_bits = *has_32_bits || head.e_ident[EI_CLASS] == ELFCLASS32;
    return 0;
  }
  std::vector<Elf64_Phdr> segments;
  uint64_t bias;
  if (!ReadSegments(memory, address, head, &segments, &bias)) return 0;
  size_t left_bytes = kMaxNoteBytes;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_NOTE || segment.p_memsz > left_bytes) continue;
    left_bytes -= segment.p_memsz;
    std::vector<char> notes(segment.p_memsz);
    const uint64_t notes_at = bias + segment.p_vaddr;
    if (!memory.Read(notes_at, notes.data(), notes.size())) continue;
    const uint64_t pointer = PointerByNotes(notes, notes_at, segment.p_align == 8 ? 8 : 4);
    if (pointer != 0) return pointer;
  }
  return 0;
}

// Whether `pointer` is null or leads to figures of some version. A file that is mapped as data, by
// a debugger as it may be, has the note but not the pointer.
bool MayLeadToFigures(const ProcessMemory& memory, uint64_t pointer) {
  uint64_t address;
  uint64_t magic;
  if (!memory.Read(pointer, &address, sizeof address)) return false;
  if (address == 0) return true;
  constexpr uint64_t kName = 0xffffffffffff;  // without the version
  return memory.Read(address, &magic, sizeof magic) &&
         (magic & kName) == (LiveFigures::kMagic & kName);
}

}  // namespace

bool ReadHead(const ProcessMemory& memory, uint64_t address, Elf64_Ehdr* head) {
  return memory.Read(address, head, sizeof *head) && memcmp(head->e_ident, ELFMAG, SELFMAG) == 0;
}

bool ReadSegments(const ProcessMemory& memory, uint64_t address, const Elf64_Ehdr& head,
                  std::vector<Elf64_Phdr>* segments, uint64_t* bias) {
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr) ||
      head.e_phnum == 0 || head.e_phnum > kMaxSegments) {
    return false;
  }
  segments->resize(head.e_phnum);
  if (!memory.Read(address + head.e_phoff, segments->data(),
                   segments->size() * sizeof(Elf64_Phdr))) {
    return false;
  }
  const auto first = std::find_if(segments->begin(), segments->end(), [](const Elf64_Phdr& each) {
    return each.p_type == PT_LOAD && each.p_offset == 0;
  });
  if (first == segments->end()) return false;
  *bias = address - first->p_vaddr;
  return true;
}

std::vector<LiveHeap> LiveHeap::Find(const ProcessMemory& memory, bool* has_32_bits) {
  std::vector<LiveHeap> heaps;
  *has_32_bits = false;
  std::map<std::string, int> looks_at;
  int looks = 0;
  for (const ProcessMemory::File& file : memory.Files()) {
    Elf64_Ehdr head;
    if (!ReadHead(memory, file.address, &head) || ++looks_at[file.identity] > kMaxLooksAtFile ||
        ++looks > kMaxLooks) {
      continue;
    }
    const uint64_t pointer = PointerOfFile(memory, file.address, head, has_32_bits);
    if (pointer == 0 || !MayLeadToFigures(memory, pointer)) continue;
    const bool is_known = std::any_of(heaps.begin(), heaps.end(), [pointer](const LiveHeap& heap) {
      return heap.pointer_ == pointer;
    });
    if (!is_known) heaps.push_back(LiveHeap(file.path, pointer));
  }
  return heaps;
}

bool LiveHeap::ReadAllocation(const ProcessMemory& memory, HeapSample* sample) const {
  const LiveFigures& figures = *figures_;
  uint64_t count;
  if (!ReadPlace(memory, figures.heaps, &count) || count > kMaxHeaps) return false;
  std::vector<uint64_t> heaps(count);
  if (!memory.Read(figures.heap_pointers, heaps.data(), count * sizeof heaps[0])) return false;
  uint64_t allocated = 0;
  uint64_t freed = 0;
  for (const uint64_t heap : heaps) {
    uint64_t both[2];
    if (!memory.Read(heap + figures.offset_in_heap, both, sizeof both)) return false;
    allocated += both[0];
    freed += both[1];
  }
  sample->allocated_bytes = allocated;
  sample->allocated_since_bytes = Difference(allocated, Value(figures.allocated_before));
  sample->freed_since_bytes = Difference(freed, Value(figures.freed_before));
  return true;
}

bool LiveHeap::ReadStalls(const ProcessMemory& memory, HeapSample* sample) const {
  const LiveFigures& figures = *figures_;
  if (figures.stall_rows > kMaxStallRows) return false;
  for (uint64_t i = 0; i < figures.stall_rows; ++i) {
    uint64_t row[2 * platform::kStallCauses];
    if (!memory.Read(figures.stalls + i * figures.stall_row_bytes, row, sizeof row)) return false;
    for (int c = 0; c < platform::kStallCauses; ++c) {
      sample->stall_ns[c] += row[c];
      sample->longest_stall_ns[c] =
          std::max(sample->longest_stall_ns[c], row[platform::kStallCauses + c]);
    }
  }
  return true;
}

bool LiveHeap::ReadPlaces(const ProcessMemory& memory, HeapSample* sample) const {
  const LiveFigures& figures = *figures_;
  uint64_t resident;
  uint64_t wanted;
  uint64_t charged;
  uint64_t allowance;
  uint64_t state;
  uint64_t metadata;
  uint64_t scanned_end;
  uint64_t pointer_free_begin;
  if (!ReadPlace(memory, figures.resident_pages, &resident) ||
      !ReadPlace(memory, figures.wanted_bytes, &wanted) ||
      !ReadPlace(memory, figures.charged_bytes, &charged) ||
      !ReadPlace(memory, figures.allowance_bytes, &allowance) ||
      !ReadPlace(memory, figures.cycle_state, &state) ||
      !ReadPlace(memory, figures.threads, &sample->threads) ||
      !ReadPlace(memory, figures.metadata_bytes, &metadata) ||
      !ReadPlace(memory, figures.scanned_end, &scanned_end) ||
      !ReadPlace(memory, figures.pointer_free_begin, &pointer_free_begin)) {
    return false;
  }
  sample->heap_bytes = std::max(resident * figures.page_bytes, wanted);
  sample->metadata_bytes =
      metadata + (scanned_end + Difference(figures.pages, pointer_free_begin)) *
                     figures.metadata_bytes_per_page;
  sample->charged_bytes = NotNegative(charged);
  sample->allowance_bytes = allowance == PTRDIFF_MAX ? 0 : NotNegative(allowance);
  sample->cycle_state = static_cast<gc::CycleState>(
      std::min<uint64_t>(state, static_cast<uint64_t>(gc::CycleState::kAbandoned)));
  return true;
}

// The sequence number stands around all that is read: figures of a collection, and numbers that it
// changes. Each Read is a system call of this thread, so the fences order the copies.
bool LiveHeap::ReadOnce(const ProcessMemory& memory, uint64_t address, HeapSample* sample) {
  LiveFigures& figures = *figures_;
  const uint64_t sequence_at =
      address + static_cast<uint64_t>(reinterpret_cast<const char*>(&figures.sequence) -
                                      reinterpret_cast<const char*>(&figures));
  *sample = {};
  uint64_t before;
  uint64_t after;
  if (!memory.Read(sequence_at, &before, sizeof before)) return false;
  // Pairs with the release of the even number in RecordCollectionInLiveFigures.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!memory.Read(address, &figures, sizeof figures) || !ReadPlaces(memory, sample) ||
      !ReadAllocation(memory, sample) || !ReadStalls(memory, sample)) {
    return false;
  }
  // Pairs with the fence there: if a figure was newer, so is the number.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!memory.Read(sequence_at, &after, sizeof after)) return false;
  sample->is_whole = before == after && before % 2 == 0;
  return true;
}

void LiveHeap::TakeCollections(HeapSample* sample) const {
  const LiveFigures& figures = *figures_;
  sample->markers = figures.markers;
  sample->is_concurrent = Value(figures.is_concurrent) != 0;
  sample->is_generational = Value(figures.is_generational) != 0;
  for (int i = 0; i < gc::kCauses; ++i) sample->causes[i] = Value(figures.causes[i]);
  for (int i = 0; i < 4; ++i) {
    sample->kinds[i] = Value(figures.kinds[i]);
    sample->collections += sample->kinds[i];
  }
  sample->pause_ns = Value(figures.pause_ns);
  sample->longest_pause_ns = Value(figures.longest_pause_ns);
  sample->cause = static_cast<gc::Cause>(std::min<uint64_t>(Value(figures.cause), gc::kCauses - 1));
  sample->kind = static_cast<gc::CollectionKind>(std::min<uint64_t>(Value(figures.kind), 3));
  sample->end_ns = Value(figures.end_ns);
  sample->last_pause_ns = Value(figures.last_pause_ns);
  sample->live_bytes = Value(figures.live_bytes);
  sample->live_objects = Value(figures.live_objects);
  sample->freed_bytes = Value(figures.freed_bytes);
  sample->steals = Value(figures.steals);
  sample->finalizable = Value(figures.finalizable);
  sample->free_bytes = Difference(
      sample->heap_bytes,
      Difference(sample->live_bytes + sample->allocated_since_bytes, sample->freed_since_bytes));
  const uint64_t count = std::min(sample->collections, LiveFigures::kPauses);
  for (uint64_t n = sample->collections - count; n < sample->collections; ++n) {
    const LiveFigures::Pause& pause = figures.pauses[n % LiveFigures::kPauses];
    sample->pauses.push_back({Value(pause.end_ns) - Value(pause.ns), Value(pause.end_ns)});
  }
}

LiveHeap::Found LiveHeap::Read(const ProcessMemory& memory, HeapSample* sample) {
  *sample = {};
  uint64_t address;
  if (!memory.Read(pointer_, &address, sizeof address)) return Found::kUnreadable;
  if (address == 0) return Found::kUnused;
  // First alone: the structure of another version may be shorter.
  uint64_t head[2];
  if (!memory.Read(address, head, sizeof head)) return Found::kUnreadable;
  const bool is_collected = head[1] == sizeof(LiveFigures);
  if (head[0] != HeapTables::kMagic || (!is_collected && head[1] != sizeof(HeapTables))) {
    return Found::kOtherVersion;
  }
  if (!memory.Read(address, &tables_, sizeof tables_)) return Found::kUnreadable;
  if (!is_collected) return Found::kUncollected;
  if (figures_ == nullptr) figures_ = std::make_unique<LiveFigures>();
  // Where processors are short, this thread loses its own between two numbers, and they are of
  // times far apart: then it looks again. A process that stands still within a report, or was
  // forked there, is never whole: after a time that outlasts a report whose thread waits for a
  // processor, what there is has to do.
  constexpr int kMinTries = 20;
  constexpr uint64_t kAtOnceNs = 1'000'000;
  constexpr uint64_t kSlowAfterNs = 100'000'000;
  constexpr uint64_t kTornAfterNs = 500'000'000;
  const uint64_t first_ns = platform::NowNs();
  for (int i = 1;; ++i) {
    const uint64_t begin_ns = platform::NowNs();
    if (!ReadOnce(memory, address, sample)) return Found::kUnreadable;
    const uint64_t end_ns = platform::NowNs();
    sample->time_ns = end_ns;
    const bool is_at_once = end_ns - begin_ns <= kAtOnceNs;
    const uint64_t patience_ns = !sample->is_whole ? kTornAfterNs : is_at_once ? 0 : kSlowAfterNs;
    if ((i >= kMinTries || patience_ns == 0) && end_ns - first_ns >= patience_ns) break;
    if (i >= kMinTries) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  const LiveFigures& figures = *figures_;
  version_.assign(figures.version, strnlen(figures.version, sizeof figures.version));
  TakeCollections(sample);
  return Found::kYes;
}

}  // namespace gleaner::tools
