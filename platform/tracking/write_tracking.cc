#include "platform/tracking/write_tracking.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>

#include "platform/faults/delays.h"
#include "platform/os/clock.h"
#include "platform/os/filters.h"
#include "platform/os/memory.h"
#include "platform/threads/stop_world.h"

namespace gleaner::platform {

namespace {

// Indexed by TrackingKind.
constexpr TrackingTraits kTraits[kTrackingKinds] = {
    {"none", kTrackedPageBytes, true, true, true, false, false, kTrackedPageBytes},
    {"userfaultfd", kTrackedPageBytes, true, true, true, false, true, kTrackedPageBytes},
    {"soft-dirty", kTrackedPageBytes, true, true, false, true, false, kTrackedPageBytes},
    {"mprotect", kTrackedPageBytes, false, true, false, false, false, kRegionBytes},
    {"cards", kCardBytes, false, false, false, false, false, kCardBytes},
};

// The memory that Works tries a mechanism on.
constexpr size_t kProbeBytes = 4 * kRegionBytes;
constexpr size_t kProbePage = kRegionBytes + 3 * kTrackedPageBytes;

void ForgetIfWithin(void* context, Addr begin, Addr end) {
  const Addr page = *static_cast<Addr*>(context);
  if (page >= begin && page < end) *static_cast<Addr*>(context) = 0;
}

// Whether a fetch of the probe memory reports the page.
bool Reports(WriteTracking& tracking, Addr base, Addr page) {
  Addr sought = page;
  tracking.FetchAndRearm(base, base + kProbeBytes, ForgetIfWithin, &sought);
  tracking.FinishRound();
  return sought == 0;
}

// Makes the kernel write a byte to `p`, as a system call of the program does.
bool WriteBySystemCall(void* p) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return false;
  const bool ok = write(pipe_ends[1], "x", 1) == 1 && read(pipe_ends[0], p, 1) == 1;
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  return ok;
}

// Restores the calling thread's signal mask at its end.
class KeptSignalMask {
 public:
  KeptSignalMask() { RealSigmask(SIG_SETMASK, nullptr, &mask_); }
  ~KeptSignalMask() { RestoreSigmask(&mask_); }
  KeptSignalMask(const KeptSignalMask&) = delete;
  KeptSignalMask& operator=(const KeptSignalMask&) = delete;

 private:
  sigset_t mask_;
};

// Delays around a system call, which is a step of the protocol, too.
struct DelayedCall {
  DelayedCall() { MaybeDelay(); }
  ~DelayedCall() { MaybeDelay(); }
};

// Tries the mechanism. Returns the first thing that does not work.
Refusal TryWrites(WriteTracking& tracking, Addr base) {
  auto* page = PointerAt<volatile char>(base + kProbePage);
  *page = 1;  // this page exists; the others are untouched
  if (!tracking.Arm(base, base + kProbeBytes) || !tracking.FinishRound()) {
    return tracking.refusal();
  }
  if (Reports(tracking, base, AddressOf(page)))
    return {"a page that was not written is reported", 0};
  *page = 2;
  tracking.MarkDirty(AddressOf(page));
  if (!Reports(tracking, base, AddressOf(page))) return {"a write is not reported", 0};
  if (Reports(tracking, base, AddressOf(page))) return {"a write is reported twice", 0};
  if (!tracking.traits().sees_system_calls) return {nullptr, 0};
  if (!WriteBySystemCall(PointerAt<void>(AddressOf(page)))) return {"a pipe is refused", errno};
  if (!Reports(tracking, base, AddressOf(page))) {
    return {"what a system call writes is not reported", 0};
  }
  return {nullptr, 0};
}

// A few measurements, sorted.
class Sample {
 public:
  void Add(uint64_t ns) {
    size_t at = count_++;
    for (; at > 0 && ns_[at - 1] > ns; --at) ns_[at] = ns_[at - 1];
    ns_[at] = ns;
  }
  bool IsFull() const { return count_ == std::size(ns_); }
  uint32_t Median() const { return count_ == 0 ? 0 : static_cast<uint32_t>(ns_[count_ / 2]); }

