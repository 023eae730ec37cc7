// Virtual time: any number of virtual workers on one thread, each with a clock of its own. Threads
// may each run their own.
//
// A worker is a fiber. It runs ahead, and what it does is charged to its clock, until it is about
// to do something that others can see (Sync); then the workers whose clocks are behind run first.
// So what is visible happens in the order of virtual time, and workers that meet at the same
// instant come in the order of their numbers. A run depends on nothing but its input: no real
// clock, no address, no order of threads. Times are in picoseconds, in integers, so that no
// rounding differs between machines.
//
// A cache line that workers write is moved from one to the other, one after the other: whoever
// writes a line that another worker has written last waits until the line is free, and then as long
// as a transfer takes. A worker that reads waits for a transfer if the line was written since it
// last looked, by its last turn of waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace gleaner::tools {

// What a machine charges for what workers do to each other. All in picoseconds.
struct VirtualCosts {
  uint64_t atomic_ps = 0;     // a read-modify-write of a line that is at hand
  uint64_t load_ps = 0;       // a load of a line that is at hand
  uint64_t transfer_ps = 0;   // a line comes from another processor
  uint64_t wake_call_ps = 0;  // waking a sleeper, for the one who wakes
  uint64_t relax_ps = 0;      // a short wait (RealClock::Relax)
  uint64_t yield_ps = 0;      // a call of the system with nobody to run
  uint64_t wake_ps = 0;       // from that call on until the sleeper runs
};

class VirtualTime {
 public:
  VirtualTime(const VirtualCosts& costs, int workers);
  ~VirtualTime();
  VirtualTime(const VirtualTime&) = delete;
  VirtualTime& operator=(const VirtualTime&) = delete;

  // The instance whose Run is under way.
  static VirtualTime& current() { return *t_current; }

  // Runs `body` for worker 0 from time 0 on, and for each other worker once Start is called for it,
  // until all of them have returned. False if all that have not returned wait for each other, or
  // one has thrown std::bad_alloc: then the others stop where they are.
  [[nodiscard]] bool Run(const std::function<void(int worker)>& body);

  // The rest is for the worker that runs.
  int worker() const { return running_; }
  uint64_t now() const { return now_; }
  void Charge(uint64_t ps) { now_ += ps; }
  // What others do before now() has been done when this returns.
  void Sync() {
    if (!ready_.empty() && IsBefore(ready_.front(), {now_, running_})) SwitchAway(true);
  }
  // Another worker begins as if it had been woken now. pre: it was never started.
  void Start(int worker);
  // Sleeps until Wake of the same place. The caller has looked that it is to sleep since the last
  // call that let others run.
  void Wait(const void* place);
  void Wake(const void* place, int waiters);
  // As RealClock::Relax and Yield: others run, time passes.
  void Pass(uint64_t ps);

  // A line of memory that several workers use; 0 is none.
  using Line = uint32_t;
  void BeforeWrite(Line* line);
  void BeforeRead(Line line);

  const VirtualCosts& costs() const { return costs_; }
  struct Figures {
    uint64_t begin_ps = 0;       // when it began
    uint64_t end_ps = 0;         // when it returned
    uint64_t contention_ps = 0;  // waiting for lines that others held, or that came from others
    bool has_run = false;
  };
  // After Run.
  const Figures& figures(int worker) const { return workers_[static_cast<size_t>(worker)].figures; }

 private:
  struct Fiber;
  class Current;  // makes an instance the current one
  struct Worker {
    std::unique_ptr<Fiber> fiber;
    uint64_t now = 0;        // while it does not run
    uint64_t last_turn = 0;  // when it last began to look for changes
    Figures figures;
    const void* waits_for = nullptr;
  };
  struct LineState {
    int writer = -1;
    uint64_t free_at = 0;
    uint64_t written_at = 0;
  };
  struct Turn {
    uint64_t at;
    int worker;
  };
  static bool IsBefore(const Turn& a, const Turn& b) {
    return a.at != b.at ? a.at < b.at : a.worker < b.worker;
  }

