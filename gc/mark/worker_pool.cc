#include "gc/mark/worker_pool.h"

#include "gc/mark/worker_nodes.h"
#include "observe/trace.h"
#include "platform/nodes/topology.h"
#include "platform/threads/stop_world.h"

namespace gleaner::gc {

using platform::memory_order_relaxed;
using platform::memory_order_seq_cst;

void WorkerPool::Begin(Job job, void* context) {
  job_ = job;
  context_ = context;
  wanted_now_ = 0;
  joined_.Store(0, memory_order_relaxed);  // no job is open
}

void WorkerPool::StartHelpers() {
  while (started_ + 1 < size_) {
    Helper& helper = helpers_[started_];
    helper.pool = this;
    helper.worker = started_ + 1;
    if (!platform::StartHelperThread(HelperMain, &helper)) {
      size_ = started_ + 1;  // the system refuses threads: do not ask again
      return;
    }
    ++started_;
  }
}

void WorkerPool::WakeAll(int workers) {
  wanted_now_ = workers;
  while (WakeOne(wanted_now_)) {
  }
}

bool WorkerPool::WakeOne(int workers) {
  if (workers > size_) workers = size_;
  int joined = joined_.Load(memory_order_relaxed);  // the exchange decides
  do {
    if (joined >= started_ || joined + 1 >= workers) return false;
  } while (!joined_.CompareExchange(joined, joined + 1, memory_order_seq_cst));
  Helper& helper = helpers_[joined];
  helper.placement.KeepOffThisCpu();
  running_.FetchAdd(1, memory_order_seq_cst);
  helper.jobs.FetchAdd(1, memory_order_seq_cst);  // also publishes job_, context_, wanted_now_
  FutexWake(&helper.jobs, 1);
  return true;
}

void WorkerPool::Finish() {
  for (;;) {
    const uint32_t running = running_.Load(memory_order_seq_cst);
    if (running == 0) return;
    platform::FutexWait(&running_, running);
  }
}

void* WorkerPool::HelperMain(void* argument) {
  auto* helper = static_cast<Helper*>(argument);
  platform::BeginHelper("gleaner-marker");
  helper->placement.Announce();
  platform::BeginTraceOfThread(platform::TraceRole::kMarker, "marker");
  for (uint32_t done = 0;; ++done) {
    while (helper->jobs.Load(memory_order_seq_cst) == done)
      platform::FutexWait(&helper->jobs, done);
    helper->pool->Bind(*helper);
    helper->pool->Help(helper->worker);
  }
}

void WorkerPool::Bind(Helper& helper) const {
  if (GLEANER_LIKELY(helper.is_bound)) return;
  const platform::Topology* topology = platform::LoadedTopologyOfThisMachine();
  if (topology == nullptr) return;
  helper.is_bound = true;
  const int node = NodeOfWorker(*topology, helper.worker, wanted_);
  // What the helper may use now is no matter: its placement keeps it off a processor for a while.
  if (node >= 0) (void)platform::SetAffinity(0, topology->ProcessorsOf(node));  // else anywhere
}

void WorkerPool::Help(int worker) {
  // A mark procedure of the program may write to its object, whose page may be write-protected for
  // tracking; the fault has to be handled.
  platform::UnblockFaultSignal();
  while (WakeOne(wanted_now_)) {
  }
  job_(context_, worker);
  if (running_.FetchSub(1, memory_order_seq_cst) == 1) FutexWakeAll(&running_);
}

void WorkerPool::ResetAfterFork(bool helpers_wanted) {
  if (!helpers_wanted) size_ = 1;
  for (Helper& helper : helpers_) {
    helper.jobs.Store(0, memory_order_seq_cst);
    helper.placement.Forget();
    helper.is_bound = false;
  }
  started_ = 0;
  joined_.Store(0, memory_order_relaxed);  // no job is open
  running_.Store(0, memory_order_seq_cst);
}

}  // namespace gleaner::gc
