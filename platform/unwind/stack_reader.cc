#include "platform/unwind/stack_reader.h"

#include <sys/uio.h>
#include <unistd.h>

#include "platform/os/os_page.h"

namespace gleaner::platform {

bool StackReader::ReadUnknown(Addr at, Addr* word) {
  if (!window_.Contains(at)) {
    const Addr page_end = AlignDown(at, OsPageBytes()) + OsPageBytes();
    const size_t bytes = page_end - at < sizeof words_ ? page_end - at : sizeof words_;
    iovec to{words_, bytes};
    iovec from{PointerAt<void>(at), bytes};
    window_ = {};
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != static_cast<ssize_t>(bytes)) {
      return false;
    }
    window_ = {at, at + bytes};
  }
  *word = words_[(at - window_.begin) / kWordBytes];
  return true;
}

}  // namespace gleaner::platform