  void Begin(int worker, uint64_t at);
  void MakeReady(int worker, uint64_t at);
  int TakeEarliest();
  // Runs the earliest of the others; `is_ready`: this one goes on when its time has come.
  void SwitchAway(bool is_ready);
  void SwitchTo(int worker);
  // Makes a worker, or the caller, the one that runs. Returns its fiber, for the caller to go to.
  Fiber& TurnTo(int worker);
  Fiber& FiberOf(int worker);

  static constexpr int kCaller = -1;  // of Run, in the place of a worker
  static inline thread_local VirtualTime* t_current = nullptr;

  const VirtualCosts costs_;
  std::vector<Worker> workers_;
  std::vector<LineState> lines_;
  std::vector<Turn> ready_;  // a heap, the earliest in front
  std::unique_ptr<Fiber> caller_;
  std::function<void(int)> body_;
  int running_ = kCaller;
  int left_behind_ = kCaller;  // the one that has switched to the one that runs
  uint64_t now_ = 0;
  bool has_failed_ = false;
  bool is_stopping_ = false;  // workers that go on are unwound
};

// What the marker's schedule is compiled for when it is simulated: see gc/mark/mark_clock.h.
struct VirtualClock {
  static constexpr int kMaxWorkers = 1024;

  template <class T>
  class Atomic {
   public:
    constexpr Atomic() = default;
    constexpr explicit Atomic(T value) : value_(value) {}

    // Only accesses that order others are visible at once; relaxed ones cost nothing.
    T Load(std::memory_order order) const {
      if (order == std::memory_order_seq_cst) VirtualTime::current().BeforeRead(line_);
      return value_;
    }
    void Store(T value, std::memory_order order) {
      if (order == std::memory_order_seq_cst) VirtualTime::current().BeforeWrite(&line_);
      value_ = value;
    }
    T Exchange(T value, std::memory_order) {
      VirtualTime::current().BeforeWrite(&line_);
      const T old = value_;
      value_ = value;
      return old;
    }
    T FetchAdd(T value, std::memory_order) {
      VirtualTime::current().BeforeWrite(&line_);
      const T old = value_;
      value_ = static_cast<T>(old + value);
      return old;
    }
    T FetchSub(T value, std::memory_order order) {
      return FetchAdd(static_cast<T>(T{0} - value), order);
    }
    bool CompareExchange(T& expected, T desired, std::memory_order) {
      VirtualTime::current().BeforeWrite(&line_);
      if (value_ != expected) {
        expected = value_;
        return false;
      }
      value_ = desired;
      return true;
    }

   private:
    T value_{};
    VirtualTime::Line line_ = 0;
  };

  static void Relax() { VirtualTime::current().Pass(VirtualTime::current().costs().relax_ps); }
  static void Yield() { VirtualTime::current().Pass(VirtualTime::current().costs().yield_ps); }
  static void Wait(Atomic<uint32_t>* word, uint32_t expected) {
    VirtualTime& time = VirtualTime::current();
    time.Charge(time.costs().yield_ps);
    time.Sync();
    if (word->Load(std::memory_order_relaxed) == expected) time.Wait(word);
  }
  static void Wake(Atomic<uint32_t>* word, int waiters) {
    VirtualTime::current().Wake(word, waiters);
  }

  // Lasts while a worker searches for work. Adds its length to *idle.
  class IdleSpan {
   public:
    IdleSpan(int, uint64_t* idle) : idle_(idle), begin_(VirtualTime::current().now()) {}
    ~IdleSpan() { *idle_ += VirtualTime::current().now() - begin_; }
    IdleSpan(const IdleSpan&) = delete;
    IdleSpan& operator=(const IdleSpan&) = delete;

   private:
    uint64_t* const idle_;
    const uint64_t begin_;
  };
};

}  // namespace gleaner::tools
