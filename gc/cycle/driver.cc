#include "gc/cycle/driver.h"

#include "observe/trace.h"
#include "platform/os/lock.h"
#include "platform/threads/thread.h"

namespace gleaner::gc {

using platform::memory_order_seq_cst;

bool Driver::Start(Step step, void* context) {
  if (running()) return true;
  if (refused_) return false;
  step_ = step;
  context_ = context;
  refused_ = !platform::StartHelperThread(Main, this);
  running_.Set(!refused_);
  return !refused_;
}

void Driver::Wake() {
  wakes_.FetchAdd(1, memory_order_seq_cst);
  FutexWake(&wakes_, 1);
}

void* Driver::Main(void* driver) {
  auto* self = static_cast<Driver*>(driver);
  platform::BeginHelper("gleaner-driver");
  platform::BeginTraceOfThread(platform::TraceRole::kDriver, "driver");
  for (;;) {
    const uint32_t seen = self->wakes_.Load(memory_order_seq_cst);
    while (self->step_(self->context_)) {
    }
    platform::FutexWait(&self->wakes_, seen);
  }
}

void Driver::ResetAfterFork(bool wanted) {
  refused_ = !wanted;
  running_.Set(false);
}

}  // namespace gleaner::gc
