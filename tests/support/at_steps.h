// What another thread may do, done by the test's own thread at its steps (platform/delays.h). Only
// in the verify build.
#pragma once

#include <cstddef>
#include <random>

#include "platform/delays.h"

namespace gleaner::testing {

// While it exists, calls f at some of the thread's steps: at one in about `every`, drawn from
// `random`, which f may use, too.
template <class F>
class AtSteps {
 public:
  AtSteps(std::mt19937& random, size_t every, F f) : random_(random), every_(every), f_(f) {
    Draw();
    platform::CallAtSteps(Call, this);
  }
  ~AtSteps() { platform::CallAtSteps(nullptr, nullptr); }
  AtSteps(const AtSteps&) = delete;
  AtSteps& operator=(const AtSteps&) = delete;

 private:
  static void Call(void* self) { static_cast<AtSteps*>(self)->Step(); }
  void Step() {
    if (left_-- != 0) return;
    f_();
    Draw();
  }
  // `every_` on average, this one included.
  void Draw() { left_ = random_() % (2 * every_ - 1); }

  std::mt19937& random_;
  const size_t every_;
  F f_;
  size_t left_;
};

// Calls f, and `act` at its step of that number, from 0. False if it has fewer.
template <class F, class G>
bool AtStep(size_t number, const F& f, const G& act) {
  struct {
    size_t left;
    const G& act;
    bool done;
  } state{number, act, false};
  platform::CallAtSteps(
      [](void* context) {
        auto& at = *static_cast<decltype(state)*>(context);
        if (at.done || at.left-- != 0) return;
        at.done = true;
        at.act();
      },
      &state);
  f();
  platform::CallAtSteps(nullptr, nullptr);
  return state.done;
}

}  // namespace gleaner::testing
