// C++20 coroutines whose frames are objects of the heap: a generator and a task.
//
// A promise type with an operator new decides where the frames of its coroutines lie. Here they
// come from GC_MALLOC, so the collector searches them for pointers, and a frame lives as long as
// somebody has its handle: on a stack, in a root, or in another frame. No frame is freed by hand. A
// coroutine that runs is safe, too, since whoever resumed it holds the handle in a frame of its own
// below.
//
// What it costs: a frame that becomes garbage while suspended is not destroyed, so the destructors
// of its local variables do not run. A coroutine that holds other resources than memory is to be
// run to its end, or destroyed by handle.destroy().
//
// No stack is switched, so this needs nothing of gleaner_fiber_*.
//
//   c++ -std=c++20 coroutines.cc $(pkg-config --cflags --libs gleaner)
#include <gc.h>

#include <coroutine>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

namespace {

// Allocates frames on the heap. What operator delete does not free is collected.
struct CollectedFrame {
  static void* operator new(std::size_t bytes) {
    void* frame = GC_MALLOC(bytes);
    if (frame == nullptr) std::abort();
    return frame;
  }
  static void operator delete(void*, std::size_t) {}
};

// Memory of the heap for C++ objects without destructors.
template <class T>
T* New(T value) {
  return new (GC_MALLOC(sizeof(T))) T(value);
}

// A sequence of values, made one by one. Copying it copies the handle.
template <class T>
class Generator {
 public:
  struct promise_type : CollectedFrame {
    T value{};
    Generator get_return_object() {
      return Generator(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(T next) {
      value = std::move(next);
      return {};
    }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };

  bool Next(T* value) {
    handle_.resume();
    if (handle_.done()) return false;
    *value = handle_.promise().value;
    return true;
  }

 private:
  explicit Generator(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

// A computation that others can wait for. It starts when it is first awaited, and whoever awaits it
// is resumed at its end.
template <class T>
class Task {
 public:
  struct promise_type : CollectedFrame {
    T value{};
    std::coroutine_handle<> waiter = std::noop_coroutine();
    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct ResumeWaiter {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> h) noexcept {
          return h.promise().waiter;
        }
        void await_resume() noexcept {}
      };
      return ResumeWaiter{};
    }
    void return_value(T result) { value = std::move(result); }
    void unhandled_exception() { std::abort(); }
  };

  bool await_ready() const { return handle_.done(); }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiter) {
    handle_.promise().waiter = waiter;
    return handle_;
  }
  T await_resume() { return handle_.promise().value; }

  // Starts it, from outside of any coroutine.
  void Start() { handle_.resume(); }
  bool done() const { return handle_.done(); }
  T result() const { return handle_.promise().value; }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

struct Node {
  Node* left;
  Node* right;
  uint64_t value;
};

// A balanced tree of the values [begin, end).
Node* Build(uint64_t begin, uint64_t end) {
  if (begin == end) return nullptr;
  const uint64_t middle = begin + (end - begin) / 2;
  Node* left = Build(begin, middle);
  Node* right = Build(middle + 1, end);
  return New(Node{left, right, middle});
}

// The values in order. The tree is reachable from this frame only, and each level's generator from
// the frame of the level above.
Generator<uint64_t> Walk(Node* node) {
  if (node == nullptr) co_return;
  uint64_t value;
  for (Generator<uint64_t> left = Walk(node->left); left.Next(&value);) co_yield value;
  co_yield node->value;
  for (Generator<uint64_t> right = Walk(node->right); right.Next(&value);) co_yield value;
}

// Something to wait for that another part of the program completes: here, the main loop below.
struct Event {
  std::coroutine_handle<> waiter;
  Event* next;
};
Event* g_waiting = nullptr;  // a root: the frames that wait are reachable through it

struct Yield {
  bool await_ready() { return false; }
  void await_suspend(std::coroutine_handle<> h) { g_waiting = New(Event{h, g_waiting}); }
  void await_resume() {}
};

Task<uint64_t> Sum(uint64_t begin, uint64_t end) {
  const uint64_t count = end - begin;
  if (count <= 16) {
    Node* tree = Build(begin, end);
    co_await Yield{};  // meanwhile the tree hangs on this frame, and the frame on g_waiting
    uint64_t sum = 0;
    uint64_t value;
    for (Generator<uint64_t> values = Walk(tree); values.Next(&value);) sum += value;
    co_return sum;
  }
  const uint64_t middle = begin + count / 2;
  Task<uint64_t> left = Sum(begin, middle);
  Task<uint64_t> right = Sum(middle, end);
  const uint64_t first = co_await left;
  co_return first + co_await right;
}

bool GeneratorHolds(uint64_t count) {
  Generator<uint64_t> values = Walk(Build(0, count));
  uint64_t expected = 0;
  uint64_t value;
  while (values.Next(&value)) {
    if (value != expected++) return false;
    if (expected % 1000 == 0) GC_gcollect();
  }
  return expected == count;
}

bool TasksHold(uint64_t count) {
  constexpr int kTasks = 50;
  auto* tasks = static_cast<Task<uint64_t>*>(GC_MALLOC(kTasks * sizeof(Task<uint64_t>)));
  for (int i = 0; i < kTasks; ++i) {
    new (&tasks[i]) Task<uint64_t>(Sum(0, count));
    tasks[i].Start();
  }
  for (int rounds = 0; g_waiting != nullptr; ++rounds) {
    if (rounds % 500 == 0) GC_gcollect();
    Event* event = g_waiting;
    g_waiting = event->next;
    event->waiter.resume();
  }
  for (int i = 0; i < kTasks; ++i) {
    if (!tasks[i].done() || tasks[i].result() != count * (count - 1) / 2) return false;
  }
  return true;
}

// Drops suspended generators and looks at how much memory that takes.
bool FramesAreReclaimed() {
  constexpr int kRounds = 20;
  constexpr int kGenerators = 2000;
  size_t most = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kGenerators; ++i) {
      Generator<uint64_t> dropped = Walk(Build(0, 32));
      uint64_t value;
      if (!dropped.Next(&value) || value != 0) return false;
    }
    GC_gcollect();
    const size_t used = GC_get_memory_use();
    if (used > most) most = used;
  }
  // One round makes more than 5 MB of frames and nodes.
  return most < size_t{kRounds} * 5000000 / 2;
}

}  // namespace

int main() {
  GC_INIT();
  const bool generator = GeneratorHolds(10000);
  const bool tasks = TasksHold(1000);
  const bool reclaimed = FramesAreReclaimed();
  std::printf("generator %s, tasks %s, frames %s\n", generator ? "ok" : "WRONG",
              tasks ? "ok" : "WRONG", reclaimed ? "reclaimed" : "NOT RECLAIMED");
  return generator && tasks && reclaimed ? 0 : 1;
}
