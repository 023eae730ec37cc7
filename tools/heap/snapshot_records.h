// Decoding the records of a snapshot's blocks of objects and roots
// (docs/reference/formats.md).
//
// Call order: Block for each block in the order of the file. A handler gets, in that order:
//   bool Page(begin, slot bytes, kind, live, slots)   slots of one size, live or not; or one object
//   bool Object(address, type)                        for each live one of them; references follow
//   bool Root(root)                                   references follow
//   bool Reference(offset, base, value, is_known)     offset in bytes, or SnapshotWord::kNoOffset
//   bool End()                                        of the references of an object or root
// A handler that returns false ends the decoding. Objects on pointer-free pages come in Page alone.
#pragma once

#include <array>
#include <vector>

#include "tools/heap/snapshot_cursor.h"
#include "tools/heap/snapshot_file.h"

namespace gleaner::tools {

template <class Handler>
class SnapshotRecords {
 public:
  explicit SnapshotRecords(Handler* handler) : handler_(*handler) {}

  // False if the handler has ended the decoding, or the block is damaged: then the cursor is not
  // ok.
  bool Block(SnapshotCursor* cursor) {
    at_ = 0;
    shapes_.clear();
    while (!cursor->AtEnd()) {
      const auto record = static_cast<gc::SnapshotRecord>(cursor->Byte());
      if (is_open_ && record != gc::SnapshotRecord::kMore) return cursor->Fail();
      if (!Record(record, cursor)) return false;
    }
    return cursor->ok();
  }
  // Whether references are expected to go on in another block.
  bool is_open() const { return is_open_; }

 private:
  static constexpr uint64_t kGranuleBytes = 16;
  static constexpr uint64_t kMaxSlotGranules = 1024;
  static constexpr uint64_t kMaxSlots = 1024;
  static constexpr size_t kWordBytes = 8;

  struct Shape {
    uint64_t type, references, known, interior;
  };

  bool Record(gc::SnapshotRecord record, SnapshotCursor* cursor) {
    switch (record) {
      case gc::SnapshotRecord::kPage:
        return Page(cursor, true);
      case gc::SnapshotRecord::kPointerFreePage:
        return Page(cursor, false);
      case gc::SnapshotRecord::kObject:
        return Object(cursor);
      case gc::SnapshotRecord::kRoot:
        return Root(cursor);
      case gc::SnapshotRecord::kMore:
        // The first block that is decoded may begin in the middle.
        is_skipping_ = !is_open_;
        return Runs(cursor);
    }
    return cursor->Fail();
  }

  uint64_t Address(SnapshotCursor* cursor) {
    return at_ += static_cast<uint64_t>(cursor->Signed());
  }

  bool Page(SnapshotCursor* cursor, bool has_references) {
    const uint64_t begin = Address(cursor);
    const uint64_t granules = cursor->Number();
    const uint64_t kind = cursor->Number();
    const uint64_t slots = cursor->Number();
    if (granules == 0 || granules > kMaxSlotGranules || slots > kMaxSlots) return cursor->Fail();
    const uint64_t slot_bytes = granules * kGranuleBytes;
    const uint8_t* live = cursor->Bytes((slots + 7) / 8);
    if (live == nullptr || !cursor->ok()) return false;
    if (!handler_.Page(begin, slot_bytes, kind, live, slots)) return false;
    if (!has_references) return true;
    uint64_t repeated = 0;
    size_t shape = SIZE_MAX;
    for (uint64_t slot = 0; slot < slots; ++slot) {
      if ((live[slot / 8] >> (slot % 8) & 1) == 0) continue;
      source_ = begin + slot * slot_bytes;
      if (repeated != 0) {
        --repeated;
        if (!Shaped(shapes_[shape], cursor)) return false;
        continue;
      }
      uint64_t code = cursor->Number();
      if (code == gc::kCodeRepeat) {
        repeated = cursor->Number();
        if (repeated == 0 || shape == SIZE_MAX) return cursor->Fail();
        --repeated;
        if (!Shaped(shapes_[shape], cursor)) return false;
        continue;
      }
      if (code == gc::kCodeRuns) {
        shape = SIZE_MAX;
        if (!BeginObject(cursor->Number()) || !Runs(cursor)) return false;
        if (is_open_) return cursor->Fail();
        continue;
      }
      code -= gc::kCodeFirstShape;
      if (code > shapes_.size()) return cursor->Fail();
      if (code == shapes_.size()) {
        const uint64_t type = cursor->Number();
        const uint64_t references = cursor->Number();
        const uint64_t known = cursor->Number();
        shapes_.push_back({type, references, known, cursor->Number()});
      }
      shape = code;
      if (!Shaped(shapes_[shape], cursor)) return false;
    }
    return repeated == 0 || cursor->Fail();
  }

