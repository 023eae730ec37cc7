#include "platform/loader/imports.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include <cstring>

#include "platform/os/atomic.h"
#include "platform/os/memory.h"
#include "platform/os/next_call.h"
#include "platform/os/readable.h"

namespace gleaner::platform {

namespace {

// Relocation types: the table entry of a call, which may not be looked up yet; another table entry;
// a word of data.
#if defined(__x86_64__)
constexpr uint32_t kCall = R_X86_64_JUMP_SLOT, kAddress = R_X86_64_GLOB_DAT, kData = R_X86_64_64;
#elif defined(__aarch64__)
constexpr uint32_t kCall = R_AARCH64_JUMP_SLOT, kAddress = R_AARCH64_GLOB_DAT,
                   kData = R_AARCH64_ABS64;
#endif

// The imports to replace, and facts about the object being changed.
struct Work {
  const ReplacedImport* imports;
  size_t count;
  Addr bias = 0;
  Range object = {};     // all of the object
  Range read_only = {};  // its part that is read-only after relocation
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;

  const ReplacedImport* Find(const char* name) const;
  void Replace(const ElfW(Rela) & relocation) const;
  void ReplaceIn(Addr table, size_t bytes) const {
    const auto* relocations = PointerAt<const ElfW(Rela)>(table);
    for (size_t i = 0; i < bytes / sizeof(ElfW(Rela)); ++i) Replace(relocations[i]);
  }
};

// Binary search.
const ReplacedImport* Work::Find(const char* name) const {
  size_t first = 0;
  for (size_t end = count; first != end;) {
    const size_t middle = (first + end) / 2;
    const int order = strcmp(imports[middle].name, name);
    if (order == 0) return &imports[middle];
    if (order < 0) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  return nullptr;
}

void Work::Replace(const ElfW(Rela) & relocation) const {
  const auto type = static_cast<uint32_t>(ELF64_R_TYPE(relocation.r_info));
  if (type != kCall && type != kAddress && type != kData) return;
  const ElfW(Sym)& symbol = symbols[ELF64_R_SYM(relocation.r_info)];
  if (symbol.st_shndx != SHN_UNDEF) return;  // defined by the object itself
  const ReplacedImport* import = Find(names + symbol.st_name);
  if (import == nullptr) return;
  const Addr place = bias + relocation.r_offset;
  if (relocation.r_addend != 0 || place % sizeof(Addr) != 0) return;
  auto* slot = PointerAt<Atomic<Addr>>(place);
  // Relaxed: the slot holds the address of either function, and both work.
  const Addr value = slot->Load(memory_order_relaxed);
  const bool not_looked_up = type == kCall && object.Contains(value);
  if (value != AddressOf(import->original) && !not_looked_up) return;
  const Addr page = AddressOf(slot) & ~(OsPageBytes() - 1);
  const bool closed = read_only.Contains(AddressOf(slot));
  if (closed && mprotect(PointerAt<void>(page), OsPageBytes(), PROT_READ | PROT_WRITE) != 0) return;
  slot->Store(AddressOf(import->replacement), memory_order_relaxed);  // either works
  if (closed) mprotect(PointerAt<void>(page), OsPageBytes(), PROT_READ);
}

int ReplaceInObject(dl_phdr_info* info, size_t, void* context) {
  Work work = *static_cast<const Work*>(context);
  work.bias = info->dlpi_addr;
  const ElfW(Dyn)* dynamic = nullptr;
  for (size_t i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const Range range = {work.bias + header.p_vaddr, work.bias + header.p_vaddr + header.p_memsz};
    if (header.p_type == PT_LOAD) {
      if (work.object.end == 0) work.object.begin = range.begin;
      work.object.end = range.end;
    } else if (header.p_type == PT_GNU_RELRO) {
      // The loader leaves a partial last page writable.
      work.read_only = {range.begin, range.end & ~(OsPageBytes() - 1)};
    } else if (header.p_type == PT_DYNAMIC) {
      dynamic = PointerAt<const ElfW(Dyn)>(range.begin);
    }
  }
  if (dynamic == nullptr || work.object.Contains(reinterpret_cast<Addr>(&ReplaceInObject)))
    return 0;
  Addr tables[2] = {};
  size_t bytes[2] = {};
  // The loader has relocated these addresses, except in the kernel's own object (vDSO).
  const auto address = [&work](Addr of) { return of < work.bias ? of + work.bias : of; };
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    switch (dynamic->d_tag) {
      case DT_SYMTAB:
        work.symbols = PointerAt<const ElfW(Sym)>(address(dynamic->d_un.d_ptr));
        break;
      case DT_STRTAB:
        work.names = PointerAt<const char>(address(dynamic->d_un.d_ptr));
        break;
      case DT_JMPREL:
        tables[0] = address(dynamic->d_un.d_ptr);
        break;
      case DT_PLTRELSZ:
        bytes[0] = dynamic->d_un.d_val;
        break;
      case DT_RELA:
        tables[1] = address(dynamic->d_un.d_ptr);
        break;
      case DT_RELASZ:
        bytes[1] = dynamic->d_un.d_val;
        break;
      default:
        break;
    }
  }
  if (work.symbols == nullptr || work.names == nullptr) return 0;
  for (int i = 0; i < 2; ++i) {
    if (tables[i] != 0) work.ReplaceIn(tables[i], bytes[i]);
  }
  return 0;
}

// Gets the program headers of an object in the loader's list, as dl_iterate_phdr reports them.
// Takes the file to begin at the object's first address; false if no file header is there.
bool DescribeListed(const link_map* object, dl_phdr_info* info) {
  *info = {};
  info->dlpi_addr = object->l_addr;
  if (object == _r_debug.r_map) {  // the program
    info->dlpi_phdr = PointerAt<const ElfW(Phdr)>(getauxval(AT_PHDR));
    info->dlpi_phnum = static_cast<ElfW(Half)>(getauxval(AT_PHNUM));
    return info->dlpi_phdr != nullptr;
  }
  const Addr begin = object->l_addr;
  if (EndOfReadable(begin, begin + sizeof(ElfW(Ehdr))) != begin + sizeof(ElfW(Ehdr))) return false;
  const auto* file = PointerAt<const ElfW(Ehdr)>(begin);
  if (memcmp(file->e_ident, ELFMAG, SELFMAG) != 0) return false;
  info->dlpi_phdr = PointerAt<const ElfW(Phdr)>(begin + file->e_phoff);
  info->dlpi_phnum = file->e_phnum;
  return true;
}

}  // namespace

void ReplaceImports(const ReplacedImport* imports, size_t count, bool loader_can_be_asked) {
  Work work = {imports, count};
  if (loader_can_be_asked) {
    dl_iterate_phdr(ReplaceInObject, &work);  // one caller at a time
    return;
  }
  for (const link_map* object = _r_debug.r_map; object != nullptr; object = object->l_next) {
    dl_phdr_info info;
    if (DescribeListed(object, &info)) ReplaceInObject(&info, sizeof info, &work);
  }
}

bool IsBypassed(const char* name) {
  return !IsStaticProgram() && dlsym(RTLD_NEXT, name) == nullptr;
}

}  // namespace gleaner::platform
