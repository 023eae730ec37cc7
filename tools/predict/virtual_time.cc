#include "tools/predict/virtual_time.h"

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <boost/context/preallocated.hpp>
#include <new>
#include <utility>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace gleaner::tools {

namespace {

constexpr size_t kStackBytes = size_t{64} << 10;

// Thrown in a worker that is to stop where it is.
struct Stopped {};

// AddressSanitizer has to know the stack that runs: it cleans the marks of the frames that an
// exception leaves. Whoever switches says where to before, and whoever runs then that it does.
class StackMarks {
 public:
#ifdef __SANITIZE_ADDRESS__
  void SetBounds(const void* bottom, size_t bytes) {
    bottom_ = bottom;
    bytes_ = bytes;
  }
  static void LeaveFor(const StackMarks& to, StackMarks* from) {
    __sanitizer_start_switch_fiber(from == nullptr ? nullptr : &from->saved_, to.bottom_,
                                   to.bytes_);
  }
  // The stack runs for the first time; `caller`: whose stack ran before.
  static void Begin(StackMarks* caller) {
    __sanitizer_finish_switch_fiber(nullptr, &caller->bottom_, &caller->bytes_);
  }
  void GoOn() { __sanitizer_finish_switch_fiber(saved_, nullptr, nullptr); }

 private:
  const void* bottom_ = nullptr;
  size_t bytes_ = 0;
  void* saved_ = nullptr;
#else
  void SetBounds(const void*, size_t) {}
  static void LeaveFor(const StackMarks&, StackMarks*) {}
  static void Begin(StackMarks*) {}
  void GoOn() {}
#endif
};

}  // namespace

// A fiber that does not run; empty while it runs.
struct VirtualTime::Fiber {
  boost::context::fiber fiber;
  StackMarks marks;
};

class VirtualTime::Current {
 public:
  explicit Current(VirtualTime* time) : outer_(std::exchange(t_current, time)) {}
  ~Current() { t_current = outer_; }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  VirtualTime* const outer_;
};

VirtualTime::VirtualTime(const VirtualCosts& costs, int workers)
    : costs_(costs), workers_(static_cast<size_t>(workers)), lines_(1) {}

VirtualTime::~VirtualTime() = default;

bool VirtualTime::Run(const std::function<void(int worker)>& body) {
  body_ = body;
  const Current current(this);
  caller_ = std::make_unique<Fiber>();
  Begin(0, 0);
  SwitchTo(TakeEarliest());
  // What has not come to its end is unwound, in virtual time.
  is_stopping_ = true;
  ready_.clear();
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].fiber && workers_[i].fiber->fiber) SwitchTo(static_cast<int>(i));
  }
  return !has_failed_ && std::all_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.waits_for == nullptr;
  });
}

void VirtualTime::Start(int worker) { Begin(worker, now_ + costs_.wake_ps); }

void VirtualTime::Begin(int id, uint64_t at) {
  Worker& worker = workers_[static_cast<size_t>(id)];
  worker.fiber = std::make_unique<Fiber>();
  boost::context::fixedsize_stack stacks(kStackBytes);
  const boost::context::stack_context stack = stacks.allocate();
  worker.fiber->marks.SetBounds(static_cast<const char*>(stack.sp) - stack.size, stack.size);
  worker.fiber->fiber = boost::context::fiber(
      std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack), stacks,
      [this, id](boost::context::fiber&& from) {
        StackMarks::Begin(&FiberOf(left_behind_).marks);
        FiberOf(left_behind_).fiber = std::move(from);
        try {
          if (!is_stopping_) body_(id);
          workers_[static_cast<size_t>(id)].figures.end_ps = now_;
        } catch (const std::bad_alloc&) {
          has_failed_ = true;
        } catch (const Stopped&) {
        }
        // The last one returns to the caller of Run, and so does one that has failed: the others
        // might wait for it for ever.
        Fiber& next = TurnTo(has_failed_ || ready_.empty() ? kCaller : TakeEarliest());
        StackMarks::LeaveFor(next.marks, nullptr);
        return std::move(next.fiber);
      });
  worker.figures.has_run = true;
  worker.figures.begin_ps = at;
  MakeReady(id, at);
}