  bool Shaped(const Shape& shape, SnapshotCursor* cursor) {
    if (!handler_.Object(source_, shape.type)) return false;
    for (uint64_t bits = shape.references; bits != 0; bits &= bits - 1) {
      const uint64_t bit = bits & -bits;
      const auto word = static_cast<uint64_t>(__builtin_ctzll(bits));
      const uint64_t base = Target(source_, cursor);
      const uint64_t value = (shape.interior & bit) != 0 ? base + cursor->Number() : base;
      if (!cursor->ok()) return false;
      if (!handler_.Reference(word * kWordBytes, base, value, (shape.known & bit) != 0)) {
        return false;
      }
    }
    return handler_.End();
  }

  bool BeginObject(uint64_t type) {
    origin_ = source_;
    next_word_ = 0;
    is_skipping_ = false;
    return handler_.Object(source_, type);
  }

  bool Object(SnapshotCursor* cursor) {
    source_ = Address(cursor);
    const uint64_t bytes = cursor->Number();
    const uint64_t kind = cursor->Number();
    const uint64_t type = cursor->Number();
    if (bytes == 0 || !cursor->ok()) return cursor->Fail();
    constexpr uint8_t kLive = 1;
    if (!handler_.Page(source_, bytes, kind, &kLive, 1) || !BeginObject(type)) return false;
    return Runs(cursor);
  }

  bool Root(SnapshotCursor* cursor) {
    GraphRoot root;
    const uint64_t kind = cursor->Number();
    const uint64_t thread = cursor->Number();
    root.begin = cursor->Number();
    root.end = root.begin + cursor->Number();
    root.name = cursor->Text();
    origin_ = cursor->Number();
    if (!cursor->ok() || kind > static_cast<uint64_t>(SnapshotRoot::kOther)) return cursor->Fail();
    root.kind = static_cast<SnapshotRoot>(kind);
    root.thread = thread == 0 ? kNoThread : static_cast<uint32_t>(thread - 1);
    next_word_ = 0;
    is_skipping_ = false;
    return handler_.Root(root) && Runs(cursor);
  }

  uint64_t Target(uint64_t origin, SnapshotCursor* cursor) {
    return origin + static_cast<uint64_t>(cursor->Signed()) * kGranuleBytes;
  }

  bool Runs(SnapshotCursor* cursor) {
    for (;;) {
      const uint64_t head = cursor->Number();
      if (!cursor->ok()) return false;
      is_open_ = head == gc::kRunsGoOn;
      if (head == gc::kRunsEnd) return is_skipping_ || handler_.End();
      if (is_open_) return cursor->AtEnd() || cursor->Fail();
      const uint64_t count = head >> gc::kRunShift;
      if (count == 0 || count > cursor->left()) return cursor->Fail();
      const bool has_word = (head & gc::kRunWithoutWord) == 0;
      if (has_word) next_word_ += static_cast<uint64_t>(cursor->Signed());
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t base = Target(origin_, cursor);
        const uint64_t value = (head & gc::kRunInterior) != 0 ? base + cursor->Number() : base;
        if (!cursor->ok()) return false;
        const uint64_t offset = has_word ? next_word_++ * kWordBytes : SnapshotWord::kNoOffset;
        if (!is_skipping_ &&
            !handler_.Reference(offset, base, value, (head & gc::kRunKnown) != 0)) {
          return false;
        }
      }
    }
  }

  Handler& handler_;
  uint64_t at_ = 0;  // address of the last record of the block
  std::vector<Shape> shapes_;
  uint64_t source_ = 0;  // the object whose references are read
  uint64_t origin_ = 0;
  uint64_t next_word_ = 0;
  bool is_open_ = false;
  bool is_skipping_ = false;  // references whose object is not known
};

}  // namespace gleaner::tools
