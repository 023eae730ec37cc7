// The function of a given name behind this library in the search order: mostly the C library's.
#pragma once

#include "platform/os/atomic.h"

namespace gleaner::platform {

// The function of this name behind this library in the search order; the first one if there is none
// behind it, as the C library comes before this library (a program may link it first). Never this
// library's function.
// Aborts if there is none. A statically linked program has one function of a name, so this
// library's takes the place of the C library's: there the result is `in_static_program`.
void* NextFunction(const char* name, void* in_static_program = nullptr);
bool IsStaticProgram();

// Looked up when it is first needed. The look-up may call malloc, whose start needs none of these,
// or the second call finds the function as the first one does.
template <class F>
class NextCall {
 public:
  constexpr explicit NextCall(const char* name, F* in_static_program = nullptr)
      : name_(name), in_static_program_(in_static_program) {}
  F* get() {
    F* f = function_.Get();
    if (f == nullptr) {
      f = reinterpret_cast<F*>(NextFunction(name_, reinterpret_cast<void*>(in_static_program_)));
      function_.Set(f);
    }
    return f;
  }

 private:
  const char* name_;
  F* in_static_program_;
  Hint<F*> function_{nullptr};  // threads that look it up at once store the same value
};

}  // namespace gleaner::platform
