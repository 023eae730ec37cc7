#include "platform/loader/text_copies.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "platform/os/os_page.h"
#include "platform/os/raw_call.h"

namespace gleaner::platform {
namespace {

struct Segment {
  char* begin;
  size_t bytes;
  int rights;
};

void CountPages(const Segment& segment, TextCopies::Pages* pages) {
  constexpr size_t kAtOnce = 256;
  const size_t os_page = OsPageBytes();
  const void* addresses[kAtOnce];
  int nodes[kAtOnce];
  size_t count = 0;
  for (size_t at = 0; at < segment.bytes;) {
    addresses[count++] = segment.begin + at;
    at += os_page;
    if (count < kAtOnce && at < segment.bytes) continue;
    const long result =
        RawCall(SYS_move_pages, 0, static_cast<long>(count), reinterpret_cast<long>(addresses), 0,
                reinterpret_cast<long>(nodes), 0);
    if (result < 0) {
      pages->is_known = false;
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      if (nodes[i] < 0) continue;  // not in memory
      ++pages->of_node[nodes[i] < TextCopies::kMaxNodes ? nodes[i] : TextCopies::kMaxNodes - 1];
    }
    count = 0;
  }
}

// Returns null, or the call that failed, with errno.
const char* Replace(const Segment& segment) {
  void* copy =
      mmap(nullptr, segment.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return "mmap";
  memcpy(copy, segment.begin, segment.bytes);
  const char* failed = nullptr;
  if (mprotect(copy, segment.bytes, segment.rights) != 0) {
    failed = "mprotect";
  } else if (mremap(copy, segment.bytes, segment.bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                    segment.begin) == MAP_FAILED) {
    // The segment may be the text of mremap, or of this function: the kernel changes the mapping
    // while no instruction of this thread runs, and the bytes are the same. What it may refuse, it
    // refuses before it takes the old mapping away.
    failed = "mremap";
  }
  if (failed == nullptr) return nullptr;
  const int error = errno;
  munmap(copy, segment.bytes);
  errno = error;
  return failed;
}

// What is asked of CopyText, during the visit of the objects.
struct Visit {
  bool counts;
  TextCopies* result;
};

void CopySegment(const Segment& segment, const char* object, const Visit& visit) {
  TextCopies* result = visit.result;
  if (visit.counts) CountPages(segment, &result->before);
  const char* failed = Replace(segment);
  if (visit.counts) CountPages(segment, &result->after);
  if (failed == nullptr) {
    result->copied_bytes += segment.bytes;
  } else if (result->refused_call == nullptr) {
    result->refused_call = failed;
    result->refused_error = errno;
    snprintf(result->refused_object, sizeof result->refused_object, "%s",
             *object != 0 ? object : "the program");
  }
}

int CopyObject(dl_phdr_info* object, size_t, void* context) {
  const Visit& visit = *static_cast<const Visit*>(context);
  const Addr kernels_object = getauxval(AT_SYSINFO_EHDR);
  ++visit.result->objects;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    // A writable segment is memory of the process as soon as it is written. A segment that cannot
    // be read cannot be copied.
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) != 0 || (header.p_flags & PF_R) == 0 ||
        header.p_filesz == 0) {
      continue;
    }
    const Addr begin = AlignDown(object->dlpi_addr + header.p_vaddr, OsPageBytes());
    const Addr end = AlignUp(object->dlpi_addr + header.p_vaddr + header.p_filesz, OsPageBytes());
    if (kernels_object >= begin && kernels_object < end) continue;  // the vdso, mapped by no file
    CopySegment({PointerAt<char>(begin), end - begin,
                 PROT_READ | ((header.p_flags & PF_X) != 0 ? PROT_EXEC : 0)},
                object->dlpi_name, visit);
  }
  return 0;
}

}  // namespace

void CopyText(bool counts, TextCopies* result) {
  *result = {};
  result->before.is_known = result->after.is_known = counts;
  Visit visit = {counts, result};
  dl_iterate_phdr(CopyObject, &visit);
}

}  // namespace gleaner::platform
