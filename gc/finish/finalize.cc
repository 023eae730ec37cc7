#include "gc/finish/finalize.h"

namespace gleaner::gc {

using alloc::FindSlot;
using alloc::ObjectRef;

namespace {

constexpr Addr Hide(Addr a) { return ~a; }

// Whether `a` lies in a heap object that is not marked. Objects outside the heap never die.
bool IsWhite(const Marker& marker, Addr a, ObjectRef* object) {
  return FindSlot(a, object) && !marker.IsMarked(*object);
}

bool IsIn(const ObjectRef& object, Addr a) { return a - object.base < object.bytes; }

}  // namespace

constinit platform::Atomic<bool> g_any_registered{false};

void RecordRegistered(Addr a, Registered what) {
  ObjectRef object;
  if (!FindSlot(a, &object)) return;
  // Relaxed: another thread gets the object from this one, ordered by whatever passes it.
  g_any_registered.Store(true, platform::memory_order_relaxed);
  alloc::g_space.info[object.page].SetRegistered(what);
}

bool Finalizers::Register(Addr object, const Finalizer& finalizer, Finalizer* old) {
  Finalizer* present = table_.Find(Hide(object));
  *old = present != nullptr ? *present : Finalizer{};
  if (finalizer.function == nullptr) {
    if (present != nullptr) table_.Erase(Hide(object));
    return true;
  }
  if (present != nullptr) {
    *present = finalizer;
    return true;
  }
  RecordRegistered(object, kFinalized);
  if (ObjectRef found; FindSlot(object, &found) && object - found.base > max_offset_) {
    max_offset_ = object - found.base;
  }
  return table_.Insert(Hide(object), finalizer) != nullptr;
}

// Drops the finalizer if `to` is 0.
void Finalizers::MoveOne(Addr from, Addr to) {
  const Finalizer* present = table_.Find(Hide(from));
  if (present == nullptr) return;
  const Finalizer finalizer = *present;
  table_.Erase(Hide(from));  // first, so that the insertion cannot need memory
  if (to == 0) return;
  RecordRegistered(to, kFinalized);
  table_.Insert(Hide(to), finalizer);
}

void Finalizers::Move(const ObjectRef& object, Addr to, size_t bytes) {
  if (to == 0 && max_offset_ > table_.size()) {
    table_.EraseIf([&](uint64_t hidden, const Finalizer&) { return IsIn(object, Hide(hidden)); });
  } else {
    for (size_t offset = 0; offset <= max_offset_ && offset < object.bytes; ++offset) {
      MoveOne(object.base + offset, to != 0 && offset < bytes ? to + offset : 0);
    }
  }
  if (head_ != tail_) MoveQueued(object, to, bytes);
}

void Finalizers::MoveQueued(const ObjectRef& object, Addr to, size_t bytes) {
  if (to == 0 && given_back_.Insert(Hide(object.base), tail_) != nullptr) return;
  for (size_t i = head_; i != tail_; ++i) {
    Ready& ready = queue_[i];
    if (ready.base != object.base) continue;
    const size_t offset = AddressOf(ready.object) - object.base;
    if (to == 0 || offset >= bytes) {
      ready = {};
    } else {
      ready.object = PointerAt<void>(to + offset);
      ready.base = to;
    }
  }
}

void Finalizers::AddRoots(RootTasks* roots) const {
  roots->Add(RootKind::kData, table_.storage_begin(), table_.storage_end());
  // kStack, so that interior pointers count: a registered pointer may point anywhere in its object.
  if (head_ != tail_)
    roots->Add(RootKind::kStack, AddressOf(&queue_[head_]), AddressOf(&queue_[tail_]));
}

bool Finalizers::Enqueue(Addr object, const Finalizer& finalizer) {
  if (head_ == tail_) {
    head_ = tail_ = 0;
    given_back_.Clear();
  }
  if (!queue_.EnsureCommitted(tail_ + 1)) return false;
  ObjectRef found;
  const Addr base = FindSlot(object, &found) ? found.base : object;
  queue_[tail_++] = {PointerAt<void>(object), finalizer.function, finalizer.data, base};
  const auto queued = on_queued.Load(platform::memory_order_relaxed);  // see on_queued
  if (queued != nullptr) queued(PointerAt<void>(object));
  return true;
}

size_t Finalizers::QueueUnreachable(Marker* marker, void (*warn_cycle)(Addr object)) {
  if (table_.empty()) return 0;
  MarkWorker& worker = marker->worker(0);
  table_.ForEach([&](uint64_t hidden, Finalizer& finalizer) {
    ObjectRef object;
    if (!IsWhite(*marker, Hide(hidden), &object)) return;
    switch (finalizer.order) {
      case FinalizeOrder::kNormal:
      case FinalizeOrder::kUnreachable:
        worker.PushContents(object);
        break;
      case FinalizeOrder::kIgnoreSelf:
        worker.PushContentsButSelf(object);
        break;
      case FinalizeOrder::kNoOrder:
        return;
    }
    marker->MarkMore();
    if (marker->IsMarked(object)) warn_cycle(object.base);
  });
  if (head_ == tail_) {
    head_ = tail_ = 0;
    given_back_.Clear();
  }
  const size_t first = tail_;
  size_t unreachable_ones = 0;
  // Without memory for the queue the object stays registered, and alive, for another cycle.
  table_.EraseIf([&](uint64_t hidden, Finalizer& finalizer) {
    ObjectRef object;
    if (!IsWhite(*marker, Hide(hidden), &object)) return false;
    if (finalizer.order == FinalizeOrder::kUnreachable) {
      ++unreachable_ones;
      return false;  // decided below
    }
    return Enqueue(Hide(hidden), finalizer);
  });
  for (size_t i = first; i < tail_; ++i) {
    ObjectRef object;
    if (FindSlot(AddressOf(queue_[i].object), &object)) worker.MarkObject(object);
  }
  // Objects that could not be queued stay in the table, so they are marked with all they refer to.
  table_.ForEach([&](uint64_t hidden, Finalizer& finalizer) {
    ObjectRef object;
    if (finalizer.order == FinalizeOrder::kUnreachable) return;
    if (IsWhite(*marker, Hide(hidden), &object)) worker.MarkObject(object);
  });
  marker->MarkMore();
  if (unreachable_ones != 0) {
    // Objects to which a queued or registered object refers are marked by now and stay in the
    // table. Objects for which the queue has no memory stay, too.
    table_.EraseIf([&](uint64_t hidden, Finalizer& finalizer) {
      ObjectRef object;
      if (finalizer.order != FinalizeOrder::kUnreachable ||
          !IsWhite(*marker, Hide(hidden), &object)) {
        return false;
      }
      const bool queued = Enqueue(Hide(hidden), finalizer);
      worker.MarkObject(object);
      return queued;
    });
    marker->MarkMore();
  }
  return tail_ - first;
}

void Finalizers::QueueAll() {
  table_.EraseIf(
      [&](uint64_t hidden, Finalizer& finalizer) { return Enqueue(Hide(hidden), finalizer); });
}

bool Finalizers::Take(Ready* out) {
  while (head_ != tail_) {
    const size_t* end = given_back_.Find(Hide(queue_[head_].base));
    const bool is_there = queue_[head_].object != nullptr && (end == nullptr || head_ >= *end);
    *out = queue_[head_];
    queue_[head_++] = {};
    if (is_there) return true;
  }
  given_back_.Clear();
  return false;
}

LinkResult Links::Register(Addr link, Addr object) {
  RecordRegistered(object, kLinkTarget);
  RecordRegistered(link, kHoldsLink);
  Target* present = table_.Find(Hide(link));
  if (present != nullptr) {
    present->hidden_object = Hide(object);
  } else if (table_.Insert(Hide(link), {Hide(object)}) == nullptr) {
    return LinkResult::kNoMemory;
  }
  IndexIfWanted(link, object);
  return present != nullptr ? LinkResult::kDuplicate : LinkResult::kNew;
}

bool Links::Unregister(Addr link) { return table_.Erase(Hide(link)); }

LinkResult Links::Move(Addr from, Addr to) {
  Target* present = table_.Find(Hide(from));
  if (present == nullptr) return LinkResult::kNotFound;
  if (from == to) return LinkResult::kNew;
  if (table_.Find(Hide(to)) != nullptr) return LinkResult::kDuplicate;
  const Target target = *present;
  table_.Erase(Hide(from));  // first, so that the insertion cannot need memory
  RecordRegistered(to, kHoldsLink);
  table_.Insert(Hide(to), target);
  IndexIfWanted(to, Hide(target.hidden_object));
  return LinkResult::kNew;
}

void Links::MoveHeld(const ObjectRef& object, Addr to, size_t bytes) {
  if (to == 0 && object.bytes / kWordBytes > table_.size()) {
    table_.EraseIf([&](uint64_t hidden, const Target&) { return IsIn(object, Hide(hidden)); });
    return;
  }
  for (size_t offset = 0; offset < object.bytes && !table_.empty(); offset += kWordBytes) {
    if (to != 0 && offset + kWordBytes <= bytes) {
      Move(object.base + offset, to + offset);
    } else {
      Unregister(object.base + offset);
    }
  }
}

bool Links::Index(Addr link, Addr object) {
  ObjectRef found;
  if (!FindSlot(object, &found)) return true;  // not in the heap: never freed
  Leading* first = by_object_.Find(Hide(found.base));
  // An entry with count 0 is from an earlier object that contained this address.
  if (first == nullptr || first->count == 0)
    return by_object_.Insert(Hide(found.base), {Hide(link), 1}) != nullptr;
  const size_t i = first->count++;
  return i >= found.bytes || by_object_.Insert(Hide(found.base + i), {Hide(link), 0}) != nullptr;
}

bool Links::IndexAll() {
  is_indexed_ = true;
  table_.ForEach([this](uint64_t hidden_link, const Target& target) {
    IndexIfWanted(Hide(hidden_link), Hide(target.hidden_object));
  });
  return is_indexed_;
}

void Links::DropIndex() {
  by_object_.Clear();
  is_indexed_ = false;
}

void Links::ClearThoseTo(const ObjectRef& object) {
  if (table_.empty()) return;
  const auto leads_there = [&object](const Target& target) {
    return IsIn(object, Hide(target.hidden_object));
  };
  size_t count = SIZE_MAX;  // links that may lead to the object
  if (is_indexed_ || IndexAll()) {
    const Leading* first = by_object_.Find(Hide(object.base));
    count = first != nullptr ? first->count : 0;
  }
  if (count > object.bytes) {
    table_.EraseIf([&](uint64_t hidden_link, const Target& target) {
      if (!leads_there(target)) return false;
      *PointerAt<Addr>(Hide(hidden_link)) = 0;
      return true;
    });
  }
  for (size_t i = 0; is_indexed_ && i < count && i < object.bytes; ++i) {
    const Leading* leading = by_object_.Find(Hide(object.base + i));
    if (leading == nullptr) continue;
    const Addr hidden_link = leading->hidden_link;
    by_object_.Erase(Hide(object.base + i));
    const Target* target = table_.Find(hidden_link);
    if (target == nullptr || !leads_there(*target)) continue;
    *PointerAt<Addr>(Hide(hidden_link)) = 0;
    table_.Erase(hidden_link);
  }
}

void Links::ClearUnreachable(const Marker& marker) {
  DropIndex();
  table_.EraseIf([&](uint64_t hidden_link, Target& target) {
    ObjectRef object;
    if (!IsWhite(marker, Hide(target.hidden_object), &object)) return false;
    *PointerAt<Addr>(Hide(hidden_link)) = 0;
    return true;
  });
}

void Links::ForgetDangling(const Marker& marker) {
  table_.EraseIf([&](uint64_t hidden_link, Target&) {
    ObjectRef object;
    return IsWhite(marker, Hide(hidden_link), &object);
  });
}

}  // namespace gleaner::gc
