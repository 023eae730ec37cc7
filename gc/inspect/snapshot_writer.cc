#include "gc/inspect/snapshot_writer.h"

#include <cstring>

namespace gleaner::gc {

bool SnapshotWriter::Init(Write write, void* context, uint64_t seed) {
  write_ = write;
  context_ = context;
  failed_ = false;
  bytes_written_ = 0;
  block_ = 0;
  last_shape_ = {};
  checksum_ = seed;
  constexpr size_t kBytes = sizeof(SnapshotBlockHead) + kMaxSnapshotBlockBytes + sizeof(uint64_t);
  if (!memory_.Reserve(kBytes) || !memory_.EnsureCommitted(kBytes) ||
      !shapes_.Reserve(kShapeSlots) || !shapes_.EnsureCommitted(kShapeSlots) ||
      !run_.Reserve(kMaxRun) || !run_.EnsureCommitted(kMaxRun)) {
    Release();
    return false;
  }
  buffer_ = memory_.data() + sizeof(SnapshotBlockHead);
  return true;
}

void SnapshotWriter::Release() {
  memory_.Release();
  shapes_.Release();
  run_.Release();
}

void SnapshotWriter::Begin(SnapshotBlock type) {
  type_ = type;
  used_ = 0;
  at_ = 0;
  shape_count_ = 0;
  ++block_;
}

void SnapshotWriter::End() {
  if (failed_) return;
  const size_t padded = AlignUp(used_, sizeof(uint64_t));
  memset(buffer_ + used_, 0, padded - used_);
  SnapshotBlockHead head;
  head.type_and_bytes = static_cast<uint64_t>(type_) | uint64_t{used_} << 8;
  checksum_ = Checksum(checksum_, head.type_and_bytes);
  for (size_t i = 0; i < padded; i += sizeof(uint64_t)) {
    uint64_t word;
    memcpy(&word, buffer_ + i, sizeof word);
    checksum_ = Checksum(checksum_, word);
  }
  head.checksum = checksum_;
  memcpy(memory_.data(), &head, sizeof head);
  failed_ = !write_(context_, memory_.data(), sizeof head + padded);
  bytes_written_ += sizeof head + padded;
}

bool SnapshotWriter::BreakIfFull(size_t bytes) {
  if (room() >= bytes) return false;
  End();
  Begin(type_);
  return true;
}

void SnapshotWriter::Bytes(const void* data, size_t bytes) {
  memcpy(buffer_ + used_, data, bytes);
  used_ += bytes;
}

void SnapshotWriter::Text(const char* text, size_t bytes) {
  Number(bytes);
  Bytes(text, bytes);
}

void SnapshotWriter::Address(Addr address) {
  Signed(static_cast<int64_t>(address - at_));
  at_ = address;
}

void SnapshotWriter::BeginReferences(Addr origin) {
  origin_ = origin;
  next_word_ = 0;
  run_count_ = 0;
}

void SnapshotWriter::AddReference(size_t word, Addr base, Addr value, bool is_known) {
  const uint64_t flags = (is_known ? uint64_t{kRunKnown} : 0) |
                         (value != base ? uint64_t{kRunInterior} : 0) |
                         (word == kNoWord ? uint64_t{kRunWithoutWord} : 0);
  const bool goes_on = run_count_ != 0 && run_count_ < kMaxRun && flags == run_flags_ &&
                       (word == kNoWord || word == run_word_ + run_count_);
  if (!goes_on) {
    FlushRun();
    run_flags_ = flags;
    run_word_ = word;
  }
  run_[run_count_++] = {base, value};
}

void SnapshotWriter::FlushRun() {
  if (run_count_ == 0) return;
  if (room() < kMaxRunBytes) {
    Number(kRunsGoOn);
    End();
    Begin(type_);
    Byte(static_cast<uint8_t>(SnapshotRecord::kMore));
  }
  Number(uint64_t{run_count_} << kRunShift | run_flags_);
  if ((run_flags_ & kRunWithoutWord) == 0) {
    Signed(static_cast<int64_t>(run_word_ - next_word_));
    next_word_ = run_word_ + run_count_;
  }
  for (size_t i = 0; i < run_count_; ++i) Target(origin_, run_[i].base, run_[i].value);
  run_count_ = 0;
}

void SnapshotWriter::EndReferences() {
  FlushRun();
  Number(kRunsEnd);
}

uint32_t SnapshotWriter::ShapeNumber(const Shape& shape) {
  if (last_shape_.block == block_ && last_shape_.shape == shape) return last_shape_.number;
  const uint32_t number = FindShape(shape);
  if (number != kNoShape) last_shape_ = {shape, block_, number};
  return number;
}

uint32_t SnapshotWriter::FindShape(const Shape& shape) {
  uint64_t hash = Checksum(Checksum(shape.type, shape.references), shape.known);
  hash = Checksum(hash, shape.interior);
  for (size_t i = (hash >> 32) % kShapeSlots;; i = (i + 1) % kShapeSlots) {
    ShapeSlot& slot = shapes_[i];
    if (slot.block == block_ && slot.shape == shape) return slot.number;
    if (slot.block == block_) continue;
    if (shape_count_ == kMaxShapes) return kNoShape;
    slot = {shape, block_, static_cast<uint32_t>(shape_count_)};
    ++shape_count_;
    return slot.number;
  }
}

}  // namespace gleaner::gc
