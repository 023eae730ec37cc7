#pragma once

#include "platform/threads/thread.h"

namespace gleaner::platform {

// Reads words of the calling thread's stack [inv.unwind-stack]. Used by one thread. Call StartAt
// before Read.
class StackReader {
 public:
  explicit StackReader(Range stack) : stack_(stack) {}

  // The frames read from now on lie above `stack_pointer`.
  void StartAt(Addr stack_pointer) {
    direct_ = stack_.Contains(stack_pointer) ? Range{stack_pointer, stack_.end} : Range{};
  }
  // The known part of the stack, from StartAt's stack pointer upwards; read without a system call.
  Range direct() const { return direct_; }
  // False if there is no memory at `at`.
  bool Read(Addr at, Addr* word) {
    if (at % kWordBytes != 0) return false;
    if (GLEANER_LIKELY(at - direct_.begin < direct_.bytes())) {
      *word = LoadForeignWord(at);
      return true;
    }
    return ReadUnknown(at, word);
  }

 private:
  // Reads where there may be no memory, by a system call for a window of words inside an OS page.
  GLEANER_NOINLINE bool ReadUnknown(Addr at, Addr* word);

  const Range stack_;
  Range direct_;
  Range window_;
  Addr words_[64];
};

}  // namespace gleaner::platform
