// All that is registered for objects. Guarded by the collector lock.
#pragma once

#include "gc/finish/finalize.h"
#include "gc/finish/toggle_refs.h"

namespace gleaner::gc {

struct Registrations {
  // Moves what is registered for the object to the `bytes` at `to`, to which its contents have been
  // copied; drops it if `to` is 0. pre: the object is allocated.
  void Move(const alloc::ObjectRef& object, Addr to = 0, size_t bytes = 0);
  // At the end of marking: decides by what is white, in the order that gc/finish/finalize.h gives.
  // Returns the number of objects queued for finalization. `warn_cycle` is called for each object
  // that reaches itself.
  size_t DecideWorldStopped(Marker* marker, void (*warn_cycle)(Addr object));

  Finalizers finalizers;
  Links short_links;
  Links long_links;
  ToggleRefs toggle_refs;
};

}  // namespace gleaner::gc
