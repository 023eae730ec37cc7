// A handler on a small alternate stack, 8 KiB and what the system needs, with a page below it that
// nobody may touch, allocates and frees on every slow path. So do threads with the least stack that
// the system grants.
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "check.h"

namespace {

constexpr size_t kBlocks = 2000;
volatile int g_handled = 0;

void Allocate(int) {
  static void* blocks[kBlocks];
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < kBlocks; ++i) {
      CHECK((blocks[i] = malloc(i % 50 == 0 ? 20'000 * (i / 50 + 1) : i * 37 % 9000)) != nullptr);
    }
    for (void*& block : blocks) {
      free(block);
      block = nullptr;
    }
  }
  g_handled = g_handled + 1;
}

void* Handle(void*) {
  constexpr size_t kGuard = 4096;
  const size_t stack_bytes = static_cast<size_t>(sysconf(_SC_MINSIGSTKSZ)) + 8192;
  auto* memory = static_cast<char*>(mmap(nullptr, kGuard + stack_bytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(memory != MAP_FAILED && mprotect(memory, kGuard, PROT_NONE) == 0);
  stack_t stack = {};
  stack.ss_sp = memory + kGuard;
  stack.ss_size = stack_bytes;
  CHECK(sigaltstack(&stack, nullptr) == 0);
  CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0);
  stack.ss_flags = SS_DISABLE;
  CHECK(sigaltstack(&stack, nullptr) == 0);
  return nullptr;
}

void* OnOwnStack(void*) {
  Allocate(0);
  return nullptr;
}

}  // namespace

int main() {
  require_gleaner();
  struct sigaction action = {};
  action.sa_handler = Allocate;
  action.sa_flags = SA_ONSTACK;
  CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
  Handle(nullptr);
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, Handle, nullptr) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
  CHECK(g_handled == 2);
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, static_cast<size_t>(PTHREAD_STACK_MIN)) == 0);
  for (int i = 0; i < 10; ++i) {
    CHECK(pthread_create(&thread, &attributes, OnOwnStack, nullptr) == 0);
    CHECK(pthread_join(thread, nullptr) == 0);
  }
  CHECK(g_handled == 12);
}
