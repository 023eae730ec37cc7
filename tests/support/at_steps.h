// What another thread may do at a thread's steps (platform/faults/delays.h), done there: by the
// test's own thread, or by one that runs then only. So all of it follows from a seed. Only in the
// verify build.
#pragma once

#include <cstddef>
#include <random>
#include <semaphore>
#include <thread>

#include "platform/faults/delays.h"
#include "platform/os/lock.h"

namespace gleaner::testing {

// While it exists, calls f at each of the thread's steps.
template <class F>
class AtEachStep {
 public:
  explicit AtEachStep(F f) : f_(f) { platform::CallAtSteps(Call, this); }
  ~AtEachStep() { platform::CallAtSteps(nullptr, nullptr); }
  AtEachStep(const AtEachStep&) = delete;
  AtEachStep& operator=(const AtEachStep&) = delete;

 private:
  static void Call(void* self) { static_cast<AtEachStep*>(self)->f_(); }

  F f_;
};

// Says yes one time in about `every`, drawn from `random`.
class OneIn {
 public:
  OneIn(std::mt19937& random, size_t every) : random_(random), every_(every) { Draw(); }
  bool operator()() {
    if (left_-- != 0) return false;
    Draw();
    return true;
  }

 private:
  // `every_` on average, this one included.
  void Draw() { left_ = random_() % (2 * every_ - 1); }

  std::mt19937& random_;
  const size_t every_;
  size_t left_ = 0;
};

// Calls f, and `act` at one in about `every` of its steps. All may draw from `random`.
template <class F, class G>
void AtSteps(std::mt19937& random, size_t every, const F& f, const G& act) {
  OneIn is_time(random, every);
  const AtEachStep at_steps([&is_time, &act] {
    if (is_time()) act();
  });
  f();
}

// Calls f, and `act` at its step of that number, from 0. False if it has fewer.
template <class F, class G>
bool AtStep(size_t number, const F& f, const G& act) {
  size_t step = 0;
  const AtEachStep at_steps([&step, number, &act] {
    if (step++ == number) act();
  });
  f();
  return step > number;
}

// Calls f, and g on another thread. One of them runs at a time, f at first, and lets the other go
// on at those steps at which `lets_go_on(self)` says so, `self` being 0 for f and 1 for g. It is
// not asked where a thread has a lock that the other may want. Returns when both have.
template <class F, class G, class L>
void TakeTurns(const F& f, const G& g, const L& lets_go_on) {
  std::binary_semaphore turns[2] = {std::binary_semaphore(0), std::binary_semaphore(0)};
  bool over[2] = {false, false};
  const auto run = [&](size_t self, const auto& work) {
    const size_t other = 1 - self;
    {
      const AtEachStep at_steps([&turns, &over, &lets_go_on, self, other] {
        if (platform::HoldsDeferringLock() || !lets_go_on(self) || over[other]) return;
        turns[other].release();
        turns[self].acquire();
      });
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
