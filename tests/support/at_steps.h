// What another thread may do at a thread's steps (platform/delays.h), done there: by the test's own
// thread, or by one that runs then only. So all of it follows from a seed. Only in the verify
// build.
#pragma once

#include <cstddef>
#include <random>
#include <semaphore>
#include <thread>

#include "platform/delays.h"
#include "platform/lock.h"

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

// Calls f, and g on another thread, of which one runs at a time: it lets the other go on at one in
// about `every` of its steps, drawn from `random`, which both may use, but for those at which it
// has a lock that the other may want. Returns when both have.
template <class F, class G>
void TakeTurns(std::mt19937& random, size_t every, const F& f, const G& g) {
  std::binary_semaphore turns[2] = {std::binary_semaphore(0), std::binary_semaphore(0)};
  bool over[2] = {false, false};
  const auto run = [&](size_t self, const auto& work) {
    const size_t other = 1 - self;
    const auto let_go_on = [&turns, &over, self, other] {
      if (over[other] || platform::HoldsDeferringLock()) return;
      turns[other].release();
      turns[self].acquire();
    };
    {
      const AtSteps<decltype(let_go_on)> at_steps(random, every, let_go_on);
      work();
    }
    over[self] = true;
    turns[other].release();
  };
  std::thread second([&] {
    turns[1].acquire();
    run(1, g);
  });
  run(0, f);
  second.join();
}

}  // namespace gleaner::testing
