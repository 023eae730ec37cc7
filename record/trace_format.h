// The byte layout of the allocation trace (docs/reference/formats.md), shared by the writer and the
// reader.
//
// A trace is a row of blocks of one size. The first block is the header. Each other block holds the
// events of one thread at a time, in the order of a sequence number that all threads of the process
// share. Events are committed one by one: a single 64-bit word holds the number of valid bytes and
// their checksum. So a process that is killed leaves blocks that end at an event.
#pragma once

#include "platform/os/base.h"

namespace gleaner::record {

inline constexpr char kFileMagic[] = "GLNTRACE";     // 8 bytes in the file
inline constexpr uint32_t kBlockMagic = 0x424e4c47;  // "GLNB"
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kMinBlockBytes = 16 * kKiB;
inline constexpr uint32_t kMaxBlockBytes = kMiB;
inline constexpr uint32_t kMaxThreads = 1u << 20;
// Sizes and alignments are below kMaxSize, addresses below kMaxAddress.
inline constexpr uint64_t kMaxSize = uint64_t{1} << 47;
inline constexpr uint64_t kMaxAddress = uint64_t{1} << 57;

// FileHeader::flags: the process has memory blocks from before the trace
inline constexpr uint32_t kForkedChild = 1;

enum class FileState : uint32_t {
  kRecording = 1,  // the process runs, or was killed
  kEnded = 2,      // the process called exit or returned from main
  kLimit = 3,      // the file reached its limit
  kRefused = 4,    // the system refused to let the file grow
};

// A number that is changed in place, stored together with its complement.
constexpr uint64_t Guarded(uint32_t value) { return value | uint64_t{~value} << 32; }
constexpr bool IsGuarded(uint64_t word) {
  return static_cast<uint32_t>(word) == ~static_cast<uint32_t>(word >> 32);
}

// At offset 0. The command line follows, its arguments separated by zero bytes, then zeros.
struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t block_bytes;
  uint64_t process;
  uint64_t start_ns;  // since 1970
  uint32_t flags;
  uint32_t command_bytes;
  uint32_t checksum;  // of the bytes before this field, then the command line
  uint32_t zero;
  uint64_t blocks;  // Guarded: blocks begun, this one included
  uint64_t state;   // Guarded: FileState
};
static_assert(sizeof(FileHeader) == 64);
inline constexpr size_t kFileChecked = offsetof(FileHeader, checksum);

// At the beginning of every other block. The events follow, then zeros.
struct BlockHeader {
  uint32_t magic;
  uint32_t index;          // in the file
  uint64_t base_sequence;  // below the number of the first event
  uint64_t time_ms;        // since the start
  uint32_t thread;
  uint32_t zero;
  // Bytes of events | checksum << 32; the checksum covers the bytes before this word, then the
  // events
  uint64_t committed;
};
static_assert(sizeof(BlockHeader) == 40);
inline constexpr size_t kBlockChecked = offsetof(BlockHeader, committed);

// An event begins with a byte: its kind in the low three bits, its step in the sequence above them.
// A step of kLongStep means that the step follows as a varint.
enum class EventKind : uint8_t {
  kAllocate = 1,  // size, address
  kZeroed = 2,    // size, address: calloc
  kAligned = 3,   // binary logarithm of the alignment (a byte), size, address
  kFree = 4,      // address
  kResize = 5,    // old address, size, sequence step from the call's begin to its end, new address
  kTime = 6,      // milliseconds since the block's last time; no step
  kThread = 7,    // number of the thread that the following events belong to; no step
};
inline constexpr uint32_t kKindBits = 3;
inline constexpr uint64_t kLongStep = 31;
// Upper bound of an event's bytes together with a kTime before it.
inline constexpr size_t kMaxEventBytes = 80;

// CRC-32C (Castagnoli): detects any damage within 32 bits, and all but one in 2^32 of other
// damages.
namespace crc {
struct Table {
  uint32_t of_byte[256];
};
constexpr Table MakeTable() {
  Table table = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78u : 0);
    table.of_byte[i] = value;
  }
  return table;
}
inline constexpr Table kTable = MakeTable();
}  // namespace crc

// The checksum of the bytes whose checksum is `before`, followed by `data`; 0 for no bytes before.
inline uint32_t Crc32c(uint32_t before, const void* data, size_t bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  uint32_t value = ~before;
  for (size_t i = 0; i < bytes; ++i)
    value = (value >> 8) ^ crc::kTable.of_byte[(value ^ p[i]) & 0xff];
  return ~value;
}

// Writes seven bits to a byte, the lowest first; the top bit means that more bytes follow. Returns
// the end.
inline uint8_t* PutVarint(uint8_t* at, uint64_t value) {
  while (value >= 0x80) {
    *at++ = static_cast<uint8_t>(value | 0x80);
    value >>= 7;
  }
  *at++ = static_cast<uint8_t>(value);
  return at;
}

// Reads a varint. Returns its end; null if it is cut off or has more than 64 bits.
inline const uint8_t* GetVarint(const uint8_t* at, const uint8_t* end, uint64_t* value) {
  *value = 0;
  for (uint32_t shift = 0; at != end && shift < 64; shift += 7) {
    const uint8_t byte = *at++;
    if (shift == 63 && byte > 1) return nullptr;
    *value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return at;
  }
  return nullptr;
}

// An address is stored as the difference to the previous one in its block (0 at the beginning), in
// units of 8 bytes if it is a multiple of 8. Bit 0: the difference is in bytes. Bit 1: it is
// negative. The other bits: its amount.
inline uint64_t PackAddress(uint64_t address, uint64_t before) {
  const auto difference = static_cast<int64_t>(address - before);
  const bool fine = difference % 8 != 0;
  const int64_t amount = fine ? difference : difference / 8;
  const bool negative = amount < 0;
  return static_cast<uint64_t>(negative ? -amount : amount) << 2 | (negative ? 2 : 0) |
         (fine ? 1 : 0);
}
inline uint64_t UnpackAddress(uint64_t packed, uint64_t before) {
  uint64_t amount = packed >> 2;
  if ((packed & 1) == 0) amount *= 8;
  return (packed & 2) != 0 ? before - amount : before + amount;
}

}  // namespace gleaner::record
