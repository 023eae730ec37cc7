#include "tools/heap/heap_graph.h"

#include <algorithm>
#include <bit>

namespace gleaner::tools {

namespace {

constexpr size_t kBits = 64;
// Entries of the table of chunks; beyond that groups are found by search alone.
constexpr uint64_t kMaxChunks = 1 << 24;
constexpr uint64_t kMaxAddress = uint64_t{1} << 57;
constexpr size_t kMaxTypes = 0xffff;

bool IsLive(const uint8_t* live, size_t i) { return (live[i / 8] >> (i % 8) & 1) != 0; }

// Divides by an instruction of 32 bits where that will do: it takes a third of the time.
uint64_t Divide(uint64_t a, uint64_t b) {
  return (a | b) >> 32 == 0 ? static_cast<uint32_t>(a) / static_cast<uint32_t>(b) : a / b;
}

template <class T>
void Release(std::vector<T>* values) {
  std::vector<T>().swap(*values);
}

}  // namespace

void HeapGraph::ReserveReferences(size_t count) {
  count = std::min<size_t>(count, ~uint32_t{0});
  targets_.reserve(count);
  if (keeps_words_) word_steps_.reserve(count);
}

bool HeapGraph::AddObjects(uint64_t begin, uint64_t object_bytes, uint32_t kind,
                           const uint8_t* live, size_t count) {
  if (object_bytes == 0 || begin < end_ || begin > kMaxAddress || object_bytes > kMaxAddress ||
      count > kMaxAddress / object_bytes || size_ + count > kMaxObjects) {
    return false;
  }
  end_ = begin + object_bytes * count;
  for (size_t i = 0; i < count; i += kMaxGroupSlots) {
    // kMaxGroupSlots is a multiple of 8: each group's bits begin with a byte.
    AddGroup(begin + i * object_bytes, object_bytes, kind, live + i / 8,
             std::min(kMaxGroupSlots, count - i));
  }
  return true;
}

void HeapGraph::AddGroup(uint64_t begin, uint64_t object_bytes, uint32_t kind, const uint8_t* live,
                         size_t count) {
  const size_t words = live_.size();
  size_t objects = 0;
  for (size_t i = 0; i < count; i += kBits) {
    uint64_t word = 0;
    for (size_t bit = 0; bit < kBits && i + bit < count; ++bit) {
      if (IsLive(live, i + bit)) word |= uint64_t{1} << bit;
    }
    live_.push_back(word);
    live_before_.push_back(static_cast<uint16_t>(objects));
    objects += static_cast<size_t>(std::popcount(word));
  }
  if (objects == 0) {
    live_.resize(words);
    live_before_.resize(words);
    return;
  }
  groups_.push_back({begin, object_bytes, kind, Count(), static_cast<uint32_t>(words),
                     static_cast<uint32_t>(count)});
  size_ += objects;
  total_bytes_ += objects * object_bytes;
}

void HeapGraph::FinishObjects() {
  first_reference_.reserve(size_ + 1);
  if (groups_.empty()) return;
  const uint64_t first = groups_.front().begin >> kChunkShift;
  const uint64_t chunks = (groups_.back().begin >> kChunkShift) - first + 1;
  if (chunks > kMaxChunks) return;
  groups_at_.reserve(chunks + 1);
  for (uint32_t i = 0; i < groups_.size(); ++i) {
    while (first + groups_at_.size() <= groups_[i].begin >> kChunkShift) groups_at_.push_back(i);
  }
  groups_at_.push_back(static_cast<uint32_t>(groups_.size()));
}

void HeapGraph::SetVtable(ObjectId object, uint64_t address) {
  if (object >= size_) return;
  auto found = type_of_vtable_.find(address);
  if (found == type_of_vtable_.end()) {
    if (vtables_.size() >= kMaxTypes) return;
    found = type_of_vtable_.emplace(address, static_cast<uint16_t>(vtables_.size())).first;
    vtables_.push_back(address);
  }
  if (types_.empty()) types_.resize(size_);
  types_[object] = found->second;
}

bool HeapGraph::AddReference(ObjectId source, uint64_t offset, uint64_t target_address,
                             WordTraits traits) {
  if (source >= size_ || source + size_t{1} < first_reference_.size() ||
      targets_.size() >= ~uint32_t{0}) {
    return false;
  }
  bool is_interior;
  const ObjectId target = Find(target_address, &is_interior);
  if (target == kNoObject) return false;
  if (first_reference_.size() <= source) {
    first_reference_.resize(source + size_t{1}, static_cast<uint32_t>(targets_.size()));
    last_word_ = 0;
  }
  const uint64_t word = offset / kWordBytes;
  if (keeps_words_) {
    const uint64_t step = word - last_word_;  // wraps where it goes back
    if (step >= kLongStep) long_steps_.push_back({static_cast<uint32_t>(targets_.size()), step});
    word_steps_.push_back(static_cast<uint8_t>(std::min<uint64_t>(step, kLongStep)));
  }
  last_word_ = word;
  is_interior = is_interior || traits.is_past_end;
  targets_.push_back(target | (is_interior ? kInterior : 0) |
                     (is_interior && !traits.is_known ? kDoubtful : 0));
  return true;
}

uint32_t HeapGraph::AddRoot(GraphRoot root) {
  roots_.push_back(std::move(root));
  return static_cast<uint32_t>(roots_.size() - 1);
}

bool HeapGraph::AddRootReference(uint32_t root, uint64_t word, uint64_t target_address,
                                 WordTraits traits) {
  bool is_interior;
  const ObjectId target = Find(target_address, &is_interior);
  if (target == kNoObject || root >= roots_.size()) return false;
  is_interior = is_interior || traits.is_past_end;
  root_references_.push_back(
      {root, word, target, is_interior, is_interior && !traits.is_known, traits.is_past_end});
  return true;
}

void HeapGraph::FinishReferences() {
  first_reference_.resize(size_ + 1, static_cast<uint32_t>(targets_.size()));
  type_of_vtable_.clear();
}

const HeapGraph::Group& HeapGraph::GroupOf(ObjectId object) const {
  const auto after =
      std::upper_bound(groups_.begin(), groups_.end(), object,
                       [](ObjectId id, const Group& group) { return id < group.first; });
  return after[-1];
}

const HeapGraph::Group* HeapGraph::GroupBelow(uint64_t address) const {
  if (groups_.empty() || address < groups_.front().begin) return nullptr;
  size_t low = 0;
  size_t high = groups_.size();
  if (!groups_at_.empty()) {
    const uint64_t chunk = (address >> kChunkShift) - (groups_.front().begin >> kChunkShift);
    const uint64_t last = groups_at_.size() - 2;
    low = groups_at_[std::min(chunk, last)];
    high = groups_at_[std::min(chunk, last) + 1];
  }
  const auto after = std::upper_bound(
      groups_.begin() + static_cast<ptrdiff_t>(low), groups_.begin() + static_cast<ptrdiff_t>(high),
      address, [](uint64_t a, const Group& group) { return a < group.begin; });
  return &after[-1];
}

ObjectId HeapGraph::Find(uint64_t address, bool* is_interior) const {
  const Group* group = GroupBelow(address);
  if (group == nullptr) return kNoObject;
  const uint64_t slot = Divide(address - group->begin, group->object_bytes);
  if (slot >= group->slots) return kNoObject;
  const size_t word = group->live_words + slot / kBits;
  const uint64_t bit = uint64_t{1} << slot % kBits;
  if ((live_[word] & bit) == 0) return kNoObject;
  *is_interior = address != group->begin + slot * group->object_bytes;
  return group->first + live_before_[word] +
         static_cast<ObjectId>(std::popcount(live_[word] & (bit - 1)));
}

ObjectId HeapGraph::FindBelow(uint64_t address) const {
  const Group* group = GroupBelow(address);
  if (group == nullptr) return kNoObject;
  const uint64_t slot =
      std::min<uint64_t>(Divide(address - group->begin, group->object_bytes), group->slots - 1);
  const size_t word = group->live_words + slot / kBits;
  const uint64_t below = live_[word] & (~uint64_t{0} >> (kBits - 1 - slot % kBits));
  const auto objects = static_cast<ObjectId>(live_before_[word] + std::popcount(below));
  // Without one in this group: the last object of the group before, which has one.
  return group->first + objects == 0 ? kNoObject : group->first + objects - 1;
}

uint64_t HeapGraph::AddressOf(ObjectId object) const {
  const Group& group = GroupOf(object);
  const ObjectId number = object - group.first;
  const auto begin = live_before_.begin() + group.live_words;
  const auto end = begin + static_cast<ptrdiff_t>((group.slots + kBits - 1) / kBits);
  const auto in = std::upper_bound(begin, end, number) - 1;
  uint64_t word = live_[static_cast<size_t>(in - live_before_.begin())];
  for (ObjectId skip = number - *in; skip > 0; --skip) word &= word - 1;
  const auto slot =
      static_cast<uint64_t>(in - begin) * kBits + static_cast<uint64_t>(std::countr_zero(word));
  return group.begin + slot * group.object_bytes;
}

uint64_t HeapGraph::LongStep(uint32_t reference) const {
  const auto found =
      std::lower_bound(long_steps_.begin(), long_steps_.end(), reference,
                       [](const Long& step, uint32_t number) { return step.reference < number; });
  return found->words;
}

void HeapGraph::ReleaseReferences() {
  Release(&first_reference_);
  Release(&targets_);
  Release(&word_steps_);
  Release(&long_steps_);
}

}  // namespace gleaner::tools
