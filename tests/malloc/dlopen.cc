// usage: dlopen PLUGIN: loads and unloads it again and again, in several threads; blocks cross the
// border both ways. By its name alone it is found in the search path of this program.
#include <dlfcn.h>

#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

namespace {

void Use(const char* path) {
  for (int i = 0; i < 20; ++i) {
    void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != nullptr);
    auto* block = reinterpret_cast<void* (*)(size_t)>(dlsym(plugin, "plugin_block"));
    auto* release = reinterpret_cast<void (*)(void*)>(dlsym(plugin, "plugin_free"));
    auto* work = reinterpret_cast<int (*)()>(dlsym(plugin, "plugin_work"));
    CHECK(block != nullptr && release != nullptr && work != nullptr);
    for (size_t bytes = 1; bytes < 100'000; bytes *= 3) {
      void* p = block(bytes);
      fill(p, bytes, 3);
      CHECK(holds(p, bytes, 3));
      free(p);
      release(malloc(bytes));
    }
    std::thread([work] { CHECK(work() == 0); }).join();
    CHECK(work() == 0);
    CHECK(dlsym(plugin, "no_such_function") == nullptr && dlerror() != nullptr);
    dlclose(plugin);
  }
}

}  // namespace

int main(int argc, char** argv) {
  require_gleaner();
  CHECK(argc == 2);
  const char* name = strrchr(argv[1], '/');
  CHECK(name != nullptr && dlopen(name + 1, RTLD_NOW | RTLD_NOLOAD) == nullptr);
  void* found = dlopen(name + 1, RTLD_NOW);
  CHECK(found != nullptr && dlsym(found, "plugin_block") != nullptr);
  CHECK(dlclose(found) == 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) threads.emplace_back(Use, argv[1]);
  for (std::thread& thread : threads) thread.join();
  CHECK(dlopen("/no/such/file.so", RTLD_NOW) == nullptr && dlerror() != nullptr);
}
