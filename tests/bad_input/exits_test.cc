// Functions that the library calls and that do not return: they end the thread, throw, or jump.
// What comes after the call is as it was before, above all for a section in which the thread counts
// as blocked.
#define GC_NO_THREAD_REDIRECTS
#include <gleaner.h>
#include <setjmp.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "platform/os/atomic.h"
#include "tests/bad_input/bad_input.h"
#include "tests/support/sleep.h"

namespace {

using namespace gleaner::testing;
using gleaner::testing::SleepNs;

Slot g_slot;  // data of the program

bool IsThereAndIntact(const Node* list) { return CountLost(g_slot, list) == 0; }

std::atomic<bool> g_collect{false};
std::atomic<bool> g_collected{false};
std::atomic<bool> g_is_intact{false};
std::atomic<bool> g_over{false};

void AwaitCollection() {
  g_collect = true;
  while (!g_collected) gleaner::platform::CpuRelax();
}

// Takes the list, so that it is this thread's alone, for the time of a collection by the first
// thread; further down the stack than a section began. It allocates nothing.
__attribute__((noinline)) void TakeList(void (*await)() = AwaitCollection) {
  Node* volatile mine;
  volatile char room[16384];
  room[0] = 0;
  asm volatile("" : : "r"(&mine), "r"(room) : "memory");
  mine = g_slot.list;
  g_slot.list = nullptr;
  await();
  g_is_intact = IsThereAndIntact(mine);
  g_slot.list = mine;
}

// Runs f on a thread, which calls TakeList somewhere.
void RunOnThread(void* (*f)(void*)) {
  InEachMode([f] {
    GC_INIT();
    Fill(&g_slot);
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, nullptr, f, nullptr), 0);
    while (!g_collect) SleepNs(100'000);
    GC_gcollect();
    GC_gcollect();
    g_collected = true;
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    EXPECT_TRUE(g_is_intact);
    EXPECT_TRUE(IsThereAndIntact(g_slot.list));
    GC_gcollect();
  });
}

void* GetBlocked(void* (*f)(void*)) {
  GC_malloc(1);
  return GC_do_blocking(f, nullptr);
}

// --- Blocking sections ---

TEST(ExitsTest, TheThreadEndsInABlockingSection) {
  RunOnThread([](void*) -> void* {
    pthread_cleanup_push([](void*) { TakeList(); }, nullptr);
    GetBlocked([](void*) -> void* { pthread_exit(nullptr); });
    pthread_cleanup_pop(0);
    return nullptr;
  });
}

TEST(ExitsTest, TheThreadIsCancelledInABlockingSection) {
  RunOnThread([](void*) -> void* {
    pthread_cleanup_push([](void*) { TakeList(); }, nullptr);
    GetBlocked([](void*) -> void* {
      pthread_cancel(pthread_self());
      for (;;) pause();
    });
    pthread_cleanup_pop(0);
    return nullptr;
  });
}

TEST(ExitsTest, DestructorsOfAThreadThatEndsInABlockingSection) {
  static pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, [](void*) { TakeList(); }), 0);
  RunOnThread([](void*) -> void* {
    pthread_setspecific(key, &key);
    return GetBlocked([](void*) -> void* { pthread_exit(nullptr); });
  });
  pthread_key_delete(key);
}

TEST(ExitsTest, AnExceptionLeavesABlockingSection) {
  RunOnThread([](void*) -> void* {
    try {
      GetBlocked([](void*) -> void* { throw 1; });
    } catch (int) {
      TakeList();
    }
    return nullptr;
  });
}

// A jump is noticed when the thread allocates.
TEST(ExitsTest, AJumpLeavesABlockingSection) {
  static thread_local jmp_buf before;
  RunOnThread([](void*) -> void* {
    if (setjmp(before) == 0) GetBlocked([](void*) -> void* { longjmp(before, 1); });
    GC_malloc(1);
    TakeList();
    return nullptr;
  });
}

