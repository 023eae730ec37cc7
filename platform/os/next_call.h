// The function of a given name behind this library in the search order: mostly the C library's.
#pragma once

#include "platform/os/atomic.h"
#include "platform/threads/thread.h"

namespace gleaner::platform {

// Looked up when it is first needed. The look-up may call malloc, whose start needs none of these,
// or the second call finds the function as the first one does.
template <class F>
class NextCall {
 public:
  constexpr explicit NextCall(const char* name, F* in_static_program = nullptr)
      : name_(name), in_static_program_(in_static_program) {}
  F* get() {
    F* f = function_.Load(memory_order_relaxed);  // racing threads store the same value
    if (f == nullptr) {
      f = reinterpret_cast<F*>(NextFunction(name_, reinterpret_cast<void*>(in_static_program_)));
      function_.Store(f, memory_order_relaxed);  // racing threads store the same value
    }
    return f;
  }

 private:
  const char* name_;
  F* in_static_program_;
  Atomic<F*> function_{nullptr};
};

}  // namespace gleaner::platform
