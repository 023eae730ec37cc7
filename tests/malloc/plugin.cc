// A library that is loaded later, with C++ objects, thread-local ones, and an operator new and
// delete of its own that it does not export.
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

namespace {
int g_own_news = 0;
thread_local std::vector<std::string> t_strings;
}  // namespace

void* operator new(size_t bytes) {
  ++g_own_news;
  void* p = malloc(bytes + 32);
  if (p == nullptr) std::abort();
  *static_cast<size_t*>(p) = 0x5eed;
  return static_cast<char*>(p) + 32;
}
void operator delete(void* p) noexcept {
  if (p == nullptr) return;
  void* block = static_cast<char*>(p) - 32;
  if (*static_cast<size_t*>(block) != 0x5eed) std::abort();
  free(block);
}
void operator delete(void* p, size_t) noexcept { operator delete(p); }

extern "C" {
// The host frees it.
void* plugin_block(size_t bytes) { return malloc(bytes); }
void plugin_free(void* p) { free(p); }
int plugin_work() {
  for (int i = 0; i < 1000; ++i) t_strings.emplace_back(static_cast<size_t>(i), 'x');
  size_t all = 0;
  for (const std::string& s : t_strings) all += s.size();
  auto* p = new int[3];
  delete[] p;
  delete new int;
  return g_own_news > 0 && all > 0 ? 0 : 1;
}
}