 private:
  uint64_t ns_[32];
  size_t count_ = 0;
};

// Medians, since the thread may lose its processor in a step. One write to each region of 64 KiB a
// round, so that each one opens memory under mprotect, too. The clock's own time, some 30 ns, is
// part of each.
TrackingCosts Measure(WriteTracking& tracking, Addr base) {
  if (!tracking.traits().sees_plain_stores) return {};
  constexpr uint64_t kMaxNs = 300'000;
  constexpr size_t kRegions = kProbeBytes / kRegionBytes;
  Sample writes;
  Sample arms;
  const auto place = [base](size_t region) {
    return PointerAt<volatile char>(base + region * kRegionBytes + kTrackedPageBytes);
  };
  for (size_t region = 0; region < kRegions; ++region) *place(region) = 1;  // the pages exist
  const uint64_t begin = NowNs();
  uint64_t now = begin;
  while (!writes.IsFull() && now - begin <= kMaxNs) {
    if (!tracking.Arm(base, base + kProbeBytes) || !tracking.FinishRound()) break;
    arms.Add(NowNs() - now);
    for (size_t region = 0; region < kRegions && now - begin <= kMaxNs; ++region) {
      const uint64_t before = NowNs();
      *place(region) = 2;
      now = NowNs();
      writes.Add(now - before);
    }
  }
  return {writes.Median(), arms.Median()};
}

}  // namespace

constinit const Refusal kFilterRefusal = {"a filter of system calls is in force", 0};

const TrackingTraits& TraitsOf(TrackingKind kind) { return kTraits[static_cast<size_t>(kind)]; }

bool WriteTracking::Works(TrackingKind kind, Refusal* why, TrackingCosts* costs) {
  if (costs != nullptr) *costs = {};
  if (kind == TrackingKind::kNone) return true;
  Refusal found = {"no memory to try it on", ENOMEM};
  void* memory = Reserve(kProbeBytes, kRegionBytes);
  if (memory != nullptr) {
    WriteTracking tracking;
    TrackingConfig config;
    config.base = AddressOf(memory);
    config.bytes = kProbeBytes;
    const KeptSignalMask mask;  // Open changes it
    if (Commit(memory, kProbeBytes)) {
      if (!tracking.Open(kind, config)) {
        found = tracking.refusal();
      } else if (tracking.CoverUpTo(config.base + kProbeBytes)) {
        found = TryWrites(tracking, config.base);
        if (found.what == nullptr && costs != nullptr) *costs = Measure(tracking, config.base);
      }
    }
    tracking.Close();
    Release(memory, kProbeBytes);
  }
  if (why != nullptr) *why = found;
  return found.what == nullptr;
}

TrackingKind WriteTracking::BestKind() {
  for (const TrackingKind kind : kBestFirst) {
    if (Works(kind)) return kind;
  }
  return TrackingKind::kNone;
}

bool WriteTracking::Open(TrackingKind kind, const TrackingConfig& config) {
  if (IsBarred()) return false;
  refusal_ = {"no address space for its table", ENOMEM};
  switch (kind) {
    case TrackingKind::kNone:
      open_ = true;
      break;
    case TrackingKind::kUserfaultfd:
      open_ = userfaultfd_.Open(config.base, config.bytes);
      refusal_ = userfaultfd_.refusal();
      break;
    case TrackingKind::kSoftDirty:
      open_ = soft_dirty_.Open();
      refusal_ = {"/proc/self/pagemap cannot be read", errno};
      break;
    case TrackingKind::kProtection:
      open_ = protection_.Open(config.base, config.bytes, config.executable, config.max_mappings,
                               &refusal_);
      break;
    case TrackingKind::kCards:
      open_ = cards_.Open(config.base, config.bytes);
      break;
  }
  if (open_) kind_ = kind;
  return open_;
}

