#include "tools/predict/virtual_time.h"

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <new>
#include <utility>

namespace gleaner::tools {

namespace {

constexpr size_t kStackBytes = size_t{64} << 10;

}  // namespace

// A fiber that does not run; empty while it runs.
struct VirtualTime::Fiber {
  boost::context::fiber fiber;
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
  for (Worker& worker : workers_) worker.fiber.reset();
  return !has_failed_ && std::all_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.waits_for == nullptr;
  });
}

void VirtualTime::Start(int worker) { Begin(worker, now_ + costs_.wake_ps); }

void VirtualTime::Begin(int id, uint64_t at) {
  Worker& worker = workers_[static_cast<size_t>(id)];
  worker.fiber = std::make_unique<Fiber>();
  worker.fiber->fiber = boost::context::fiber(
      std::allocator_arg, boost::context::fixedsize_stack(kStackBytes),
      [this, id](boost::context::fiber&& from) {
        (left_behind_ < 0 ? *caller_ : *workers_[static_cast<size_t>(left_behind_)].fiber).fiber =
            std::move(from);
        try {
          body_(id);
        } catch (const std::bad_alloc&) {  // the others might wait for this worker for ever
          has_failed_ = true;
          left_behind_ = id;
          running_ = -1;
          return std::move(caller_->fiber);
        }
        Figures& figures = workers_[static_cast<size_t>(id)].figures;
        figures.end_ps = now_;
        // The last one returns to the caller of Run.
        left_behind_ = id;
        if (ready_.empty()) {
          running_ = -1;
          return std::move(caller_->fiber);
        }
        const int next = TakeEarliest();
        running_ = next;
        now_ = workers_[static_cast<size_t>(next)].now;
        return std::move(workers_[static_cast<size_t>(next)].fiber->fiber);
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

void VirtualTime::SwitchTo(int next) {
  left_behind_ = running_;
  running_ = next;
  now_ = workers_[static_cast<size_t>(next)].now;
  boost::context::fiber from = std::move(workers_[static_cast<size_t>(next)].fiber->fiber).resume();
  // Somebody has switched back to this one. A worker that has ended leaves nothing behind.
  if (!from) return;
  (left_behind_ < 0 ? *caller_ : *workers_[static_cast<size_t>(left_behind_)].fiber).fiber =
      std::move(from);
}

void VirtualTime::SwitchAway(bool is_ready) {
  workers_[static_cast<size_t>(running_)].now = now_;
  if (is_ready) MakeReady(running_, now_);
  if (ready_.empty()) {  // nobody is left who could wake this worker
    left_behind_ = running_;
    running_ = -1;
    std::move(caller_->fiber).resume();
  }
  SwitchTo(TakeEarliest());
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
