// The bytes of a heap snapshot (docs/reference/formats.md), for the writer and for readers.
#pragma once

#include "platform/os/base.h"

namespace gleaner::gc {

// The seventh letter is the version.
inline constexpr uint64_t kSnapshotMagic = 0x31504e534e4c47;  // "GLNSNP1"

// A file is a head of four words (platform::TraceFileHead; the last word is the checksum of the
// others) and blocks. A block is its length and type, its checksum, and a payload, padded with
// zeroes to whole words. The checksum covers all of that and the checksum before it.
enum class SnapshotBlock : uint8_t {
  kDescription = 1,
  kModules,
  kThreads,
  kStack,
  kKinds,
  kObjects,
  kRoots,
  kFinalizers,
  kLinks,
  kEnd,
};

struct SnapshotBlockHead {
  uint64_t type_and_bytes;  // type in bits 0 to 7, bytes of the payload above
  uint64_t checksum;
};

// Limit of a payload.
inline constexpr size_t kMaxSnapshotBlockBytes = 1 * kMiB;

inline constexpr uint64_t kChecksumStart = 0x243f6a8885a308d3;
// Adds a word to a checksum. For each word it is one-to-one in the checksum before, so that two
// rows of words that differ in one word have different checksums.
constexpr uint64_t Checksum(uint64_t sum, uint64_t word) {
  sum = (sum ^ word) * 0x9e3779b97f4a7c15;
  return sum ^ (sum >> 29);
}

// What a record of kObjects and kRoots is.
enum class SnapshotRecord : uint8_t {
  kPage = 1,         // slots of one size, with references
  kPointerFreePage,  // slots of one size, without
  kObject,           // one object
  kRoot,
  kMore,  // the references of the last record of the block before go on
};

// What stands for an object's references on a page.
enum SnapshotCode : uint64_t {
  kCodeRuns = 0,        // a type and runs
  kCodeRepeat = 1,      // a number of objects that have the shape of the one before
  kCodeFirstShape = 2,  // and above: a shape of this block; the next unused number defines one
};
// Shapes of one block.
inline constexpr size_t kMaxShapes = 4096;
// Words of an object that may have a shape.
inline constexpr size_t kMaxShapeWords = 64;

// The head of a run of references: its length, and these.
enum SnapshotRun : uint64_t { kRunKnown = 1, kRunInterior = 2, kRunWithoutWord = 4 };
inline constexpr unsigned kRunShift = 3;
// Heads that stand for no run.
inline constexpr uint64_t kRunsEnd = 0;
inline constexpr uint64_t kRunsGoOn = 1;  // in the next block, after a record kMore

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

// Flags of threads, kinds, finalizers and links.
enum SnapshotThreadFlag : uint64_t { kThreadIsMain = 1, kThreadTookSnapshot = 2 };
enum SnapshotKindFlag : uint64_t {
  kKindPointerFree = 1,
  kKindDescribed = 2,
  kKindUncollectable = 4,
  kKindDisclaims = 8,
};

// Numbers are rows of bytes, 7 bits each, the lowest first; bit 7 says that another byte follows.
inline constexpr size_t kMaxNumberBytes = 10;
// Signed numbers: the sign is bit 0, so that small ones stay small.
constexpr uint64_t ZigZag(int64_t n) {
  return (static_cast<uint64_t>(n) << 1) ^ static_cast<uint64_t>(n >> 63);
}
constexpr int64_t FromZigZag(uint64_t n) { return static_cast<int64_t>((n >> 1) ^ (~(n & 1) + 1)); }

}  // namespace gleaner::gc
