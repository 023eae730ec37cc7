// operator new and delete in all forms; what happens without memory.
#include <cerrno>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

volatile size_t g_too_much = size_t{1} << 48;

template <class F>
bool ThrowsBadAlloc(F f) {
  try {
    opaque(f());
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

void AllForms() {
  for (size_t bytes = 0; bytes < 50000; bytes = bytes * 3 / 2 + 1) {
    void* p = ::operator new(bytes);
    void* q = ::operator new[](bytes);
    void* r = ::operator new(bytes, std::nothrow);
    void* s = ::operator new[](bytes, std::nothrow);
    CHECK(p != nullptr && q != nullptr && r != nullptr && s != nullptr);
    for (void* each : {p, q, r, s}) {
      CHECK(reinterpret_cast<uintptr_t>(each) % 16 == 0);
      memset(each, 1, bytes);
    }
    ::operator delete(p);
    ::operator delete[](q);
    ::operator delete(r, std::nothrow);
    ::operator delete[](s, std::nothrow);
    ::operator delete(::operator new(bytes), bytes);
    ::operator delete[](::operator new[](bytes), bytes);
    for (size_t alignment = 1; alignment <= 65536; alignment *= 4) {
      const std::align_val_t a{alignment};
      p = ::operator new(bytes, a);
      q = ::operator new[](bytes, a);
      r = ::operator new(bytes, a, std::nothrow);
      s = ::operator new[](bytes, a, std::nothrow);
      for (void* each : {p, q, r, s}) {
        CHECK(each != nullptr && reinterpret_cast<uintptr_t>(each) % alignment == 0);
        memset(each, 2, bytes);
      }
      ::operator delete(p, a);
      ::operator delete[](q, bytes, a);
      ::operator delete(r, a, std::nothrow);
      ::operator delete[](s, a, std::nothrow);
      ::operator delete(::operator new(bytes, a), bytes, a);
      ::operator delete[](::operator new[](bytes, a), a);
    }
  }
}

void WithoutMemory() {
  const std::align_val_t a{256};
  CHECK(ThrowsBadAlloc([] { return ::operator new(g_too_much); }));
  CHECK(ThrowsBadAlloc([] { return ::operator new[](g_too_much); }));
  CHECK(ThrowsBadAlloc([=] { return ::operator new(g_too_much, a); }));
  CHECK(ThrowsBadAlloc([=] { return ::operator new[](g_too_much, a); }));
  CHECK(::operator new(g_too_much, std::nothrow) == nullptr);
  CHECK(::operator new[](g_too_much, std::nothrow) == nullptr);
  CHECK(::operator new(g_too_much, a, std::nothrow) == nullptr);
  CHECK(::operator new[](g_too_much, a, std::nothrow) == nullptr);
}

// At once, without the handler: memory would not help.
void BadAlignments() {
  for (size_t alignment : {size_t{0}, size_t{3}, size_t{24}, size_t{100}, SIZE_MAX}) {
    const std::align_val_t a{alignment};
    CHECK(ThrowsBadAlloc([a] { return ::operator new(10, a); }));
    CHECK(ThrowsBadAlloc([a] { return ::operator new[](10, a); }));
    CHECK(::operator new(10, a, std::nothrow) == nullptr);
    CHECK(::operator new[](10, a, std::nothrow) == nullptr);
  }
  for (size_t alignment = 32; alignment != 0; alignment *= 2) {
    const std::align_val_t a{alignment};
    for (volatile size_t bytes : {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX / 2 - 15}) {
      CHECK(::operator new(bytes, a, std::nothrow) == nullptr);
    }
  }
}

int g_calls = 0;
struct Enough : std::bad_alloc {};

void Handler() {
  if (++g_calls % 3 == 0) std::set_new_handler(nullptr);
}
void ThrowingHandler() {
  ++g_calls;
  throw Enough();
}

void Handlers() {
  const std::align_val_t a{256};
  std::set_new_handler(Handler);
  CHECK(ThrowsBadAlloc([] { return ::operator new(g_too_much); }) && g_calls == 3);
  std::set_new_handler(Handler);
  CHECK(::operator new(g_too_much, std::nothrow) == nullptr&& g_calls == 6);
  std::set_new_handler(Handler);
  CHECK(::operator new[](g_too_much, a, std::nothrow) == nullptr&& g_calls == 9);

  std::set_new_handler(ThrowingHandler);
  bool caught = false;
  try {
    opaque(::operator new(g_too_much));
  } catch (const Enough&) {
    caught = true;
  }
  CHECK(caught && g_calls == 10);
  CHECK(::operator new(g_too_much, std::nothrow) == nullptr&& g_calls == 11);
  CHECK(::operator new(g_too_much, a, std::nothrow) == nullptr&& g_calls == 12);
  std::set_new_handler(nullptr);
}

void Containers() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      std::map<std::string, std::vector<int>> map;
      for (int i = 0; i < 20000; ++i) map[std::to_string(i % 1000 + t)].push_back(i);
      size_t all = 0;
      for (const auto& [key, values] : map) all += values.size();
      CHECK(all == 20000);
    });
  }
  for (std::thread& thread : threads) thread.join();
  try {
    std::vector<int> v;
    v.at(3) = 1;
  } catch (const std::out_of_range&) {
    return;
  }
  CHECK(false);
}

}  // namespace

int main() {
  require_gleaner();
  AllForms();
  WithoutMemory();
  BadAlignments();
  Handlers();
  Containers();
}
