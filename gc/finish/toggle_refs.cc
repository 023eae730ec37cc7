#include "gc/finish/toggle_refs.h"

#include "gc/finish/finalize.h"

namespace gleaner::gc {

template <class Keep>
void ToggleRefs::Filter(Keep keep) {
  size_t kept = 0;
  for (size_t i = 0; i < count_; ++i) {
    Ref ref = refs_[i];
    if (keep(&ref)) refs_[kept++] = ref;
  }
  count_ = kept;
}

bool ToggleRefs::Add(Addr object, bool strong) {
  if (refs_.max() == 0 && !refs_.Reserve(kMaxRefs)) return false;
  if (!refs_.EnsureCommitted(count_ + 1)) return false;
  RecordRegistered(object, kToggled);
  refs_[count_++] = {object, strong};
  return true;
}

void ToggleRefs::Move(Addr object, Addr to) {
  if (to != 0) RecordRegistered(to, kToggled);
  Filter([object, to](Ref* ref) {
    if (ref->object != object) return true;
    ref->object = to;
    return to != 0;
  });
}

void ToggleRefs::Update(ToggleStatus (*ask)(void* object)) {
  Filter([ask](Ref* ref) {
    const ToggleStatus status = ask(PointerAt<void>(ref->object));
    ref->strong = status == ToggleStatus::kStrong;
    return status != ToggleStatus::kDrop;
  });
}

void ToggleRefs::MarkStrong(Marker* marker) const {
  for (size_t i = 0; i < count_; ++i) {
    alloc::ObjectRef object;
    if (!refs_[i].strong || !alloc::FindSlot(refs_[i].object, &object)) continue;
    marker->SetMarkedExplicitly();
    marker->worker(0).MarkObject(object);
  }
}

void ToggleRefs::ForgetUnreachable(const Marker& marker) {
  Filter([&marker](const Ref* ref) {
    alloc::ObjectRef object;
    return alloc::FindSlot(ref->object, &object) && marker.IsMarked(object);
  });
}

}  // namespace gleaner::gc
