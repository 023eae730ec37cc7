#include "platform/unwind/unwind.h"

#include <execinfo.h>
#include <gtest/gtest.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "platform/unwind/call_frame_info.h"

namespace gleaner::platform {
namespace {

using internal::FindUnwindRule;
using internal::UnwindRule;

constexpr size_t kMax = 64;

struct Walks {
  std::vector<Addr> ours;     // with the stack known
  std::vector<Addr> careful;  // with no stack known
  std::vector<Addr> others;   // libgcc's
};

std::vector<Addr> Capture(Range stack) {
  Addr frames[kMax];
  return {frames, frames + CaptureStack(stack, {}, frames, kMax)};
}

GLEANER_NOINLINE Walks WalkAll() {
  const Range stack = CurrentStackBounds();
  Walks walks;
  walks.ours = Capture(stack);
  walks.careful = Capture({});
  void* frames[kMax];
  const int n = backtrace(frames, kMax);
  for (int i = 0; i < n; ++i) walks.others.push_back(AddressOf(frames[i]));
  return walks;
}

// The same calls, but for the innermost ones, which are within different functions. backtrace()
// gives return addresses.
void ExpectSame(const Walks& walks, bool through_signal = false) {
  constexpr size_t kOwnFrames = 3;
  ASSERT_GT(walks.others.size(), kOwnFrames);
  ASSERT_GE(walks.ours.size(), kOwnFrames);
  const auto tail = [](const std::vector<Addr>& all, size_t count) {
    return std::vector<Addr>(all.end() - static_cast<ptrdiff_t>(std::min(count, all.size())),
                             all.end());
  };
  const size_t count = walks.others.size() - kOwnFrames;
  std::vector<Addr> expected = tail(walks.others, count);
  // What a signal interrupted is no return address.
  std::vector<Addr> found = tail(walks.ours, count);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < count; ++i) {
    EXPECT_TRUE(found[i] == expected[i] - 1 || (through_signal && found[i] == expected[i]))
        << "frame " << i << " of " << count;
  }
  EXPECT_EQ(tail(walks.careful, count), found);
}

TEST(Unwind, AgreesWithLibgcc) { ExpectSame(WalkAll()); }

TEST(Unwind, InThread) {
  Walks walks;
  std::thread([&walks] { walks = WalkAll(); }).join();
  ExpectSame(walks);
}

Walks g_walks;

int WalkOnce(const void*, const void*) {
  g_walks = WalkAll();
  return 0;
}

TEST(Unwind, ThroughLibrary) {
  int numbers[] = {1, 2};
  qsort(numbers, 2, sizeof(int), WalkOnce);
  ExpectSame(g_walks);
}

GLEANER_NOINLINE void WalkAligned(size_t bytes) {
  alignas(128) char buffer[256];
  void* more = __builtin_alloca(bytes);
  asm volatile("" : : "r"(buffer), "r"(more) : "memory");
  g_walks = WalkAll();
  asm volatile("" : : "r"(buffer), "r"(more) : "memory");
}

TEST(Unwind, ThroughRealignedFrame) {
  WalkAligned(777);
  ExpectSame(g_walks);
}

void OnSignal(int) { g_walks = WalkAll(); }

void RaiseOn(int flags) {
  static char memory[128 * 1024];
  stack_t stack = {};
  stack.ss_sp = memory;
  stack.ss_size = sizeof memory;
  ASSERT_EQ(sigaltstack(&stack, nullptr), 0);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = flags;
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  ASSERT_EQ(raise(SIGUSR1), 0);
  stack.ss_flags = SS_DISABLE;
  ASSERT_EQ(sigaltstack(&stack, nullptr), 0);
}

TEST(Unwind, ThroughSignal) {
  RaiseOn(0);
  ExpectSame(g_walks, true);
}
TEST(Unwind, ThroughSignalOnAlternateStack) {
  RaiseOn(SA_ONSTACK);
  ExpectSame(g_walks, true);
}

TEST(Unwind, SkipsAndLimits) {
  Addr all[kMax];
  const Range stack = CurrentStackBounds();
  const size_t count = CaptureStack(stack, {}, all, kMax);
  ASSERT_GT(count, 4u);
  Addr some[2];
  EXPECT_EQ(CaptureStack(stack, {}, some, 2), 2u);
  EXPECT_EQ(CaptureStack(stack, {}, some, 0), 0u);
  const Range own = ThisObject();
  ASSERT_TRUE(own.Contains(all[0]));
  Addr rest[kMax];
  const size_t left = CaptureStack(stack, own, rest, kMax);
  ASSERT_LT(left, count);
  EXPECT_TRUE(left == 0 || !own.Contains(rest[0]));
}

GLEANER_NO_SANITIZE void StoreForeignWord(Addr at, Addr word) {
  *PointerAt<volatile Addr>(at) = word;
}

// A stack whose words have been overwritten: the walk ends, whatever they say.
GLEANER_NOINLINE size_t WalkDamaged(uint64_t seed) {
  std::mt19937_64 random(seed);
  const Range stack = CurrentStackBounds();
  std::vector<Addr> saved;
  Addr frames[kMax];
  // Above our own frame; nothing is called meanwhile that would use it.
  const Addr begin = AlignDown(AddressOf(__builtin_frame_address(0)), 16);
  const Addr end = std::min(begin + 1024, stack.end - 64);
  for (Addr at = begin; at < end; at += kWordBytes) saved.push_back(LoadForeignWord(at));
  std::vector<Addr> damaged = saved;
  for (int i = 0; i < 8; ++i) {
    const Addr kinds[] = {random(),
                          stack.begin + random() % stack.bytes(),
                          begin - 8,
                          stack.end,
                          AddressOf(reinterpret_cast<void*>(&qsort)) + random() % 4096,
                          0};
    damaged[random() % damaged.size()] = kinds[random() % 6];
  }
  for (size_t i = 0; i < saved.size(); ++i) StoreForeignWord(begin + i * kWordBytes, damaged[i]);
  const size_t count = CaptureStack(stack, {}, frames, kMax);
  for (size_t i = 0; i < saved.size(); ++i) StoreForeignWord(begin + i * kWordBytes, saved[i]);
  return count;
}

TEST(Unwind, DamagedStackEndsTheWalk) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) ASSERT_LE(WalkDamaged(seed), kMax) << seed;
}

