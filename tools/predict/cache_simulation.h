// Which level of a machine's memory hierarchy serves each access of a serial marking.
//
// Caches are set-associative, the least recently used line of a set leaves, and a line is put into
// every level on its way. A line next to the one that was read last in the same OS page is expected
// to be fetched ahead by the processor.
//
// Memory is accessed in steps of 64 bytes. Of kSampled lines in a row, by the longest line of the
// machine, one is looked up, and one of so many pages: in caches that have as small a part of the
// sets (or, where there are few, of the ways), with the lines in between left out. What the others
// take is the mean of those that were looked up, for the same kind of access. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/predict/machine.h"

namespace gleaner::tools {

class CacheSimulation {
 public:
  // How an access is made: AccessTimes says what each costs.
  enum class Access : uint8_t { kDependent, kAhead, kBatch, kStream, kFurther };
  static constexpr uint64_t kSampled = 8;
  static constexpr uint64_t kStepBytes = 64;

  // `objects_translated`: whether what is no table may miss a translation.
  explicit CacheSimulation(const Machine& machine, bool objects_translated = true);

  // Beyond an access that the first level serves, in picoseconds. An access of a stream counts as
  // one whatever `access` says.
  uint64_t Touch(uint64_t address, Access access) {
    last_access_ = IsNext(address / kStepBytes) ? Access::kStream : access;
    return Look(address, last_access_, objects_translated_);
  }
  // The next line, which was asked for with the one that was touched last.
  uint64_t TouchAlong(uint64_t address) {
    (void)IsNext(address / kStepBytes);
    return Look(address, last_access_, objects_translated_);
  }
  // One of the next lines, which nothing has asked for.
  uint64_t TouchFurther(uint64_t address) {
    (void)IsNext(address / kStepBytes);
    const bool in_order = last_access_ == Access::kStream;
    return Look(address, in_order ? Access::kStream : Access::kFurther, objects_translated_);
  }
  // Of a table that is read at random.
  uint64_t TouchTable(uint64_t address, Access access) { return Look(address, access, true); }

  // The program has used the line before the marking: the last cache has it.
  void Warm(uint64_t address);
  // Whether the line is looked up.
  bool IsSampled(uint64_t address) const { return IsSampledUnit(address >> sample_shift_); }
  uint64_t last_cache_bytes() const { return last_cache_bytes_; }

  uint64_t accesses() const { return accesses_; }
  // How many of them each level serves, as far as one can tell; the last one is memory.
  std::vector<double> Served() const;
  double tlb_misses() const { return static_cast<double>(tlb_misses_) * kSampled; }
  // Lines in the processor's own caches that are used again before they leave them, the mean over
  // all instants; how much longer the next use of such a line takes on another processor; and the
  // part of all accesses that are such uses.
  double live_lines() const { return PerAccess(live_accesses_); }
  double live_line_ps() const { return live_accesses_ == 0 ? 0 : live_ps_ / live_accesses_; }
  double live_share() const {
    return sampled_ == 0 ? 0 : static_cast<double>(live_uses_) / static_cast<double>(sampled_);
  }

 private:
  struct Line {
    uint64_t tag;   // ~0: none
    uint64_t used;  // number of the access
  };
  struct Level {
    unsigned shift;
    uint64_t sets;
    uint64_t set_mask;  // sets - 1 if they are a power of two above 1; else 0
    uint32_t ways;
    AccessTimes times;
    uint64_t elsewhere_ps;  // what an access takes longer on a processor whose own caches are cold
    std::vector<Line> lines;  // of a set together, the most recently used first
  };
  double PerAccess(double sum) const {
    // One line of kSampled is looked up.
    return accesses_ == 0 ? 0 : sum * kSampled / static_cast<double>(accesses_);
  }
  static Level MakeLevel(uint64_t bytes, uint64_t line_bytes, uint32_t ways,
                         const AccessTimes& times);
  // Whether the level has the line, which it has from now on. *used: when it was last used.
  static bool Find(Level* level, uint64_t address, uint64_t now, uint64_t* used);

  // Of kSampled units in a row one is, in turn another one: objects may be as long as these units.
  static bool IsSampledUnit(uint64_t unit) {
    return (unit ^ unit >> 3 ^ unit >> 6 ^ unit >> 9) % kSampled == 0;
  }
  // The address with the units of 2^shift bytes that are not looked up left out.
  static uint64_t Packed(uint64_t address, unsigned shift) {
    const uint64_t unit = uint64_t{1} << shift;
    return address / (unit * kSampled) * unit + address % unit;
  }
  // Whether a step beside this one has been read of late, in the same OS page, and this one not.
  bool IsNext(uint64_t line) {
    const uint64_t page = line >> kLinesPerPageShift;
    RecentPage& recent = recent_pages_[page % kPages];
    if (recent.page != page) recent = {page, 0};
    const uint64_t bit = uint64_t{1} << (line % (1 << kLinesPerPageShift));
    const bool is_next = (recent.lines & bit) == 0 && (recent.lines & (bit << 1 | bit >> 1)) != 0;
    recent.lines |= bit;
    return is_next;
  }
  uint64_t Look(uint64_t address, Access access, bool is_translated) {
    ++accesses_;
    const Mean& mean = means_[static_cast<int>(access)];
    const bool is_sampled = IsSampled(address);
    const bool is_page_sampled = IsSampledUnit(address >> page_shift_);
    const uint64_t line_ps = is_sampled ? LookUp(address, access) : mean.line_ps;
    if (!is_translated) return line_ps;
    return line_ps + (is_page_sampled ? Translate(address, access) : mean.page_ps);
  }
  uint64_t LookUp(uint64_t address, Access access);
  uint64_t Translate(uint64_t address, Access access);

  const bool objects_translated_;
  const uint64_t last_cache_bytes_;
  std::vector<Level> levels_;
  Level tlb_;
  unsigned sample_shift_;  // of the longest line
  unsigned page_shift_;
  AccessTimes memory_;
  double further_ns_;  // of memory_
  AccessTimes tlb_miss_;
  std::vector<uint64_t> served_;  // of the lines that are looked up
  uint64_t sampled_ = 0;
  // Of each kind of access: what those that were looked up took, in all and in the mean.
  struct Mean {
    uint64_t lines = 0, lines_ps = 0, line_ps = 0;
    uint64_t pages = 0, pages_ps = 0, page_ps = 0;
  };
  Mean means_[5];
  // The lines that were read in each of the OS pages that were read last, by the page's number.
  struct RecentPage {
    uint64_t page = ~uint64_t{0};
    uint64_t lines = 0;
  };
  static constexpr size_t kPages = 1024;
  static constexpr unsigned kLinesPerPageShift = 6;
  RecentPage recent_pages_[kPages];
  Access last_access_ = Access::kStream;
  uint64_t tlb_misses_ = 0;
  uint64_t accesses_ = 0;
  // Sums over the hits, of the accesses since the line's last use; once as a number, and once times
  // what the access takes longer elsewhere.
  double live_accesses_ = 0;
  double live_ps_ = 0;
  uint64_t live_uses_ = 0;
};

}  // namespace gleaner::tools
