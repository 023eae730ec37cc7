// A plug-in with a C++ library of its own, which frees what the C library has allocated.
#include <cstdlib>
#include <cstring>
#include <new>

extern "C" void FreeText() {
  char* volatile text = strdup("text");
  free(text);
}

extern "C" void* Allocate(size_t bytes) { return malloc(bytes); }
extern "C" void Free(void* p) { free(p); }

extern "C" int ThrowsAfterHandler() {
  static int calls;
  calls = 0;
  std::set_new_handler([] {
    if (++calls == 2) std::set_new_handler(nullptr);
  });
  try {
    char* volatile p = new char[size_t{1} << 60];
    delete[] p;
  } catch (const std::bad_alloc&) {
    return calls == 2;
  }
  return 0;
}
