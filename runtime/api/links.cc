// The GC_ API: disappearing links, short and long.
#include "runtime/api/api.h"

using gc::LinkResult;
using gc::Links;

namespace {

bool IsAligned(const void* p) { return AddressOf(p) % kWordBytes == 0; }

// Whether `link` is a word that can be cleared; prints a message if not.
bool IsLink(const char* call, void** link) {
  if (RejectNull(call, "the link", link)) return false;
  if (IsAligned(link)) return true;
  Complain("%s: the link %p is no multiple of %zu; ignored", call, static_cast<void*>(link),
           kWordBytes);
  return false;
}

int Register(const char* call, Links& links, void** link, const void* object) {
  if (!IsLink(call, link) || RejectNull(call, "the object", object)) return GC_NOT_FOUND;
  if (GC_find_leak != 0) return GC_UNIMPLEMENTED;
  LinkResult result;
  {
    platform::LockGuard guard(g_collector.lock());
    result = links.Register(AddressOf(link), AddressOf(object));
  }
  if (result == LinkResult::kDuplicate) return GC_DUPLICATE;
  if (result == LinkResult::kNew) return GC_SUCCESS;
  runtime::OutOfMemory(2 * kWordBytes);
  return GC_NO_MEMORY;
}

int Move(const char* call, Links& links, void** from, void** to) {
  if (!IsLink(call, to)) return GC_NOT_FOUND;
  if (from == nullptr || !IsAligned(from)) return GC_NOT_FOUND;
  platform::LockGuard guard(g_collector.lock());
  switch (links.Move(AddressOf(from), AddressOf(to))) {
    case LinkResult::kNew:
      return GC_SUCCESS;
    case LinkResult::kDuplicate:
      return GC_DUPLICATE;
    case LinkResult::kNotFound:
    case LinkResult::kNoMemory:  // a move needs none
      break;
  }
  return GC_NOT_FOUND;
}

int Unregister(Links& links, void** link) {
  if (link == nullptr || !IsAligned(link)) return 0;
  platform::LockGuard guard(g_collector.lock());
  return links.Unregister(AddressOf(link)) ? 1 : 0;
}

}  // namespace

extern "C" {

int GC_register_disappearing_link(void** link) {
  const char* const call = "GC_register_disappearing_link";
  if (!IsLink(call, link)) return GC_NOT_FOUND;
  void* object = GC_base(link);
  if (object == nullptr) {
    Complain("%s: the link %p does not lie in an object of the heap; ignored", call,
             static_cast<void*>(link));
    return GC_NOT_FOUND;
  }
  return Register(call, g_collector.registered().short_links, link, object);
}

int GC_general_register_disappearing_link(void** link, const void* object) {
  return Register("GC_general_register_disappearing_link", g_collector.registered().short_links,
                  link, object);
}
int GC_move_disappearing_link(void** link, void** new_link) {
  return Move("GC_move_disappearing_link", g_collector.registered().short_links, link, new_link);
}
int GC_unregister_disappearing_link(void** link) {
  return Unregister(g_collector.registered().short_links, link);
}

int GC_register_long_link(void** link, const void* object) {
  return Register("GC_register_long_link", g_collector.registered().long_links, link, object);
}
int GC_move_long_link(void** link, void** new_link) {
  return Move("GC_move_long_link", g_collector.registered().long_links, link, new_link);
}
int GC_unregister_long_link(void** link) {
  return Unregister(g_collector.registered().long_links, link);
}

GLEANER_SETTING(GC_toggleref_func, toggleref_func, runtime::g_toggleref_func)

int GC_toggleref_add(void* object, int is_strong) {
  if (RejectNull("GC_toggleref_add", "the object", object)) return GC_SUCCESS;
  if (runtime::g_toggleref_func == nullptr) return GC_SUCCESS;
  alloc::ObjectRef found;
  if (!alloc::FindObject(AddressOf(object), &found) || found.base != AddressOf(object)) {
    Complain("GC_toggleref_add(%p): not an object of the heap; ignored", object);
    return GC_SUCCESS;
  }
  platform::LockGuard guard(g_collector.lock());
  return g_collector.registered().toggle_refs.Add(AddressOf(object), is_strong != 0) ? GC_SUCCESS
                                                                                     : GC_NO_MEMORY;
}

}  // extern "C"
