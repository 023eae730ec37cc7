#include "gc/inspect/back_references.h"

#include "alloc/walk.h"
#include "gc/mark/pointer.h"

namespace gleaner::gc {

using alloc::FindSlot;
using alloc::g_space;
using alloc::ObjectRef;
using alloc::PageNumber;

BackReferences::Sink::Sink(BackReferences* r) : MarkSink{}, references(r) {
  // A mark procedure pushes a word without its address: search the object for it.
  push = [](MarkSink* sink, Addr word) {
    BackReferences* self = static_cast<Sink*>(sink)->references;
    Addr at = self->current_.base;
    const Addr end = at + self->current_.bytes;
    while (at < end && LoadForeignWord(at) != word) at += kWordBytes;
    self->Word(word, at < end ? at : self->current_.base, From::kHeap, false);
  };
  push_range = [](MarkSink* sink, Addr begin, Addr end, bool interior) {
    static_cast<Sink*>(sink)->references->Words(AlignUp(begin, kWordBytes),
                                                AlignDown(end, kWordBytes), From::kHeap, interior);
  };
}

bool BackReferences::RecordWorldStopped(const Marker& marker, const RootTasks& roots,
                                        const MarkConfig& config) {
  table_.Clear();
  failed_ = false;
  black_ = marker.black();
  config_ = config;
  head_ = tail_ = 0;
  // Every object enters the queue once.
  if (!queue_.Reserve(alloc::CommittedPages() * alloc::kMaxSlotsPerPage)) return false;
  AddRoots(roots, false);
  AddRoots(roots, true);
  AddRest(marker);
  queue_.Release();
  if (failed_) table_.Clear();
  return !failed_;
}

void BackReferences::AddRoots(const RootTasks& roots, bool stacks) {
  for (size_t i = 0; i < roots.size(); ++i) {
    const platform::Range range = roots.at(i).range;
    const RootKind kind = roots.at(i).kind;
    if ((kind == RootKind::kStack) != stacks) continue;
    if (kind == RootKind::kUncollectablePages) {
      for (Addr page = range.begin; page < range.end; ++page)
        AddPage(static_cast<PageNumber>(page));
    } else {
      Words(range.begin, range.end, From::kRoot, stacks);
    }
  }
  Drain();
}

void BackReferences::AddPage(PageNumber page) {
  if (!IsUncollectable(g_space.info[page].kind)) return;
  alloc::ForEachSlotOf(page, [this](const ObjectRef& object) {
    if (*object.mark() == black_) Record(object, {});
  });
}

// Adds objects that are black for another reason: finalizable objects and all they refer to.
void BackReferences::AddRest(const Marker& marker) {
  alloc::ForEachSlot([&](const ObjectRef& object) {
    if (marker.IsMarked(object)) Record(object, {0, From::kFinalizer});
  });
}

void BackReferences::Words(Addr begin, Addr end, From from, bool interior) {
  for (Addr at = begin; at < end; at += kWordBytes) {
    const Addr word = LoadForeignWord(at);
    Word(word, at, from, interior);
    // One-past-the-end pointers count as they do for the marker.
    const bool past_end = from == From::kRoot && config_.all_interior_pointers &&
                          config_.past_the_end && word % alloc::kGranuleBytes == 0;
    if (past_end || config_.pad_objects) Word(word - 1, at, from, past_end);
  }
}

void BackReferences::Word(Addr word, Addr at, From from, bool interior) {
  ObjectRef object;
  if (!IsPointer(word, interior, config_, &object) || *object.mark() != black_) return;
  Record(object, {at, from});
}

void BackReferences::Record(const ObjectRef& object, Reference reference) {
  if (failed_ || table_.Find(object.base) != nullptr) return;
  if (table_.Insert(object.base, reference) == nullptr || !queue_.EnsureCommitted(tail_ + 1)) {
    failed_ = true;
    return;
  }
  queue_[tail_++] = object.base;
}

void BackReferences::Drain() {
  Sink sink(this);
  while (head_ != tail_ && !failed_) {
    if (!FindSlot(queue_[head_++], &current_)) continue;
    switch (g_space.info[current_.page].contents) {
      case alloc::Contents::kWords:
        Words(current_.base, current_.base + current_.bytes, From::kHeap, false);
        break;
      case alloc::Contents::kPointerFree:
        break;
      case alloc::Contents::kDescribed:
        PushDescribed(current_, &sink);
        break;
    }
  }
}

}  // namespace gleaner::gc
