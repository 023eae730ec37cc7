#include "platform/loader/loaded_objects.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstring>

#include "platform/os/readable.h"

namespace gleaner::platform {

// Defined in own_object.cc, which is linked into the library's own shared objects only.
extern const bool g_is_own_object __attribute__((weak, visibility("hidden")));

bool IsOwnObject() { return &g_is_own_object != nullptr; }

namespace {

struct LockedCall {
  void (*f)(void*);
  void* context;
};

// dl_iterate_phdr calls back with the loader's list locked; the lock is recursive.
int CallOnce(dl_phdr_info*, size_t, void* data) {
  const auto* call = static_cast<const LockedCall*>(data);
  call->f(call->context);
  return 1;
}

int ReadGeneration(dl_phdr_info* info, size_t, void* data) {
  *static_cast<LoaderGeneration*>(data) = {info->dlpi_adds, info->dlpi_subs};
  return 1;
}

// Whether the object is a shared object of this library alone. If the library is linked into a
// program or another shared object, its data lies among that object's and is scanned with it.
bool IsOurOwnLibrary(const dl_phdr_info* info) {
  if (!IsOwnObject()) return false;
  const Addr here = AddressOf(reinterpret_cast<const void*>(&IsOurOwnLibrary));
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type == PT_LOAD && here - (info->dlpi_addr + header.p_vaddr) < header.p_memsz) {
      return true;
    }
  }
  return false;
}

int Visit(dl_phdr_info* info, size_t, void* data) {
  const auto* visitor = static_cast<const LoadedObjectVisitor*>(data);
  if (IsOurOwnLibrary(info)) return 0;
  Range read_only;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type == PT_GNU_RELRO) {
      read_only.begin = info->dlpi_addr + header.p_vaddr;
      read_only.end = read_only.begin + header.p_memsz;
    }
  }
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type == PT_TLS && info->dlpi_tls_modid != 0) {
      visitor->tls(visitor->context, {info->dlpi_tls_modid, header.p_memsz});
    }
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) == 0) continue;
    Range segment;
    segment.begin = info->dlpi_addr + header.p_vaddr;
    segment.end = segment.begin + header.p_memsz;
    if (read_only.begin < segment.end && segment.begin < read_only.end) {
      if (segment.begin < read_only.begin) {
        visitor->segment(visitor->context, info->dlpi_name, {segment.begin, read_only.begin});
      }
      segment.begin = read_only.end;
    }
    if (segment.begin < segment.end) visitor->segment(visitor->context, info->dlpi_name, segment);
  }
  return 0;
}

struct RangeVisitor {
  void (*f)(void* context, const char* name, Addr bias, Range range);
  void* context;
};

int VisitRange(dl_phdr_info* info, size_t, void* data) {
  Range range{~Addr{0}, 0};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    const Addr begin = info->dlpi_addr + header.p_vaddr;
    if (begin < range.begin) range.begin = begin;
    if (begin + header.p_memsz > range.end) range.end = begin + header.p_memsz;
  }
  const auto* visitor = static_cast<const RangeVisitor*>(data);
  const char* name = info->dlpi_name != nullptr ? info->dlpi_name : "";
  if (range.begin < range.end) visitor->f(visitor->context, name, info->dlpi_addr, range);
  return 0;
}

struct ObjectVisitor {
  void (*f)(void* context, const LoadedObject& object);
  void* context;
};

// The build id among the notes of a segment that is in memory.
void FindBuildId(Addr note, Addr end, LoadedObject* object) {
  constexpr size_t kAlignment = 4;
  while (end - note >= sizeof(ElfW(Nhdr)) && note < end) {
    const auto* header = PointerAt<const ElfW(Nhdr)>(note);
    const Addr name = note + sizeof *header;
    const Addr description = name + AlignUp(header->n_namesz, kAlignment);
    if (description > end || header->n_descsz > end - description) return;
    if (header->n_type == NT_GNU_BUILD_ID && header->n_namesz == sizeof "GNU" &&
        memcmp(PointerAt<const char>(name), "GNU", sizeof "GNU") == 0) {
      object->build_id = PointerAt<const uint8_t>(description);
      object->build_id_bytes = header->n_descsz;
      return;
    }
    note = description + AlignUp(header->n_descsz, kAlignment);
  }
}

void Tell(const ObjectVisitor& visitor, const char* name, Addr bias, const ElfW(Phdr) * headers,
          size_t count) {
  LoadedObject object = {name != nullptr ? name : "", bias, nullptr, 0, count, headers};
  for (size_t i = 0; i < count && object.build_id == nullptr; ++i) {
    const Addr begin = bias + headers[i].p_vaddr;
    if (headers[i].p_type == PT_NOTE) FindBuildId(begin, begin + headers[i].p_memsz, &object);
  }
  visitor.f(visitor.context, object);
}