// --- Call frame information ---

// A copy of a loaded object's segment that has its index, between pages without access.
class Copy {
 public:
  explicit Copy(const char* name) {
    struct Found {
      const char* name;
      Range segment;
      Addr index = 0;
      Range code;
    } found{name, {}, 0, {}};
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* data) {
          auto* out = static_cast<Found*>(data);
          if (out->index != 0 || strstr(info->dlpi_name, out->name) == nullptr) return 0;
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME) {
              out->index = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            }
          }
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const auto& header = info->dlpi_phdr[i];
            if (header.p_type != PT_LOAD) continue;
            const Addr begin = info->dlpi_addr + header.p_vaddr;
            const Range range{begin, begin + header.p_filesz};
            if (range.Contains(out->index)) out->segment = range;
            if ((header.p_flags & PF_X) != 0) out->code = range;
          }
          return 0;
        },
        &found);
    original_ = found.segment;
    index_ = found.index;
    code_ = found.code;
    const size_t os_page = 4096;
    pages_ = AlignUp(original_.bytes(), os_page) + 2 * os_page;
    memory_ = AddressOf(
        mmap(nullptr, pages_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    // Its end is the last byte that may be read.
    copy_.end = memory_ + pages_ - os_page;
    copy_.begin = copy_.end - original_.bytes();
    EXPECT_EQ(
        mprotect(PointerAt<void>(memory_ + os_page), pages_ - 2 * os_page, PROT_READ | PROT_WRITE),
        0);
    Restore();
  }
  ~Copy() { munmap(PointerAt<void>(memory_), pages_); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  void Restore() {
    memcpy(PointerAt<void>(copy_.begin), PointerAt<void>(original_.begin), original_.bytes());
  }
  UnwindRule FindInOriginal(Addr pc) const { return FindUnwindRule(original_, index_, pc); }
  // All is relative, so the functions move with the copy.
  UnwindRule Find(Addr pc) const {
    const Addr shift = copy_.begin - original_.begin;
    return FindUnwindRule(copy_, index_ + shift, pc + shift);
  }
  uint8_t& At(size_t offset) { return *PointerAt<uint8_t>(copy_.begin + offset); }
  // Where the index is, and what follows it.
  size_t index_offset() const { return index_ - original_.begin; }
  size_t bytes() const { return original_.bytes(); }
  Range code() const { return code_; }

 private:
  Range original_;
  Addr index_ = 0;
  Range code_;
  Addr memory_ = 0;
  size_t pages_ = 0;
  Range copy_;
};

TEST(UnwindRules, NearlyAllOfTheCLibraryHasOne) {
  const Copy copy("libc.so");
  size_t known = 0;
  size_t all = 0;
  size_t with_base_pointer = 0;
  for (Addr pc = copy.code().begin; pc < copy.code().end; pc += 61) {
    const UnwindRule rule = copy.FindInOriginal(pc);
    EXPECT_EQ(copy.Find(pc).Pack(), rule.Pack());
    EXPECT_EQ(UnwindRule::Unpack(rule.Pack()).Pack(), rule.Pack());
    ++all;
    if (rule.kind == UnwindRule::kNone) continue;
    ++known;
    if (rule.kind == UnwindRule::kOffset && rule.base != 0) ++with_base_pointer;
  }
  ASSERT_GT(all, 10'000u);
  EXPECT_GT(known * 100, all * 95) << known << " of " << all;  // the rest is between functions
  EXPECT_GT(with_base_pointer, 10u);
}

TEST(UnwindRules, DamageIsNoRuleOrAnother) {
  Copy copy("libc.so");
  constexpr uint64_t kSeed = 20260;
  std::mt19937_64 random(kSeed);
  const Range code = copy.code();
  size_t changed = 0;
  for (int round = 0; round < 300; ++round) {
    // All over the information, and more often in the index.
    for (int i = 0; i < 4000; ++i) {
      const size_t from = copy.index_offset();
      const size_t length = i % 4 == 0 ? 4096 : copy.bytes() - from;
      copy.At(from + random() % std::min(length, copy.bytes() - from)) =
          static_cast<uint8_t>(random());
    }
    for (int i = 0; i < 300; ++i) {
      const Addr pc = code.begin + random() % code.bytes();
      if (copy.Find(pc).Pack() != copy.FindInOriginal(pc).Pack()) ++changed;
    }
    if (round % 3 == 2) copy.Restore();
  }
  EXPECT_GT(changed, 100u) << "seed " << kSeed;
}

TEST(UnwindRules, IndexOfAnotherForm) {
  Copy copy("libc.so");
  const Addr pc = copy.code().begin + copy.code().bytes() / 2;
  ASSERT_NE(copy.Find(pc).kind, UnwindRule::kNone);
  for (const size_t i : {0, 2, 3}) {  // version, and how the table is written
    copy.At(copy.index_offset() + i) ^= 0x40;
    EXPECT_EQ(copy.Find(pc).kind, UnwindRule::kNone) << "byte " << i;
    copy.Restore();
  }
  const Range none{};
  EXPECT_EQ(FindUnwindRule(none, 0, pc).kind, UnwindRule::kNone);
}

}  // namespace
}  // namespace gleaner::platform