void VirtualTime::MakeReady(int worker, uint64_t at) {
  workers_[static_cast<size_t>(worker)].now = at;
  ready_.push_back({at, worker});
  std::push_heap(ready_.begin(), ready_.end(),
                 [](const Turn& a, const Turn& b) { return IsBefore(b, a); });
}

int VirtualTime::TakeEarliest() {
  std::pop_heap(ready_.begin(), ready_.end(),
                [](const Turn& a, const Turn& b) { return IsBefore(b, a); });
  const int worker = ready_.back().worker;
  ready_.pop_back();
  return worker;
}

VirtualTime::Fiber& VirtualTime::FiberOf(int worker) {
  return worker == kCaller ? *caller_ : *workers_[static_cast<size_t>(worker)].fiber;
}

VirtualTime::Fiber& VirtualTime::TurnTo(int next) {
  left_behind_ = running_;
  running_ = next;
  if (next != kCaller) now_ = workers_[static_cast<size_t>(next)].now;
  return FiberOf(next);
}

void VirtualTime::SwitchTo(int next) {
  Fiber& own = FiberOf(running_);
  Fiber& other = TurnTo(next);
  StackMarks::LeaveFor(other.marks, &own.marks);
  boost::context::fiber from = std::move(other.fiber).resume();
  // Somebody has switched back to this one. A worker that has ended leaves nothing behind.
  own.marks.GoOn();
  if (from) FiberOf(left_behind_).fiber = std::move(from);
  if (is_stopping_ && running_ != kCaller) throw Stopped();
}

void VirtualTime::SwitchAway(bool is_ready) {
  workers_[static_cast<size_t>(running_)].now = now_;
  if (is_ready) MakeReady(running_, now_);
  // If nobody is left who could wake this worker, the caller of Run goes on.
  SwitchTo(ready_.empty() ? kCaller : TakeEarliest());
}

void VirtualTime::Wait(const void* place) {
  workers_[static_cast<size_t>(running_)].waits_for = place;
  SwitchAway(false);
  workers_[static_cast<size_t>(running_)].last_turn = now_;
}

void VirtualTime::Wake(const void* place, int waiters) {
  Charge(costs_.wake_call_ps);
  Sync();
  for (size_t i = 0; i < workers_.size() && waiters > 0; ++i) {
    if (workers_[i].waits_for != place) continue;
    workers_[i].waits_for = nullptr;
    MakeReady(static_cast<int>(i), now_ + costs_.wake_ps);
    --waiters;
  }
}

void VirtualTime::Pass(uint64_t ps) {
  Charge(ps);
  const uint64_t begin = now_;
  Sync();
  workers_[static_cast<size_t>(running_)].last_turn = begin;
}

void VirtualTime::BeforeWrite(Line* line) {
  Sync();
  if (*line == 0) {
    *line = static_cast<Line>(lines_.size());
    lines_.emplace_back();
  }
  LineState& state = lines_[*line];
  const uint64_t begin = now_;
  if (state.writer != running_) {
    now_ = std::max(now_, state.free_at) + costs_.transfer_ps;
    if (state.writer >= 0) {
      workers_[static_cast<size_t>(running_)].figures.contention_ps += now_ - begin;
    }
  } else {
    now_ += costs_.atomic_ps;
  }
  state.writer = running_;
  state.free_at = now_;
  state.written_at = now_;
  Sync();
}

void VirtualTime::BeforeRead(Line line) {
  const LineState& state = lines_[line];
  const bool is_new = state.writer >= 0 && state.writer != running_ &&
                      state.written_at >= workers_[static_cast<size_t>(running_)].last_turn;
  Charge(is_new ? costs_.transfer_ps : costs_.load_ps);
}

}  // namespace gleaner::tools