int VisitObject(dl_phdr_info* info, size_t, void* data) {
  Tell(*static_cast<const ObjectVisitor*>(data), info->dlpi_name, info->dlpi_addr, info->dlpi_phdr,
       info->dlpi_phnum);
  return 0;
}

// The loader's list without its lock. An object whose ELF header is not at its bias is left out.
void VisitListed(const ObjectVisitor& visitor) {
  for (const link_map* object = _r_debug.r_map; object != nullptr; object = object->l_next) {
    if (object == _r_debug.r_map) {
      Tell(visitor, object->l_name, object->l_addr, PointerAt<const ElfW(Phdr)>(getauxval(AT_PHDR)),
           getauxval(AT_PHNUM));
      continue;
    }
    ElfW(Ehdr) header;
    if (CopyIfMapped(&header, object->l_addr, sizeof header) == sizeof header &&
        memcmp(header.e_ident, ELFMAG, SELFMAG) == 0) {
      Tell(visitor, object->l_name, object->l_addr,
           PointerAt<const ElfW(Phdr)>(object->l_addr + header.e_phoff), header.e_phnum);
    }
  }
}

// A digest of the loader's list (r_debug of the debuggers' interface) and of whether the list is
// being changed. Called without the loader's lock only in a forked child, which begins with one
// thread. If the child has started other threads, one of them may be changing the list; then the
// digest differs from the noted one, too.
uint64_t DigestOfList() {
  uint64_t digest = static_cast<uint64_t>(_r_debug.r_state);
  for (const link_map* object = _r_debug.r_map; object != nullptr; object = object->l_next)
    digest = (digest ^ AddressOf(object) ^ object->l_addr ^ AddressOf(object->l_ld)) *
             0x9e3779b97f4a7c15;
  return digest;
}

// The digest of the list that was noted last, and whether the loader's lock may be taken for ever.
// Guarded by the lock of WithLoaderLocked's callers.
constinit uint64_t g_known_digest = 0;
constinit Hint<bool> g_distrusted{false};

}  // namespace

void RecordLoaderList() { g_known_digest = DigestOfList(); }
void DistrustLoader() { g_distrusted.Set(true); }
bool LoaderIsTrusted() { return !g_distrusted.Get(); }
bool LoaderCanBeAsked() {
  if (LoaderIsTrusted()) return true;
  if (DigestOfList() == g_known_digest) return false;
  g_distrusted.Set(false);
  return true;
}

void KeepLoaded() {
  if (&g_is_own_object != nullptr) return;  // linked with -z nodelete
  Dl_info info;
  link_map* object = nullptr;
  if (dladdr1(reinterpret_cast<const void*>(&KeepLoaded), &info, reinterpret_cast<void**>(&object),
              RTLD_DL_LINKMAP) == 0 ||
      object == nullptr || object->l_name[0] == 0) {
    return;  // in the program itself
  }
  (void)dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

void VisitObjectRanges(void (*f)(void* context, const char* name, Addr bias, Range range),
                       void* context) {
  RangeVisitor visitor{f, context};
  dl_iterate_phdr(VisitRange, &visitor);
}

bool GetSegment(const LoadedObject& object, size_t i, LoadedSegment* segment) {
  const auto& header = static_cast<const ElfW(Phdr)*>(object.headers)[i];
  if (header.p_type != PT_LOAD || header.p_memsz == 0) return false;
  const Addr begin = object.bias + header.p_vaddr;
  *segment = {{begin, begin + header.p_memsz}, header.p_offset, header.p_flags};
  return true;
}

void VisitObjects(void (*f)(void* context, const LoadedObject& object), void* context) {
  ObjectVisitor visitor{f, context};
  if (!LoaderCanBeAsked()) return VisitListed(visitor);
  dl_iterate_phdr(VisitObject, &visitor);
}

void WithLoaderLocked(void (*f)(void*), void* context) {
  if (!LoaderCanBeAsked()) return f(context);
  LockedCall call{f, context};
  dl_iterate_phdr(CallOnce, &call);
}

LoaderGeneration CurrentLoaderGeneration() {
  LoaderGeneration generation;
  dl_iterate_phdr(ReadGeneration, &generation);
  return generation;
}

void VisitLoadedObjects(const LoadedObjectVisitor& visitor) {
  dl_iterate_phdr(Visit, const_cast<LoadedObjectVisitor*>(&visitor));
}

}  // namespace gleaner::platform
