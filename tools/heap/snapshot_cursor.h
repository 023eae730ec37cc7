// Reading the payload of a snapshot's block. Reading beyond its end yields zeroes, and ok() is
// false from then on.
#pragma once

#include <cstring>
#include <string>

#include "gc/inspect/snapshot_format.h"

namespace gleaner::tools {

class SnapshotCursor {
 public:
  SnapshotCursor(const uint8_t* begin, uint64_t bytes)
      : begin_(begin), at_(begin), end_(begin + bytes) {}

  bool ok() const { return ok_; }
  bool AtEnd() const { return at_ == end_ || !ok_; }
  uint64_t left() const { return static_cast<uint64_t>(end_ - at_); }
  uint64_t offset() const { return static_cast<uint64_t>(at_ - begin_); }
  bool Fail() { return ok_ = false; }

  uint8_t Byte() {
    if (at_ != end_) return *at_++;
    ok_ = false;
    return 0;
  }
  uint64_t Number() {
    if (at_ != end_ && *at_ < 0x80) return *at_++;
    uint64_t n = 0;
    for (size_t i = 0; i < gc::kMaxNumberBytes; ++i) {
      const uint8_t byte = Byte();
      n |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) return n;
    }
    ok_ = false;
    return 0;
  }
  int64_t Signed() { return gc::FromZigZag(Number()); }
  // Null if there are not as many.
  const uint8_t* Bytes(uint64_t count) {
    if (count > left()) {
      ok_ = false;
      return nullptr;
    }
    const uint8_t* bytes = at_;
    at_ += count;
    return bytes;
  }
  std::string Text() {
    const uint64_t count = Number();
    const uint8_t* bytes = Bytes(count);
    return bytes == nullptr ? std::string()
                            : std::string(reinterpret_cast<const char*>(bytes), count);
  }

 private:
  const uint8_t* const begin_;
  const uint8_t* at_;
  const uint8_t* const end_;
  bool ok_ = true;
};

}  // namespace gleaner::tools
