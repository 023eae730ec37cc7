#pragma once

#include "platform/thread.h"

namespace gleaner::malloc_proxy {

// Words of the calling thread's stack. Not shared.
class StackReader {
 public:
  explicit StackReader(platform::Range stack) : stack_(stack) {}

  // The frames that follow are above `stack_pointer`.
  void StartAt(Addr stack_pointer) {
    direct_ = stack_.Contains(stack_pointer) ? platform::Range{stack_pointer, stack_.end}
                                             : platform::Range{};
  }
  // Where memory is known to be, from the frame in hand up.
  platform::Range direct() const { return direct_; }
  bool Read(Addr at, Addr* word) {
    if (at % kWordBytes != 0) return false;
    if (GLEANER_LIKELY(at - direct_.begin < direct_.bytes())) {
      *word = LoadForeignWord(at);
      return true;
    }
    return ReadUnknown(at, word);
  }

 private:
  // Where there may be no memory. A window at a time, none across the end of an OS page.
  GLEANER_NOINLINE bool ReadUnknown(Addr at, Addr* word);

  const platform::Range stack_;
  platform::Range direct_;
  platform::Range window_;
  Addr words_[64];
};

}  // namespace gleaner::malloc_proxy
