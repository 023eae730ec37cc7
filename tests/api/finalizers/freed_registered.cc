// Objects given back, or moved, while a finalizer, a cleanup, a link or a toggle reference is
// registered for them.
#include <gc_cpp.h>

#include <new>

#include "check.h"

namespace {

constexpr size_t kCount = 300;
const size_t kSizes[] = {16, 48, 200, 3000, 40000};

size_t finalized;
void Finalize(void *, void *) { ++finalized; }

using Registration = void (*)(void *, GC_finalization_proc, void *, GC_finalization_proc *,
                              void **);
const Registration kOrders[] = {GC_register_finalizer, GC_register_finalizer_ignore_self,
                                GC_register_finalizer_no_order, GC_register_finalizer_unreachable};

size_t toggled;
GC_ToggleRefStatus Toggle(void *) {
  ++toggled;
  return GC_TOGGLE_REF_WEAK;
}

// Memory that was given back is handed out again as zeroes, and stays what the program makes it.
void CheckReuse(size_t bytes) {
  static void **objects;
  objects = static_cast<void **>(GC_malloc_uncollectable(2 * kCount * sizeof *objects));
  for (size_t i = 0; i < 2 * kCount; ++i) {
    auto *words = static_cast<GC_word *>(GC_malloc(bytes));
    for (size_t w = 0; w < bytes / 8; ++w) {
      CHECK_EQ(words[w], 0);
      words[w] = w * 4 + 1;
    }
    objects[i] = words;
  }
  collect();
  GC_gcollect();
  for (size_t i = 0; i < 2 * kCount; ++i) {
    auto *words = static_cast<GC_word *>(objects[i]);
    for (size_t w = 0; w < bytes / 8; ++w) CHECK_EQ(words[w], w * 4 + 1);
  }
  for (size_t i = 0; i < 2 * kCount; ++i) GC_free(objects[i]);
  GC_free(objects);
}

// The links' targets die at that time.
void *FreeRegistered(void *arg) {
  const size_t bytes = *static_cast<size_t *>(arg);
  static void *objects[kCount];
  static void *links[2 * kCount];
  for (size_t i = 0; i < kCount; ++i) {
    auto **object = static_cast<void **>(GC_malloc(bytes));
    objects[i] = object;
    // Any pointer into an object may be registered.
    kOrders[i % 4](reinterpret_cast<char *>(object) + (i % 3 == 0 ? i % 8 : 0), Finalize, nullptr,
                   nullptr, nullptr);
    links[2 * i] = links[2 * i + 1] = reinterpret_cast<void *>(~GC_word{1});
    CHECK_EQ(GC_general_register_disappearing_link(&links[2 * i], object), GC_SUCCESS);
    CHECK_EQ(GC_register_long_link(&links[2 * i + 1], object), GC_SUCCESS);
    void *target = GC_malloc(32);
    void **held = &object[bytes / 8 - 1];
    CHECK_EQ(GC_general_register_disappearing_link(held, target), GC_SUCCESS);
    CHECK_EQ(GC_general_register_disappearing_link(&object[0], object), GC_SUCCESS);
    CHECK_EQ(GC_toggleref_add(object, 0), GC_SUCCESS);
  }
  for (size_t i = 0; i < kCount; ++i) {
    GC_free(objects[i]);
    objects[i] = nullptr;
    CHECK_NULL(links[2 * i]);
    CHECK_NULL(links[2 * i + 1]);
    CHECK_EQ(GC_unregister_disappearing_link(&links[2 * i]), 0);
    CHECK_EQ(GC_unregister_long_link(&links[2 * i + 1]), 0);
  }
  return nullptr;
}

void OfAllSizes() {
  GC_set_toggleref_func(Toggle);
  for (size_t bytes : kSizes) {
    GC_disable();
    finalized = toggled = 0;
    run_in_thread(FreeRegistered, &bytes);
    GC_enable();
    CheckReuse(bytes);
    GC_invoke_finalizers();
    CHECK_EQ(finalized, 0);
    CHECK_EQ(toggled, 0);
  }
}

// --- Queued ---

void *queued[kCount];
size_t calls[kCount];

// Gives an object back whose finalizer waits to be called, too.
void FreeTheOther(void *object, void *data) {
  const auto i = reinterpret_cast<GC_word>(data);
  CHECK_PTR(object, GC_REVEAL_POINTER(reinterpret_cast<GC_word>(queued[i])));
  ++calls[i];
  ++calls[i ^ 1];
  GC_free(reinterpret_cast<void *>(GC_REVEAL_POINTER(reinterpret_cast<GC_word>(queued[i ^ 1]))));
}

void *MakeQueued(void *) {
  for (GC_word i = 0; i < kCount; ++i) {
    void *object = GC_malloc(48);
    GC_register_finalizer(object, FreeTheOther, reinterpret_cast<void *>(i), nullptr, nullptr);
    queued[i] = reinterpret_cast<void *>(GC_HIDE_POINTER(object));
  }
  return nullptr;
}

void WhileItWaits() {
  GC_set_finalize_on_demand(1);
  run_in_thread(MakeQueued, nullptr);
  collect();
  const int called = GC_invoke_finalizers();
  CHECK_MOSTLY(called, kCount / 2);
  CHECK_LE(called, kCount / 2);
  for (size_t call : calls) CHECK_LE(call, 1);
  CheckReuse(48);
  GC_set_finalize_on_demand(0);
}

// --- Moved ---

void **moved[kCount];

struct Growth {
  size_t from, to;
};

void *Move(void *arg) {
  const Growth growth = *static_cast<Growth *>(arg);
  static void *links[kCount];
  for (size_t i = 0; i < kCount; ++i) {
    auto **object = static_cast<void **>(GC_malloc(growth.from));
    GC_register_finalizer_no_order(object, Finalize, nullptr, nullptr, nullptr);
    links[i] = reinterpret_cast<void *>(~GC_word{1});
    CHECK_EQ(GC_general_register_disappearing_link(&links[i], object), GC_SUCCESS);
    void *target = GC_malloc(32);
    object[1] = reinterpret_cast<void *>(GC_HIDE_POINTER(target));
    CHECK_EQ(GC_general_register_disappearing_link(&object[1], target), GC_SUCCESS);
    moved[i] = static_cast<void **>(GC_realloc(object, growth.to));
    CHECK(moved[i] != object && moved[i][1] != nullptr);
    CHECK_NULL(links[i]);
  }
  return nullptr;
}

void Moved(size_t from, size_t to) {
  Growth growth = {from, to};
  GC_disable();
  finalized = 0;
  run_in_thread(Move, &growth);
  GC_enable();
  CheckReuse(from);
  CHECK_EQ(finalized, 0);
  size_t gone = 0;
  for (void **object : moved) gone += object[1] == nullptr;
  CHECK_MOSTLY(gone, kCount);
  memset(moved, 0, sizeof moved);
  collect();
  GC_gcollect();
  GC_invoke_finalizers();
  CHECK_MOSTLY(finalized, kCount);
  CHECK_LE(finalized, kCount);
}

// --- C++ ---

size_t cleaned;
void Clean(void *, void *) { ++cleaned; }

struct Thrower : gc {
  explicit Thrower(bool throws) {
    if (throws) throw 1;
    value[0] = 5;
  }
  GC_word value[6];
};
struct WithCleanup : gc_cleanup {
  ~WithCleanup() { ++cleaned; }
  GC_word value[6];
};
struct Plain {
  explicit Plain(bool throws) {
    if (throws) throw 1;
  }
  GC_word value[6];
};

void *MakeAndDelete(void *) {
  for (size_t i = 0; i < kCount; ++i) {
    auto *thrower = new (GC) Thrower(false);
    GC_register_finalizer_ignore_self(thrower, Clean, nullptr, nullptr, nullptr);
    delete thrower;
    bool caught = false;
    try {
      new (GC, Clean) Plain(true);
    } catch (int) {
      caught = true;
    }
    CHECK(caught);
    delete new WithCleanup;
  }
  return nullptr;
}

void Cxx() {
  make_in_thread(MakeAndDelete, nullptr);
  CheckReuse(48);
  CheckReuse(64);
  GC_invoke_finalizers();
  CHECK_EQ(cleaned, kCount);  // by the destructors that delete called
}

// --- The debugging calls ---

void *FreeDebugged(void *) {
  for (size_t i = 0; i < kCount; ++i) {
    void *object = GC_debug_malloc(40, "here", 1);
    GC_debug_register_finalizer(object, Finalize, nullptr, nullptr, nullptr);
    GC_debug_free(object);
    object = GC_debug_malloc(40, "there", 2);
    GC_debug_register_finalizer(object, Finalize, nullptr, nullptr, nullptr);
    moved[i] = static_cast<void **>(GC_debug_realloc(object, 400, "there", 3));
  }
  return nullptr;
}

void Debugged() {
  finalized = 0;
  run_in_thread(FreeDebugged, nullptr);
  collect();
  GC_gcollect();
  CHECK_EQ(finalized, 0);
  memset(moved, 0, sizeof moved);
  collect();
  GC_gcollect();
  CHECK_MOSTLY(finalized, kCount);
  CHECK_LE(finalized, kCount);
}

// --- Where the lock is held, and by several threads ---

void *FreeUnderLock(void *object) {
  GC_free(object);
  return nullptr;
}

void *RegisterAndFree(void *) {
  for (size_t i = 0; i < 20000; ++i) {
    auto **object = static_cast<void **>(GC_malloc(48));
    CHECK(object[0] == nullptr && object[5] == nullptr);
    void *link = object;
    GC_register_finalizer_no_order(object, Finalize, nullptr, nullptr, nullptr);
    if (i % 4 == 0) {
      GC_general_register_disappearing_link(&link, object);
      GC_general_register_disappearing_link(&object[5], GC_malloc_atomic(16));
    }
    object[0] = object[5] = object;
    if (i % 16 == 0) {
      GC_call_with_alloc_lock(FreeUnderLock, object);
    } else {
      GC_free(object);
    }
    if (i % 4 == 0) CHECK_NULL(link);
  }
  return nullptr;
}

void OnThreads() {
  finalized = 0;
  run_in_threads(3, RegisterAndFree, nullptr, 20);
  GC_gcollect();
  CHECK_EQ(finalized, 0);
}

}  // namespace

int main() {
  fail_after(55);
  GC_INIT();
  if (!on_gleaner()) return 0;  // libgc calls what is registered
  OfAllSizes();
  WhileItWaits();
  Moved(48, 100);
  Moved(200, 40000);
  Moved(3000, 700);
  Moved(40000, 16000);
  Cxx();
  OnThreads();
  Debugged();
  return check_result();
}
