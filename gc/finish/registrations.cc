#include "gc/finish/registrations.h"

namespace gleaner::gc {

void Registrations::Move(const alloc::ObjectRef& object, Addr to, size_t bytes) {
  const uint8_t registered = alloc::g_space.info[object.page].Registered();  // on its page
  if ((registered & kFinalized) != 0) finalizers.Move(object, to, bytes);
  for (Links* links : {&short_links, &long_links}) {
    if ((registered & kHoldsLink) != 0) links->MoveHeld(object, to, bytes);
    if ((registered & kLinkTarget) != 0) links->ClearThoseTo(object);
  }
  if ((registered & kToggled) != 0) toggle_refs.Move(object.base, to);
}

size_t Registrations::DecideWorldStopped(Marker* marker, void (*warn_cycle)(Addr object)) {
  short_links.ClearUnreachable(*marker);
  toggle_refs.ForgetUnreachable(*marker);
  const size_t queued = finalizers.QueueUnreachable(marker, warn_cycle);
  short_links.ForgetDangling(*marker);
  long_links.ClearUnreachable(*marker);
  long_links.ForgetDangling(*marker);
  return queued;
}

}  // namespace gleaner::gc
