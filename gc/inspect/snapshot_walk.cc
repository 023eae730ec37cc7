#include "gc/inspect/snapshot_walk.h"

#include <cstring>

#include "alloc/walk.h"
#include "gc/mark/pointer.h"

namespace gleaner::gc {

using alloc::Contents;
using alloc::g_space;
using alloc::ObjectRef;
using alloc::PageInfo;
using alloc::PageNumber;
using alloc::PageState;

SnapshotWalk::Sink::Sink(SnapshotWalk* w) : MarkSink{}, walk(w) {
  push = [](MarkSink* sink, Addr word) {
    SnapshotWalk* self = static_cast<Sink*>(sink)->walk;
    self->CollectWord(word, self->FindWord(word), true, false);
  };
  push_range = [](MarkSink* sink, Addr begin, Addr end, bool interior) {
    static_cast<Sink*>(sink)->walk->CollectWords(begin, end, false, interior);
  };
}

bool SnapshotWalk::Init(SnapshotWriter* writer) {
  writer_ = writer;
  if (candidates_.Reserve(kMaxCandidates) && candidates_.EnsureCommitted(kMaxCandidates) &&
      live_.Reserve(alloc::kMaxSlotsPerPage) && live_.EnsureCommitted(alloc::kMaxSlotsPerPage)) {
    return true;
  }
  Release();
  return false;
}

void SnapshotWalk::Release() {
  candidates_.Release();
  live_.Release();
}

void SnapshotWalk::Begin(const Marker& marker, const MarkConfig& config, TypeRanges types) {
  black_ = marker.black();
  config_ = config;
  types_ = types;
  last_type_range_ = {};
  counts_ = {};
}

// --- Objects ---

void SnapshotWalk::WriteObjects() {
  is_root_ = false;
  writer_->Begin(SnapshotBlock::kObjects);
  alloc::ForEachPage([this](PageNumber page, const PageInfo& info) {
    if (writer_->failed()) return;
    if (info.state == PageState::kSmall) {
      WritePage(page, info);
    } else if (info.state == PageState::kLarge && *g_space.MarksOf(page) == black_) {
      WriteObject({g_space.AddressOfPage(page), info.object_bytes, page, 0}, info.contents);
    }
  });
  writer_->End();
}

void SnapshotWalk::WritePage(PageNumber page, const PageInfo& info) {
  const uint8_t* marks = g_space.MarksOf(page);
  const Addr begin = g_space.AddressOfPage(page);
  page_ = page;
  page_bytes_ = info.slot_bytes;
  live_count_ = 0;
  uint8_t bitmap[alloc::kMaxSlotsPerPage / 8] = {};
  for (uint32_t slot = 0; slot < info.slot_count; ++slot) {
    if (marks[slot] != black_) continue;
    bitmap[slot / 8] |= static_cast<uint8_t>(1 << slot % 8);
    live_[live_count_++].base = begin + Addr{slot} * info.slot_bytes;
  }
  if (live_count_ == 0) return;
  if (info.contents == Contents::kDescribed && MayCallProcedure(info.kind)) {
    for (size_t i = 0; i < live_count_; ++i) {
      const Addr base = live_[i].base;
      const auto slot = static_cast<uint32_t>((base - begin) / info.slot_bytes);
      WriteObject({base, info.slot_bytes, page, slot}, info.contents);
    }
    return;
  }
  writer_->BreakIfFull(kPageRoom);
  const bool has_words = info.contents != Contents::kPointerFree;
  writer_->Byte(
      static_cast<uint8_t>(has_words ? SnapshotRecord::kPage : SnapshotRecord::kPointerFreePage));
  writer_->Address(begin);
  writer_->Number(info.slot_bytes / alloc::kGranuleBytes);
  writer_->Number(static_cast<uint64_t>(info.kind));
  writer_->Number(info.slot_count);
  writer_->Bytes(bitmap, (info.slot_count + 7u) / 8);
  counts_.objects += live_count_;
  counts_.bytes += live_count_ * info.slot_bytes;
  if (!has_words) return;
  const size_t shapes_defined = writer_->shape_count();
  CollectPage(info.contents);
  WriteLive(shapes_defined);
}

// Collects the references of all live objects of the page, and gives the objects their shapes.
void SnapshotWalk::CollectPage(Contents contents) {
  streams_ = false;
  candidate_count_ = 0;
  for (size_t i = 0; i < live_count_; ++i) {
    Live& live = live_[i];
    if (contents == Contents::kWords) {
      CollectWords(live.base, live.base + page_bytes_, false, false);
    } else {
      CollectDescribed({live.base, page_bytes_, page_, 0});
    }
    live.end = static_cast<uint32_t>(candidate_count_);
  }
  ResolveCandidates();
  uint32_t kept = 0;
  uint32_t next = 0;
  for (size_t i = 0; i < live_count_; ++i) {
    const uint32_t begin = kept;
    for (; next < live_[i].end; ++next) {
      if (IsLive(candidates_[next])) candidates_[kept++] = candidates_[next];
    }
    live_[i].end = kept;
    ChooseShape(&live_[i], begin);
  }
  counts_.references += kept;
}

void SnapshotWalk::ChooseShape(Live* live, uint32_t begin) {
  SnapshotWriter::Shape& shape = live->shape;
  shape = {TypeOf(live->base), 0, 0, 0};
  live->number = SnapshotWriter::kNoShape;
  for (uint32_t i = begin; i < live->end; ++i) {
    const Candidate& reference = candidates_[i];
    const size_t word = (reference.at - live->base) / kWordBytes;
    if (word >= kMaxShapeWords) return;
    const uint64_t bit = uint64_t{1} << word;
    if (shape.references >= bit) return;  // a second one of the word
    shape.references |= bit;
    if (reference.is_known) shape.known |= bit;
    if (reference.value != reference.base) shape.interior |= bit;
  }
  live->number = writer_->ShapeNumber(shape);
}

void SnapshotWalk::WriteLive(size_t shapes_defined) {
  for (size_t i = 0; i < live_count_; ++i) {
    const Live& live = live_[i];
    const uint32_t begin = i == 0 ? 0 : live_[i - 1].end;
    if (live.number == SnapshotWriter::kNoShape) {
      WriteRuns(live, begin);
      continue;
    }
    writer_->Number(kCodeFirstShape + live.number);
    if (live.number == shapes_defined) {
      writer_->Number(live.shape.type);
      writer_->Number(live.shape.references);
      writer_->Number(live.shape.known);
      writer_->Number(live.shape.interior);
      ++shapes_defined;
    }
    size_t last = i;
    while (last + 1 < live_count_ && live_[last + 1].number == live.number) ++last;
    if (last < i + 2) last = i;  // a repetition of one costs what it saves
    for (size_t k = i; k <= last; ++k) {
      if (k == i + 1) {
        writer_->Number(kCodeRepeat);
        writer_->Number(last - i);
      }
      for (uint32_t r = k == 0 ? 0 : live_[k - 1].end; r < live_[k].end; ++r) {
        writer_->Target(live_[k].base, candidates_[r].base, candidates_[r].value);
      }
    }
    i = last;
  }
}

void SnapshotWalk::WriteRuns(const Live& live, uint32_t begin) {
  writer_->Number(kCodeRuns);
  writer_->Number(live.shape.type);
  writer_->BeginReferences(live.base);
  for (uint32_t i = begin; i < live.end; ++i) {
    const Candidate& reference = candidates_[i];
    writer_->AddReference((reference.at - live.base) / kWordBytes, reference.base, reference.value,
                          reference.is_known);
  }
  writer_->EndReferences();
}

void SnapshotWalk::WriteObject(const ObjectRef& object, Contents contents) {
  writer_->BreakIfFull(kRecordRoom);
  writer_->Byte(static_cast<uint8_t>(SnapshotRecord::kObject));
  writer_->Address(object.base);
  writer_->Number(object.bytes);
  writer_->Number(static_cast<uint64_t>(object.kind()));
  const bool has_words = contents != Contents::kPointerFree;
  writer_->Number(has_words ? TypeOf(object.base) : 0);
  writer_->BeginReferences(object.base);
  ++counts_.objects;
  counts_.bytes += object.bytes;
  if (has_words) {
    BeginStream(object.base, object.base + object.bytes);
    if (contents == Contents::kWords) {
      CollectWords(object.base, object.base + object.bytes, false, false);
    } else {
      CollectDescribed(object);
    }
    counts_.references += FlushStream();
  }
  writer_->EndReferences();
}

// --- Words ---

void SnapshotWalk::CollectWords(Addr begin, Addr end, bool is_known, bool interior) {
  end = AlignDown(end, kWordBytes);
  for (Addr at = AlignUp(begin, kWordBytes); at < end; at += kWordBytes) {
    CollectWord(LoadForeignWord(at), at, is_known, interior);
  }
}

// Pointers one past the end of an object count as they do for the marker.
void SnapshotWalk::CollectWord(Addr word, Addr at, bool is_known, bool interior) {
  if (GLEANER_LIKELY(word - g_space.base > g_space.bytes)) return;
  // Both of a word's candidates are resolved at a time.
  if (streams_ && candidate_count_ + 2 > kMaxCandidates) WriteCandidates();
  AddCandidate(word, word, at, is_known, interior);
  const bool past_end = is_root_ && config_.all_interior_pointers && config_.past_the_end &&
                        word % alloc::kGranuleBytes == 0;
  if (past_end || config_.pad_objects) AddCandidate(word - 1, word, at, is_known, past_end);
}

void SnapshotWalk::AddCandidate(Addr lookup, Addr value, Addr at, bool is_known, bool interior) {
  if (!g_space.Reserves(lookup)) return;
  if (streams_ && candidate_count_ == kMaxCandidates) WriteCandidates();
  __builtin_prefetch(&g_space.info[g_space.PageOf(lookup)]);
  candidates_[candidate_count_++] = {at, value, lookup, is_known, interior, nullptr, 0};
}

void SnapshotWalk::ResolveCandidates() {
  for (size_t i = 0; i < candidate_count_; ++i) {
    Candidate& candidate = candidates_[i];
    ObjectRef object;
    if (!IsPointer(candidate.lookup, candidate.interior, config_, &object)) continue;
    // A word may lead to the object that ends there beside the one that begins there: not twice to
    // the one that it points into.
    const bool is_second = candidate.lookup != candidate.value && i > 0;
    const Candidate* first = is_second ? &candidates_[i - 1] : nullptr;
    if (first != nullptr && first->lookup == candidate.value && first->at == candidate.at &&
        first->mark == object.mark()) {
      continue;
    }
    candidate.mark = object.mark();
    candidate.base = object.base;
    __builtin_prefetch(candidate.mark);
  }
}

void SnapshotWalk::CollectDescribed(const ObjectRef& object) {
  current_ = object;
  found_ = object.base;
  Sink sink(this);
  uint64_t descriptor;
  if (!FindDescriptor(object, &sink, &descriptor)) return;
  switch (descriptor & kDescriptorTags) {
    case kLength: {
      const size_t bytes = descriptor < object.bytes ? descriptor : object.bytes;
      return CollectWords(object.base, object.base + bytes, false, false);
    }
    case kBitmap:
      for (uint64_t bits = descriptor & ~kDescriptorTags; bits != 0;) {
        const auto word = static_cast<size_t>(__builtin_clzll(bits));
        if (word * kWordBytes >= object.bytes) break;
        const Addr at = object.base + word * kWordBytes;
        CollectWord(LoadForeignWord(at), at, true, false);
        bits &= ~(uint64_t{1} << (63 - word));
      }
      return;
    default:
      // A page whose kind has not called a procedure in this collection is no stream.
      if (streams_) PushDescribed(object, &sink);
  }
}

Addr SnapshotWalk::FindWord(Addr word) {
  constexpr size_t kNearBytes = 512 * kWordBytes;
  const Addr end = current_.base + AlignDown(current_.bytes, kWordBytes);
  const Addr from = found_;
  const Addr until = end - from > kNearBytes ? from + kNearBytes : end;
  for (Addr at = from; at < until; at += kWordBytes) {
    if (LoadForeignWord(at) != word) continue;
    found_ = at + kWordBytes;
    return at;
  }
  // Procedures may take the words in any order.
  const Addr stop = from - current_.base > kNearBytes ? current_.base + kNearBytes : from;
  for (Addr at = current_.base; at < stop; at += kWordBytes) {
    if (LoadForeignWord(at) != word) continue;
    found_ = at + kWordBytes;
    return at;
  }
  return 0;
}

void SnapshotWalk::BeginStream(Addr begin, Addr end) {
  streams_ = true;
  stream_ = {begin, end};
  stream_count_ = 0;
  candidate_count_ = 0;
}

void SnapshotWalk::WriteCandidates() {
  ResolveCandidates();
  for (size_t i = 0; i < candidate_count_; ++i) {
    const Candidate& reference = candidates_[i];
    if (!IsLive(reference)) continue;
    const size_t word = stream_.Contains(reference.at) ? (reference.at - stream_.begin) / kWordBytes
                                                       : SnapshotWriter::kNoWord;
    writer_->AddReference(word, reference.base, reference.value, reference.is_known);
    ++stream_count_;
  }
  candidate_count_ = 0;
}

uint64_t SnapshotWalk::FlushStream() {
  WriteCandidates();
  return stream_count_;
}

// The object's first word, if it points to data of a loaded object; else 0.
uint64_t SnapshotWalk::TypeOf(Addr object) {
  const Addr word = LoadForeignWord(object);
  if (last_type_range_.Contains(word)) return word % kWordBytes == 0 ? word : 0;
  if (types_.count == 0 || word % kWordBytes != 0 || g_space.Contains(word) ||
      word < types_.ranges[0].begin || word >= types_.ranges[types_.count - 1].end) {
    return 0;
  }
  size_t low = 0;
  for (size_t high = types_.count; high - low > 1;) {
    const size_t middle = low + (high - low) / 2;
    (types_.ranges[middle].begin <= word ? low : high) = middle;
  }
  if (!types_.ranges[low].Contains(word)) return 0;
  last_type_range_ = types_.ranges[low];
  return word;
}

// --- Roots ---

void SnapshotWalk::BeginRoot(const RootSource& source, Addr begin, Addr end) {
  writer_->BreakIfFull(kRecordRoom);
  writer_->Byte(static_cast<uint8_t>(SnapshotRecord::kRoot));
  writer_->Number(static_cast<uint64_t>(source.kind));
  writer_->Number(source.thread);
  writer_->Number(begin);
  writer_->Number(end - begin);
  const size_t name_bytes = strlen(source.name);
  writer_->Text(source.name, name_bytes < kMaxName ? name_bytes : kMaxName);
  writer_->Number(g_space.base);
  writer_->BeginReferences(g_space.base);
  is_root_ = true;
  if (source.is_copied) begin = end = 0;
  BeginStream(begin, end);
  ++counts_.roots;
}

void SnapshotWalk::AddWords(RootKind kind, Addr begin, Addr end) {
  CollectWords(begin, end, false, kind == RootKind::kStack);
}

void SnapshotWalk::AddCopiedWords(RootKind kind, Addr at, const Addr* words, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    CollectWord(words[i], at + i * kWordBytes, false, kind == RootKind::kStack);
  }
}

void SnapshotWalk::AddTarget(Addr object) { AddCandidate(object, object, 0, true, true); }

void SnapshotWalk::EndRoot() {
  counts_.root_references += FlushStream();
  writer_->EndReferences();
}

}  // namespace gleaner::gc
