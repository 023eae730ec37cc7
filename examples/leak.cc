// A server that leaks: what a collector cannot free, as a global map refers to it.
// docs/reference/heap.md finds the place with heap snapshots.
//
// Each request opens a session, which is closed with the answer. A request that fails leaves Serve
// before that, and its session stays in the map for good.
//
// Given a number, it takes about that many seconds, so that it can be watched. Given two names of
// files, it writes a snapshot of its heap to the first when half of the requests are served, and to
// the second at the end.
//
//   c++ -std=c++17 leak.cc $(pkg-config --cflags --libs gleaner)
#include <gc.h>
#include <gleaner.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <thread>

namespace {

constexpr int kRequests = 20000;
constexpr int kFailing = 4;  // every fourth request
constexpr std::size_t kPageBytes = 2000;

// Memory of the heap, which nobody has to free.
template <class T>
struct Collected {
  using value_type = T;
  Collected() = default;
  template <class U>
  explicit Collected(const Collected<U>&) {}
  T* allocate(std::size_t count) {
    void* memory = GC_MALLOC(count * sizeof(T));
    if (memory == nullptr) std::abort();
    return static_cast<T*>(memory);
  }
  void deallocate(T*, std::size_t) {}
  bool operator==(const Collected&) const { return true; }
  bool operator!=(const Collected&) const { return false; }
};

class Session {
 public:
  explicit Session(int number)
      : number_(number), page_(static_cast<char*>(GC_MALLOC_ATOMIC(kPageBytes))) {
    if (page_ == nullptr) std::abort();
    std::snprintf(page_, kPageBytes, "page %d", number_);
  }
  virtual ~Session() = default;
  virtual bool Answer() { return number_ % kFailing != 0; }

  static void* operator new(std::size_t bytes) { return Collected<char>().allocate(bytes); }
  static void operator delete(void*) {}

 private:
  const int number_;
  char* const page_;
};

using Sessions = std::map<int, Session*, std::less<>, Collected<std::pair<const int, Session*>>>;
Sessions g_sessions;

bool Serve(int number) {
  auto* session = new Session(number);
  g_sessions.emplace(number, session);
  if (!session->Answer()) return false;
  g_sessions.erase(number);
  return true;
}

void Write(const char* file) {
  const int error = gleaner_heap_snapshot(file);
  if (error == 0) return;
  std::fprintf(stderr, "leak: %s: %s\n", file, std::strerror(error));
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  GC_INIT();
  const double seconds = argc == 2 ? std::atof(argv[1]) : 0;
  std::size_t failed = 0;
  for (int number = 0; number < kRequests; ++number) {
    if (!Serve(number)) ++failed;
    if (seconds > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds / kRequests));
    }
    if (argc == 3 && number == kRequests / 2) Write(argv[1]);
  }
  if (argc == 3) Write(argv[2]);
  if (g_sessions.size() != failed) {
    std::fprintf(stderr, "leak: %zu sessions, not %zu\n", g_sessions.size(), failed);
    return 1;
  }
  std::printf("leak: ok, %zu of %d requests failed\n", failed, kRequests);
  return 0;
}
