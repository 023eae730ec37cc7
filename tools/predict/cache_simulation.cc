#include "tools/predict/cache_simulation.h"

#include <algorithm>
#include <bit>

namespace gleaner::tools {

namespace {

constexpr uint64_t kNoTag = ~uint64_t{0};
constexpr uint32_t kTlbWays = 8;

// Nothing but memory makes a difference to further lines.
uint64_t Picoseconds(const AccessTimes& times, CacheSimulation::Access access) {
  const double ns[] = {times.dependent_ns, times.ahead_ns, times.batch_ns, times.stream_ns,
                       times.stream_ns};
  return static_cast<uint64_t>(ns[static_cast<int>(access)] * 1000);
}

}  // namespace

CacheSimulation::Level CacheSimulation::MakeLevel(uint64_t bytes, uint64_t line_bytes,
                                                  uint32_t ways, const AccessTimes& times) {
  const uint64_t lines = std::max<uint64_t>(1, bytes / line_bytes / kSampled);
  const uint64_t sets = std::max<uint64_t>(1, bytes / line_bytes / ways / kSampled);
  ways = static_cast<uint32_t>(std::max<uint64_t>(1, lines / sets));
  return {static_cast<unsigned>(std::bit_width(line_bytes) - 1),
          sets,
          std::has_single_bit(sets) ? sets - 1 : 0,
          ways,
          times,
          0,
          std::vector<Line>(sets * ways, {kNoTag, 0})};
}

CacheSimulation::CacheSimulation(const Machine& machine, bool objects_translated)
    : objects_translated_(objects_translated),
      last_cache_bytes_(machine.caches.back().bytes),
      memory_(machine.memory),
      further_ns_(std::max(machine.further_ns, machine.memory.stream_ns)),
      tlb_miss_(machine.tlb_miss),
      served_(machine.caches.size() + 1) {
  for (const CacheLevel& cache : machine.caches) {
    levels_.push_back(MakeLevel(cache.bytes, cache.line_bytes, cache.ways, cache.times));
  }
  // A line of the processor's own caches comes from the nearest cache that others share, or from
  // memory.
  uint64_t from_ps = Picoseconds(memory_, Access::kAhead);
  for (size_t i = levels_.size(); i-- > 0;) {
    const uint64_t own_ps = Picoseconds(levels_[i].times, Access::kAhead);
    if (machine.caches[i].is_shared) from_ps = own_ps;
    levels_[i].elsewhere_ps = from_ps > own_ps ? from_ps - own_ps : 0;
  }
  sample_shift_ = static_cast<unsigned>(std::bit_width(kStepBytes) - 1);
  for (const Level& level : levels_) sample_shift_ = std::max(sample_shift_, level.shift);
  tlb_ = MakeLevel(machine.tlb_entries * machine.tlb_page_bytes, machine.tlb_page_bytes,
                   static_cast<uint32_t>(std::min<uint64_t>(kTlbWays, machine.tlb_entries)), {});
  page_shift_ = tlb_.shift;
}

bool CacheSimulation::Find(Level* level, uint64_t address, uint64_t now, uint64_t* used) {
  const uint64_t tag = address >> level->shift;
  const uint64_t set_number =
      level->set_mask != 0 ? tag & level->set_mask : tag % level->sets;  // most have 2^n sets
  Line* const set = level->lines.data() + set_number * level->ways;
  uint32_t way = 0;
  while (way + 1 < level->ways && set[way].tag != tag) ++way;
  const bool found = set[way].tag == tag;
  *used = set[way].used;
  std::copy_backward(set, set + way, set + way + 1);
  set[0] = {tag, now};
  return found;
}

void CacheSimulation::Warm(uint64_t address) {
  if (!IsSampled(address)) return;
  uint64_t used;
  (void)Find(&levels_.back(), Packed(address, sample_shift_), 0, &used);
}

uint64_t CacheSimulation::Translate(uint64_t address, Access access) {
  uint64_t used;
  uint64_t ps = 0;
  if (!Find(&tlb_, Packed(address, page_shift_), accesses_, &used)) {
    ++tlb_misses_;
    ps = Picoseconds(tlb_miss_, access);
  }
  Mean& mean = means_[static_cast<int>(access)];
  mean.pages_ps += ps;
  mean.page_ps = mean.pages_ps / ++mean.pages;
  return ps;
}

uint64_t CacheSimulation::LookUp(uint64_t address, Access access) {
  uint64_t used;
  uint64_t ps = access == Access::kFurther ? static_cast<uint64_t>(further_ns_ * 1000)
                                           : Picoseconds(memory_, access);
  size_t i = 0;
  const uint64_t packed = Packed(address, sample_shift_);
  while (i < levels_.size() && !Find(&levels_[i], packed, accesses_, &used)) ++i;
  ++served_[i];
  ++sampled_;
  if (i < levels_.size()) {
    ps = Picoseconds(levels_[i].times, access);
    const auto idle = static_cast<double>(accesses_ - used);
    if (levels_[i].elsewhere_ps != 0) {
      live_accesses_ += idle;
      live_ps_ += idle * static_cast<double>(levels_[i].elsewhere_ps);
      ++live_uses_;
    }
  }
  Mean& mean = means_[static_cast<int>(access)];
  mean.lines_ps += ps;
  mean.line_ps = mean.lines_ps / ++mean.lines;
  return ps;
}

std::vector<double> CacheSimulation::Served() const {
  std::vector<double> all;
  const double factor =
      sampled_ == 0 ? 0 : static_cast<double>(accesses_) / static_cast<double>(sampled_);
  for (const uint64_t served : served_) all.push_back(static_cast<double>(served) * factor);
  return all;
}

}  // namespace gleaner::tools
