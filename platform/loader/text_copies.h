// The program's and its libraries' text and read-only data in memory of this process.
//
// The pages of a mapped file are those of the page cache, which all processes share, and which are
// where the file was first read: no policy of memory moves them. An anonymous copy at the same
// address is memory of this process, and comes from where the thread's policy says, or from the
// node of its processor. Nobody sees a difference but who looks at the mappings: there is no file.
#pragma once

#include "platform/os/base.h"

namespace gleaner::platform {

struct TextCopies {
  static constexpr int kMaxNodes = 64;  // pages of nodes with larger numbers count for the last one
  struct Pages {
    bool is_known;  // false: the kernel does not tell
    uint64_t of_node[kMaxNodes];
  };

  uint64_t objects;  // that have been visited: the program, the loader, libraries
  uint64_t copied_bytes;
  Pages before;  // of the copied segments; only if `counts` was asked for
  Pages after;
  // The first segment that stays as it was: of which object, the call that failed, and its errno.
  // Null if there is none.
  const char* refused_call;
  int refused_error;
  char refused_object[256];
};

// Replaces each read-only or executable segment of a loaded object by a copy. A segment whose copy
// the system refuses (memory, SELinux's execmem) stays. While no other thread loads or unloads an
// object; other threads may run meanwhile. `counts`: asks for the nodes of the pages.
void CopyText(bool counts, TextCopies* result);

}  // namespace gleaner::platform
