// The objects of a heap snapshot, what refers to what, and the roots, compactly in memory.
//
// Call order: Reserve if the counts are known; AddObjects in ascending order of address;
// FinishObjects; then SetVtable and, for each object in ascending order, its references in
// ascending order of their words (AddReference), and roots and root references in any order;
// FinishReferences; then the questions.
//
// Memory: objects lie in groups of slots of one size (32 bytes a group, 10 bits a slot), not one by
// one. A reference takes 4 bytes, and one more if the graph keeps which word it is; an object has 4
// bytes for where its references begin, and 2 for its type once any object has a vtable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace gleaner::tools {

// Objects in ascending order of address, from 0.
using ObjectId = uint32_t;
inline constexpr ObjectId kNoObject = ~ObjectId{0};
// In place of a word's offset: a procedure of the program told of the reference.
inline constexpr uint64_t kNoOffset = ~uint64_t{0};
// The two uppermost bits of numbers of objects, and of searches' nodes, are for flags.
inline constexpr ObjectId kMaxObjects = ObjectId{1} << 30;

// What kind of memory a root is.
enum class SnapshotRoot : uint8_t {
  kStack,
  kRegisters,
  kThreadLocal,
  kStatic,
  kRegistered,
  kUncollectable,
  kFinalizer,
  kOther,
};

inline constexpr uint32_t kNoThread = ~uint32_t{0};

struct GraphRoot {
  SnapshotRoot kind;
  uint32_t thread;      // index into the snapshot's threads, or kNoThread
  uint64_t begin, end;  // its memory; 0, 0 if it has none
  std::string name;     // file of the mapping, or what the runtime calls it
};

struct RootReference {
  uint32_t root;  // index into roots()
  uint64_t word;  // address of the word that refers to the object; 0 if there is none
  ObjectId target;
  bool is_interior;  // the word does not point to the object's base
  bool is_doubtful;  // nor does the program say that it is a pointer
  bool is_past_end;  // it points one past the end of the object
};

// What is known of a word beside its value.
struct WordTraits {
  bool is_known = false;     // the program says that it is a pointer
  bool is_past_end = false;  // it points one past the end of the object that it keeps
};

class HeapGraph {
 public:
  // `keeps_words`: whether ForEachWord is to work.
  explicit HeapGraph(bool keeps_words = true) : keeps_words_(keeps_words) {}

  // Makes room; more may be added. Only what is used takes memory.
  void ReserveReferences(size_t count);

  // `count` slots of `object_bytes` from `begin`; bit i of `live` says whether slot i has an
  // object. False if a slot lies below the end of an earlier one, the size or the addresses are
  // impossible, or there are more than kMaxObjects.
  [[nodiscard]] bool AddObjects(uint64_t begin, uint64_t object_bytes, uint32_t kind,
                                const uint8_t* live, size_t count);
  void FinishObjects();
  // The object's first word, which points to a vtable of a module, as far as one can tell.
  void SetVtable(ObjectId object, uint64_t address);
  // The word at `offset` bytes in the source holds `target_address` (if it is one past the end of
  // the object that it keeps: the object's address). False if no object holds the address, or the
  // order is another than the call order above.
  [[nodiscard]] bool AddReference(ObjectId source, uint64_t offset, uint64_t target_address,
                                  WordTraits traits = {});
  uint32_t AddRoot(GraphRoot root);
  // `word`: its address, or 0. False if no object holds the address, or there is no such root.
  [[nodiscard]] bool AddRootReference(uint32_t root, uint64_t word, uint64_t target_address,
                                      WordTraits traits = {});
  void FinishReferences();

  size_t size() const { return size_; }
  size_t reference_count() const { return targets_.size(); }
  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t AddressOf(ObjectId object) const;
  uint64_t BytesOf(ObjectId object) const { return GroupOf(object).object_bytes; }
  uint32_t KindOf(ObjectId object) const { return GroupOf(object).kind; }
  // The object that holds the address, or kNoObject.
  ObjectId Find(uint64_t address) const {
    bool is_interior;
    return Find(address, &is_interior);
  }
  // `is_interior`: whether the address is not that of the object itself.
  ObjectId Find(uint64_t address, bool* is_interior) const;
  // The last object that begins at or below the address, or kNoObject.
  ObjectId FindBelow(uint64_t address) const;

  // Index into vtables(); 0: none is known.
  uint32_t TypeOf(ObjectId object) const { return types_.empty() ? 0 : types_[object]; }
  // Addresses; the first stands for none.
  const std::vector<uint64_t>& vtables() const { return vtables_; }

