// Writes the blocks of a heap snapshot (gc/inspect/snapshot_format.h): numbers into a buffer, full
// buffers to a file. Allocates nothing after Init.
//
// Not thread-safe. Call order: Init; then blocks, each Begin, contents, End; Release. In a block of
// objects or roots BreakIfFull may end the block and begin another one of the same type.
#pragma once

#include "alloc/metadata/meta.h"
#include "gc/inspect/snapshot_format.h"

namespace gleaner::gc {

class SnapshotWriter {
 public:
  // Writes bytes to the file; false ends the snapshot.
  using Write = bool (*)(void* context, const void* data, size_t bytes);

  // False without memory. `seed`: the checksum that stands before the first block.
  [[nodiscard]] bool Init(Write write, void* context, uint64_t seed);
  void Release();
  // Whether a write has failed; nothing is written from then on.
  bool failed() const { return failed_; }
  uint64_t bytes_written() const { return bytes_written_; }

  void Begin(SnapshotBlock type);
  void End();
  // Free bytes of the block.
  size_t room() const { return kMaxSnapshotBlockBytes - used_; }
  // Begins another block of the same type if less than `bytes` are free. True if it has; then
  // addresses count from 0 again, and no shape is known.
  bool BreakIfFull(size_t bytes);

  // pre, for all: there is room.
  void Byte(uint8_t byte) { buffer_[used_++] = byte; }
  void Number(uint64_t n) {
    while (n >= 0x80) {
      buffer_[used_++] = static_cast<uint8_t>(n | 0x80);
      n >>= 7;
    }
    buffer_[used_++] = static_cast<uint8_t>(n);
  }
  void Signed(int64_t n) { Number(ZigZag(n)); }
  void Bytes(const void* data, size_t bytes);
  // A length and as many bytes, at most 4,096.
  void Text(const char* text, size_t bytes);
  // The address of a record, as the distance from the one before.
  void Address(Addr address);

  // The references of one record, in any number: Begin, Add, End. They may go on in further blocks.
  static constexpr size_t kNoWord = ~size_t{0};
  void BeginReferences(Addr origin);
  // The word with this number refers to the object at `base` by its value `value`.
  void AddReference(size_t word, Addr base, Addr value, bool is_known);
  void EndReferences();
  // One reference, without its word: the distance, and what an interior word adds to it.
  void Target(Addr origin, Addr base, Addr value) {
    Signed(static_cast<int64_t>(base - origin) / kTargetBytes);
    if (value != base) Number(value - base);
  }

  // Numbers of the block's shapes. A shape is a type and sets of words.
  struct Shape {
    uint64_t type;
    uint64_t references;  // bit i: word i refers to an object
    uint64_t known;
    uint64_t interior;
    bool operator==(const Shape&) const = default;
  };
  static constexpr uint32_t kNoShape = ~uint32_t{0};
  // The number of the shape, which is new if that is shape_count() before the call. kNoShape if
  // there are too many.
  uint32_t ShapeNumber(const Shape& shape);
  size_t shape_count() const { return shape_count_; }

 private:
  static constexpr int64_t kTargetBytes = 16;  // objects are aligned to that
  static constexpr size_t kMaxRun = 256;
  static constexpr size_t kMaxRunBytes = kMaxRun * 2 * kMaxNumberBytes + 64;
  static constexpr size_t kShapeSlots = 2 * kMaxShapes;

  struct ShapeSlot {
    Shape shape;
    uint32_t block;  // of which the shape is; others are as empty
    uint32_t number;
  };
  struct Pending {
    Addr base;
    Addr value;
  };

  uint32_t FindShape(const Shape& shape);
  void FlushRun();

  Write write_ = nullptr;
  void* context_ = nullptr;
  bool failed_ = false;
  uint64_t checksum_ = 0;
  uint64_t bytes_written_ = 0;

  alloc::ReservedArray<uint8_t> memory_;
  uint8_t* buffer_ = nullptr;  // the payload of the block, behind room for its head
  size_t used_ = 0;
  SnapshotBlock type_ = SnapshotBlock::kEnd;
  Addr at_ = 0;  // address of the last record

  alloc::ReservedArray<ShapeSlot> shapes_;
  ShapeSlot last_shape_ = {};  // the one that was asked for last
  uint32_t block_ = 0;         // number of the block, from 1
  size_t shape_count_ = 0;

  // The references being added: those of a run that is not in the buffer yet.
  Addr origin_ = 0;
  size_t next_word_ = 0;  // behind the last run that is in the buffer
  size_t run_word_ = 0;   // of the first pending reference
  uint64_t run_flags_ = 0;
  size_t run_count_ = 0;
  alloc::ReservedArray<Pending> run_;
};

}  // namespace gleaner::gc
