#include <dlfcn.h>
#include <link.h>
#include <ucontext.h>

#include <cstring>

#include "platform/os/memory.h"
#include "platform/unwind/call_frame_info.h"
#include "platform/unwind/stack_reader.h"
#include "platform/unwind/unwind.h"

namespace gleaner::platform {

using internal::UnwindRule;

namespace {

// The readable segment of a loaded object that contains `address`; empty if unknown. The object's
// headers are at the beginning of its mapping.
Range SegmentOf(Addr object, Addr object_end, Addr address) {
  const auto* elf = PointerAt<const ElfW(Ehdr)>(object);
  if (object_end - object < OsPageBytes() || memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
      elf->e_phentsize != sizeof(ElfW(Phdr)) ||
      elf->e_phoff + size_t{elf->e_phnum} * sizeof(ElfW(Phdr)) > OsPageBytes()) {
    return {};
  }
  const auto* headers = PointerAt<const ElfW(Phdr)>(object + elf->e_phoff);
  Addr bias = 0;
  bool has_bias = false;
  for (int i = 0; i < elf->e_phnum; ++i) {
    const ElfW(Phdr)& header = headers[i];
    if (header.p_type != PT_LOAD) continue;
    if (!has_bias) bias = object - AlignDown(header.p_vaddr, OsPageBytes());
    has_bias = true;
    const Range segment{bias + header.p_vaddr, bias + header.p_vaddr + header.p_filesz};
    if ((header.p_flags & PF_R) != 0 && segment.Contains(address) && segment.end <= object_end) {
      return segment;
    }
  }
  return {};
}

}  // namespace

// Null with glibc before 2.35.
extern "C" int _dl_find_object(void* pc, struct dl_find_object* result) __attribute__((weak));

namespace {

UnwindRule LookUp(Addr pc) {
  dl_find_object object;
  if (_dl_find_object == nullptr || _dl_find_object(PointerAt<void>(pc), &object) != 0 ||
      object.dlfo_eh_frame == nullptr) {
    return {};
  }
  const Addr index = AddressOf(object.dlfo_eh_frame);
  const Range segment =
      SegmentOf(AddressOf(object.dlfo_map_start), AddressOf(object.dlfo_map_end), index);
  return segment.begin == 0 ? UnwindRule{} : internal::FindUnwindRule(segment, index, pc);
}

// The rule of one address. Any thread writes the two words one after the other. An entry is valid
// for `pc` only if check ^ rule == pc, so a half-written entry is not valid, and relaxed accesses
// suffice.
struct CacheEntry {
  Atomic<uint64_t> check;
  Atomic<uint64_t> rule;
};
constexpr size_t kCacheBits = 14;
constexpr size_t kCacheBytes = sizeof(CacheEntry) << kCacheBits;
// Constant after InitUnwinder; null: there is no cache.
constinit CacheEntry* g_cache = nullptr;

CacheEntry& EntryFor(Addr pc) { return g_cache[pc * 0x9e3779b97f4a7c15u >> (64 - kCacheBits)]; }

GLEANER_NOINLINE uint64_t LookUpAndKeep(Addr pc) {
  const uint64_t rule = LookUp(pc).Pack();
  if (g_cache == nullptr) return rule;
  CacheEntry& entry = EntryFor(pc);
  // Relaxed, both: check validates the entry.
  entry.rule.Store(rule, memory_order_relaxed);
  entry.check.Store(pc ^ rule, memory_order_relaxed);
  return rule;
}

GLEANER_ALWAYS_INLINE uint64_t RuleFor(Addr pc) {
  if (GLEANER_UNLIKELY(g_cache == nullptr)) return LookUpAndKeep(pc);
  const CacheEntry& entry = EntryFor(pc);
  // Relaxed, both: check validates the entry.
  uint64_t rule = entry.rule.Load(memory_order_relaxed);
  if (GLEANER_UNLIKELY((entry.check.Load(memory_order_relaxed) ^ rule) != pc)) {
    rule = LookUpAndKeep(pc);
  }
  return rule;
}

// The values that a frame's rule uses: the stack pointer, then the registers that calls preserve.
struct Registers {
  Addr pc;
  Addr of[1 + UnwindRule::kSavedCount];
  Addr& stack_pointer() { return of[0]; }
};

// Replaces the registers of the kernel's frame for a signal handler by those of the interrupted
// frame. pre: the stack pointer in `registers` points to the context.
bool RestoreContext(StackReader* reader, Registers* registers) {
  const Addr context = registers->stack_pointer();
  const auto load = [&](int number, Addr* out) {
    return reader->Read(context + offsetof(ucontext_t, uc_mcontext.gregs) +
                            static_cast<size_t>(number) * sizeof(greg_t),
                        out);
  };
  static constexpr int kNumbers[] = {REG_RSP, REG_RBX, REG_RBP, REG_R12, REG_R13, REG_R14, REG_R15};
  for (size_t i = 0; i < 1 + UnwindRule::kSavedCount; ++i) {
    if (!load(kNumbers[i], &registers->of[i])) return false;
  }
  return load(REG_RIP, &registers->pc);
}

// Replaces the registers of a frame by those of its caller's frame; false if that is not found.
bool StepOut(const UnwindRule& rule, StackReader* reader, Registers* registers) {
  if (rule.kind != UnwindRule::kOffset && rule.kind != UnwindRule::kDeref) return false;
  const Addr base = registers->of[rule.base];
  Addr cfa = base + static_cast<Addr>(int64_t{rule.offset});
  Addr saved_from = cfa;
  if (rule.kind == UnwindRule::kDeref) {
    if (!reader->Read(cfa, &cfa)) return false;
    saved_from = base + 2 * kWordBytes;
  }
  if (cfa <= registers->stack_pointer()) return false;
  for (size_t i = 0; i < UnwindRule::kSavedCount; ++i) {
    const uint8_t words = rule.saved[i];
    if (words == 0) continue;
    if (words == UnwindRule::kLost) {
      registers->of[1 + i] = 0;
    } else if (!reader->Read(saved_from - words * kWordBytes, &registers->of[1 + i])) {
      return false;
    }
  }
  if (!reader->Read(cfa - kWordBytes, &registers->pc)) return false;
  registers->stack_pointer() = cfa;
  return true;
}

// StepOut for nearly all frames, without unpacking the rule: kOffset, all saved registers inside
// the frame, and the frame in the known part of the stack. In other cases false, and nothing is
// changed.
GLEANER_ALWAYS_INLINE bool TryStepOutFast(uint64_t rule, Range known, Registers* registers) {
  if ((rule & 7) != UnwindRule::kOffset) return false;
  const Addr stack_pointer = registers->stack_pointer();
  const Addr cfa = registers->of[rule >> 3 & 7] + (static_cast<int64_t>(rule << 36) >> 42) * 8;
  const size_t frame = cfa - stack_pointer;
  if (frame - 1 >= known.end - stack_pointer || !known.Contains(stack_pointer) || cfa % 8 != 0) {
    return false;
  }
  uint64_t saved = rule >> 28;
  for (uint64_t rest = saved; rest != 0;) {
    const unsigned shift = static_cast<unsigned>(__builtin_ctzll(rest)) / 6 * 6;
    const size_t words = rest >> shift & 63;
    if (words == UnwindRule::kLost || words * kWordBytes > frame) return false;
    rest &= ~(uint64_t{63} << shift);
  }
  while (saved != 0) {
    const unsigned i = static_cast<unsigned>(__builtin_ctzll(saved)) / 6;
    const size_t words = saved >> (6 * i) & 63;
    registers->of[1 + i] = LoadForeignWord(cfa - words * kWordBytes);
    saved &= ~(uint64_t{63} << (6 * i));
  }
  registers->pc = LoadForeignWord(cfa - kWordBytes);
  registers->stack_pointer() = cfa;
  return true;
}

// The addresses of this library. Any thread writes them, always with the same values.
struct OwnObject {
  Atomic<Addr> begin;
  Atomic<Addr> end;
};
constinit OwnObject g_own = {};

}  // namespace

Range ThisObject() {
  Range own{g_own.begin.Load(memory_order_relaxed), g_own.end.Load(memory_order_relaxed)};
  if (own.begin != 0 && own.end != 0) return own;
  dl_find_object object;
  if (_dl_find_object == nullptr ||
      _dl_find_object(reinterpret_cast<void*>(&ThisObject), &object) != 0) {
    return {};
  }
  own = {AddressOf(object.dlfo_map_start), AddressOf(object.dlfo_map_end)};
  // Relaxed: a thread that sees only one of the values looks both up again.
  g_own.begin.Store(own.begin, memory_order_relaxed);
  g_own.end.Store(own.end, memory_order_relaxed);
  return own;
}

size_t CaptureStack(Range stack, Range skip, Addr* out, size_t max) {
  Registers registers;
  // All registers at one instruction, so that the rule of that instruction applies to them.
  asm volatile(
      "leaq 0f(%%rip), %%rax\n"
      "0:\n\t"
      "movq %%rax, 0(%0)\n\t"
      "movq %%rsp, 8(%0)\n\t"
      "movq %%rbx, 16(%0)\n\t"
      "movq %%rbp, 24(%0)\n\t"
      "movq %%r12, 32(%0)\n\t"
      "movq %%r13, 40(%0)\n\t"
      "movq %%r14, 48(%0)\n\t"
      "movq %%r15, 56(%0)\n\t"
      :
      : "r"(&registers)
      : "rax", "memory");
  static_assert(offsetof(Registers, of) == 8);
  StackReader reader(stack);
  reader.StartAt(registers.stack_pointer());
  size_t count = 0;
  Addr pc = registers.pc;
  bool inside = true;
  // The limit of steps is for frames to be skipped, which are few.
  for (int steps = 0; steps < 64 || !inside; ++steps) {
    inside = inside && skip.Contains(pc);
    if (!inside) {
      if (count == max) break;
      out[count++] = pc;
    }
    const uint64_t packed = RuleFor(pc);
    if (GLEANER_UNLIKELY(!TryStepOutFast(packed, reader.direct(), &registers))) {
      const UnwindRule rule = UnwindRule::Unpack(packed);
      if (rule.kind == UnwindRule::kSignal) {
        if (!RestoreContext(&reader, &registers)) break;
        reader.StartAt(registers.stack_pointer());
        pc = registers.pc;
        continue;
      }
      if (!StepOut(rule, &reader, &registers)) break;
    }
    if (registers.pc == 0) break;
    pc = registers.pc - 1;
  }
  return count;
}

void InitUnwinder() {
  void* memory = Reserve(kCacheBytes, OsPageBytes());
  if (memory != nullptr && Commit(memory, kCacheBytes)) g_cache = static_cast<CacheEntry*>(memory);
}

void ForgetUnwindRules() {
  if (g_cache == nullptr) return;
  for (size_t i = 0; i < size_t{1} << kCacheBits; ++i) {
    // Relaxed, both: a half-written entry is not valid.
    g_cache[i].check.Store(0, memory_order_relaxed);
    g_cache[i].rule.Store(0, memory_order_relaxed);
  }
}

}  // namespace gleaner::platform