  // f(ObjectId, uint64_t bytes, uint32_t kind), in ascending order.
  template <class F>
  void ForEachObject(const F& f) const {
    for (size_t i = 0; i < groups_.size(); ++i) {
      const Group& group = groups_[i];
      const ObjectId end = i + 1 < groups_.size() ? groups_[i + 1].first : Count();
      for (ObjectId object = group.first; object < end; ++object) {
        f(object, group.object_bytes, group.kind);
      }
    }
  }
  // f(ObjectId target, bool is_interior)
  template <class F>
  void ForEachReference(ObjectId source, const F& f) const {
    for (uint32_t i = first_reference_[source]; i < first_reference_[source + 1]; ++i) {
      f(TargetOf(i), (targets_[i] & kInterior) != 0);
    }
  }
  // f(ObjectId target, bool is_interior, uint64_t offset as it was added). pre: keeps_words.
  template <class F>
  void ForEachWord(ObjectId source, const F& f) const {
    uint64_t word = 0;
    for (uint32_t i = first_reference_[source]; i < first_reference_[source + 1]; ++i) {
      word += word_steps_[i] == kLongStep ? LongStep(i) : word_steps_[i];
      f(TargetOf(i), (targets_[i] & kInterior) != 0,
        word == kNoOffset / kWordBytes ? kNoOffset : word * kWordBytes);
    }
  }
  // References by number, for searches that keep a place among those of an object.
  uint32_t FirstReference(ObjectId source) const { return first_reference_[source]; }
  uint32_t EndReference(ObjectId source) const { return first_reference_[source + 1]; }
  ObjectId TargetOf(uint32_t reference) const { return targets_[reference] & (kDoubtful - 1); }
  // Whether the word is interior, and the program does not say that it is a pointer.
  bool IsDoubtful(uint32_t reference) const { return (targets_[reference] & kDoubtful) != 0; }

  // Gives the memory of references back: there are none after that.
  void ReleaseReferences();

  const std::vector<GraphRoot>& roots() const { return roots_; }
  const std::vector<RootReference>& root_references() const { return root_references_; }

 private:
  static constexpr uint32_t kInterior = uint32_t{1} << 31;
  static constexpr uint32_t kDoubtful = kMaxObjects;
  static constexpr uint64_t kWordBytes = 8;
  static constexpr uint8_t kLongStep = 255;
  static constexpr size_t kMaxGroupSlots = size_t{1} << 15;
  static constexpr int kChunkShift = 16;

  struct Group {
    uint64_t begin;
    uint64_t object_bytes;
    uint32_t kind;
    ObjectId first;
    uint32_t live_words;  // index into live_ and live_before_
    uint32_t slots;
  };
  struct Long {
    uint32_t reference;
    uint64_t words;
  };

  ObjectId Count() const { return static_cast<ObjectId>(size_); }
  void AddGroup(uint64_t begin, uint64_t object_bytes, uint32_t kind, const uint8_t* live,
                size_t count);
  const Group& GroupOf(ObjectId object) const;
  // The last group that begins at or below the address; null if there is none.
  const Group* GroupBelow(uint64_t address) const;
  uint64_t LongStep(uint32_t reference) const;

  const bool keeps_words_;
  size_t size_ = 0;
  uint64_t total_bytes_ = 0;
  uint64_t end_ = 0;  // of the last slot

  std::vector<Group> groups_;
  std::vector<uint64_t> live_;         // a bit for each slot
  std::vector<uint16_t> live_before_;  // objects of the group before those of the word of live_
  // The first group that begins in or above each chunk of addresses from the first one's; empty if
  // they lie too far apart.
  std::vector<uint32_t> groups_at_;

  std::vector<uint32_t> first_reference_;  // of each object; one more for the end
  std::vector<uint32_t> targets_;          // and kInterior, kDoubtful
  std::vector<uint8_t> word_steps_;        // from the word of the reference before, in words
  std::vector<Long> long_steps_;           // of those that are kLongStep or more, or go back
  uint64_t last_word_ = 0;                 // of the reference added last

  std::vector<uint16_t> types_;
  std::vector<uint64_t> vtables_ = {0};
  std::unordered_map<uint64_t, uint16_t> type_of_vtable_;

  std::vector<GraphRoot> roots_;
  std::vector<RootReference> root_references_;
};

}  // namespace gleaner::tools