TEST(ExitsTest, ASectionAfterAJumpOutOfOneCountsTheFramesBetween) {
  static thread_local jmp_buf before;
  RunOnThread([](void*) -> void* {
    if (setjmp(before) == 0) GetBlocked([](void*) -> void* { longjmp(before, 1); });
    TakeList([] {
      GC_do_blocking(
          [](void*) -> void* {
            AwaitCollection();
            return nullptr;
          },
          nullptr);
    });
    return nullptr;
  });
}

TEST(ExitsTest, TheThreadEndsInAnActiveSection) {
  RunOnThread([](void*) -> void* {
    pthread_cleanup_push([](void*) { TakeList(); }, nullptr);
    GetBlocked([](void*) -> void* {
      return GC_call_with_gc_active([](void*) -> void* { pthread_exit(nullptr); }, nullptr);
    });
    pthread_cleanup_pop(0);
    return nullptr;
  });
}

// Where an exception leaves an active section, the thread counts as blocked again: no signal is
// needed to stop it.
TEST(ExitsTest, AnExceptionLeavesAnActiveSection) {
  RunOnThread([](void*) -> void* {
    GetBlocked([](void*) -> void* {
      try {
        GC_call_with_gc_active([](void*) -> void* { throw 1; }, nullptr);
      } catch (int) {
        sigset_t all;
        sigset_t before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        AwaitCollection();
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
      }
      return nullptr;
    });
    TakeList();
    return nullptr;
  });
}

TEST(ExitsTest, AThreadUnregistersInABlockingSection) {
  RunOnThread([](void*) -> void* {
    GetBlocked([](void*) -> void* {
      GC_unregister_my_thread();
      return nullptr;
    });
    EXPECT_EQ(GC_thread_is_registered(), 0);
    GC_malloc(1);
    TakeList();
    return nullptr;
  });
}

// --- The heap is used where the program has promised not to ---

// The section ends: what the thread makes there is kept, and no slot is handed out twice.
TEST(ExitsTest, AThreadAllocatesInABlockingSection) {
  InEachMode([] {
    GC_INIT();
    pthread_t threads[2];
    const auto work = [](void*) -> void* {
      while (!g_over) {
        GetBlocked([](void*) -> void* {
          Node* kept = MakeList(500);
          for (int i = 0; i < 20; ++i) {
            Node* list = MakeList(500);
            EXPECT_TRUE(IsIntact(list, 500));
            GC_free(list);
          }
          EXPECT_TRUE(IsIntact(kept, 500));
          return nullptr;
        });
        EXPECT_TRUE(IsIntact(MakeList(500), 500));
      }
      return nullptr;
    };
    for (pthread_t& thread : threads) ASSERT_EQ(pthread_create(&thread, nullptr, work, nullptr), 0);
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(IsIntact(MakeList(500), 500));
      GC_gcollect();
    }
    g_over = true;
    for (pthread_t thread : threads) ASSERT_EQ(pthread_join(thread, nullptr), 0);
  });
}

// --- Others ---

TEST(ExitsTest, AnExceptionLeavesTheLock) {
  InEachMode([] {
    GC_INIT();
    EXPECT_THROW(GC_call_with_alloc_lock([](void*) -> void* { throw 1; }, nullptr), int);
    const size_t collections = GC_get_gc_no();
    GC_gcollect();
    EXPECT_EQ(GC_get_gc_no(), collections + 1);
  });
}

std::atomic<int> g_finalized{0};

__attribute__((noinline)) void MakeFinalizable(int count) {
  for (int i = 0; i < count; ++i) {
    GC_register_finalizer_no_order(
        GC_malloc(64),
        [](void*, void*) {
          if (++g_finalized == 1) throw 1;
        },
        nullptr, nullptr, nullptr);
  }
}

// The thread runs finalizers as before.
TEST(ExitsTest, AnExceptionLeavesAFinalizer) {
  InEachMode([] {
    GC_INIT();
    MakeFinalizable(100);
    EXPECT_THROW(GC_gcollect(), int);
    EXPECT_EQ(g_finalized, 1);
    GC_gcollect();
    EXPECT_GT(g_finalized, 80);  // some stay on a conservative heap
  });
}

}  // namespace