void WriteTracking::Close() {
  switch (kind_) {
    case TrackingKind::kNone:
      break;
    case TrackingKind::kUserfaultfd:
      userfaultfd_.Close();
      break;
    case TrackingKind::kSoftDirty:
      soft_dirty_.Close();
      break;
    case TrackingKind::kProtection:
      protection_.Close();
      break;
    case TrackingKind::kCards:
      cards_.Close();
      break;
  }
  kind_ = TrackingKind::kNone;
  open_ = false;
}

TrackingCounts WriteTracking::counts() const {
  return {protection_.faults(), protection_.refusals(), userfaultfd_.registrations()};
}

bool WriteTracking::IsBarred() const { return respects_filters_ && HasFilter(); }

Refusal WriteTracking::refusal() const {
  if (IsBarred()) return kFilterRefusal;
  return kind_ == TrackingKind::kUserfaultfd ? userfaultfd_.refusal() : refusal_;
}

bool WriteTracking::CoverUpTo(Addr end) {
  if (kind_ == TrackingKind::kProtection) return protection_.CoverUpTo(end);
  return true;
}

bool WriteTracking::Arm(Addr begin, Addr end) {
  const DelayedCall delayed;
  if (IsBarred()) return false;
  switch (kind_) {
    case TrackingKind::kNone:
      return false;
    case TrackingKind::kUserfaultfd:
      return userfaultfd_.Arm(begin, end);
    case TrackingKind::kSoftDirty:
      return true;  // FinishRound arms
    case TrackingKind::kProtection:
      if (protection_.Arm(begin, end)) return true;
      refusal_ = {"the system call is refused", errno};
      return false;
    case TrackingKind::kCards:
      cards_.FetchAndRearm(
          begin, end, [](void*, Addr, Addr) {}, nullptr);
      return true;
  }
  return false;
}

size_t WriteTracking::FetchAndRearm(Addr begin, Addr end, VisitDirty visit, void* context) {
  const DelayedCall delayed;
  if (IsBarred()) {
    visit(context, begin, end);
    return end - begin;
  }
  switch (kind_) {
    case TrackingKind::kNone:
      visit(context, begin, end);
      return end - begin;
    case TrackingKind::kUserfaultfd:
      return userfaultfd_.Fetch(begin, end, true, visit, context);
    case TrackingKind::kSoftDirty:
      return soft_dirty_.Fetch(begin, end, visit, context);
    case TrackingKind::kProtection:
      return protection_.FetchAndRearm(begin, end, visit, context);
    case TrackingKind::kCards:
      return cards_.FetchAndRearm(begin, end, visit, context);
  }
  return 0;
}

size_t WriteTracking::FetchLast(Addr begin, Addr end, VisitDirty visit, void* context) {
  if (kind_ == TrackingKind::kUserfaultfd && !IsBarred()) {
    const DelayedCall delayed;
    return userfaultfd_.Fetch(begin, end, false, visit, context);
  }
  return FetchAndRearm(begin, end, visit, context);
}

bool WriteTracking::FinishRound() {
  const DelayedCall delayed;
  if (IsBarred()) return false;
  if (kind_ != TrackingKind::kSoftDirty || soft_dirty_.ClearAll()) return true;
  refusal_ = {"/proc/self/clear_refs cannot be written", errno};
  return false;
}

void WriteTracking::Disarm(Addr begin, Addr end) {
  const DelayedCall delayed;
  if (IsBarred()) return;
  if (kind_ == TrackingKind::kUserfaultfd) userfaultfd_.Disarm(begin, end);
  if (kind_ == TrackingKind::kProtection) protection_.Disarm(begin, end);
}

void WriteTracking::ResetInChild() {
  if (kind_ == TrackingKind::kUserfaultfd) userfaultfd_.ResetInChild(!IsBarred());
  // Without it all pages count as dirty.
  if (kind_ == TrackingKind::kSoftDirty && !IsBarred()) soft_dirty_.ResetInChild();
  if (kind_ == TrackingKind::kProtection) protection_.ResetInChild();
}

}  // namespace gleaner::platform
