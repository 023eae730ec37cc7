#include "tools/heap/snapshot_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "observe/snapshot_file.h"
#include "tools/heap/snapshot_cursor.h"
#include "tools/heap/snapshot_records.h"

namespace gleaner::tools {

using gc::SnapshotBlock;

namespace {

constexpr uint64_t kWordBytes = sizeof(uint64_t);

uint64_t WordAt(const uint8_t* at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

// Collects the references of one object.
struct WordFinder {
  uint64_t base;
  std::vector<SnapshotWord>* words;
  bool is_there = false;
  bool is_past = false;

  bool Page(uint64_t begin, uint64_t, uint64_t, const uint8_t*, uint64_t) {
    is_past = begin > base;
    return !is_past;
  }
  bool Object(uint64_t address, uint64_t) {
    is_there = address == base;
    return true;
  }
  bool Root(const GraphRoot&) { return false; }
  bool Reference(uint64_t offset, uint64_t target, uint64_t value, bool is_known) {
    if (is_there) words->push_back({offset, value, target, is_known});
    return true;
  }
  bool End() {
    is_past = is_there;
    return !is_there;
  }
};

// Finds the address of the first object of a block.
struct FirstFinder {
  uint64_t first = 0;
  bool is_found = false;

  bool Page(uint64_t begin, uint64_t, uint64_t, const uint8_t*, uint64_t) {
    first = begin;
    is_found = true;
    return false;
  }
  bool Object(uint64_t, uint64_t) { return false; }
  bool Root(const GraphRoot&) { return false; }
  bool Reference(uint64_t, uint64_t, uint64_t, bool) { return true; }
  bool End() { return true; }
};

}  // namespace

bool SnapshotFile::Damaged(uint64_t offset, const char* what) {
  error_ = path_ + ": damaged at byte " + std::to_string(offset) + ": " + what;
  return false;
}

bool SnapshotFile::Open(const std::string& path) {
  path_ = path;
  if (const int error = file_.Map(path.c_str()); error != 0) {
    error_ = path + ": " + (error == EBUSY ? "it is being written" : strerror(error));
    return false;
  }
  data_ = file_.data();
  bytes_ = file_.bytes();
  return ReadHead() && ReadBlocks();
}

bool SnapshotFile::ReadHead() {
  using Head = platform::SnapshotFile::Head;
  const uint64_t magic = bytes_ >= kWordBytes ? WordAt(data_) : 0;
  if (bytes_ == 0) {
    error_ = path_ + ": empty: the snapshot is being written, or could not be";
    return false;
  }
  if (magic != gc::kSnapshotMagic) {
    // The seventh letter of the magic word is the version.
    constexpr uint64_t kVersionBits = uint64_t{0xff} << 48;
    error_ = magic != 0 && ((magic ^ gc::kSnapshotMagic) & ~kVersionBits) == 0
                 ? path_ + ": a snapshot of another version; this reads version 1"
                 : path_ + ": no heap snapshot";
    return false;
  }
  if (bytes_ < sizeof(Head)) return Damaged(bytes_, "the head is cut off");
  uint64_t sum = gc::kChecksumStart;
  for (size_t i = 0; i < 3; ++i) sum = gc::Checksum(sum, WordAt(data_ + i * kWordBytes));
  if (sum != WordAt(data_ + 3 * kWordBytes)) return Damaged(0, "the checksum of the head");
  return true;
}

// Checks all blocks before it reads one.
bool SnapshotFile::ReadBlocks() {
  uint64_t at = sizeof(platform::SnapshotFile::Head);
  uint64_t sum = WordAt(data_ + at - kWordBytes);
  bool has_end = false;
  while (!has_end) {
    constexpr char kMissing[] =
        "the end is missing: the program is still writing it, was killed, or could not write";
    if (bytes_ - at < sizeof(gc::SnapshotBlockHead)) return Damaged(bytes_, kMissing);
    const uint64_t head = WordAt(data_ + at);
    const uint64_t bytes = head >> 8;
    const uint64_t padded = (bytes + kWordBytes - 1) / kWordBytes * kWordBytes;
    if (bytes > gc::kMaxSnapshotBlockBytes) return Damaged(at, "the length of a block");
    const uint64_t begin = at + sizeof(gc::SnapshotBlockHead);
    if (bytes_ - begin < padded) return Damaged(bytes_, kMissing);
    sum = gc::Checksum(sum, head);
    for (uint64_t i = 0; i < padded; i += kWordBytes)
      sum = gc::Checksum(sum, WordAt(data_ + begin + i));
    if (sum != WordAt(data_ + at + kWordBytes)) return Damaged(at, "the checksum of a block");
    const auto type = static_cast<SnapshotBlock>(head & 0xff);
    blocks_.push_back({type, begin, bytes});
    at = begin + padded;
    has_end = type == SnapshotBlock::kEnd;
    file_.ForgetBelow(at);
  }
  if (at != bytes_) return Damaged(at, "something follows the end");
  for (const Block& block : blocks_) {
    if (!ReadBlock(block)) {
      return error_.empty() ? Damaged(block.offset, "the contents of a block") : false;
    }
  }
  return true;
}

namespace {

bool ReadModules(SnapshotCursor* cursor, std::vector<SnapshotModule>* modules) {
  while (!cursor->AtEnd()) {
    SnapshotModule module;
    module.path = cursor->Text();
    module.bias = cursor->Number();
    module.build_id = cursor->Text();
    for (uint64_t n = cursor->Number(); n > 0 && cursor->ok(); --n) {
      SnapshotSegment segment;
      segment.begin = cursor->Number();
      segment.end = segment.begin + cursor->Number();
      segment.offset = cursor->Number();
      segment.flags = static_cast<uint32_t>(cursor->Number());
      module.segments.push_back(segment);
    }
    modules->push_back(std::move(module));
  }
  return cursor->ok();
}

bool ReadThreads(SnapshotCursor* cursor, std::vector<SnapshotThread>* threads) {
  while (!cursor->AtEnd()) {
    SnapshotThread thread;
    thread.tid = static_cast<uint32_t>(cursor->Number());
    const uint64_t flags = cursor->Number();
    thread.is_main = (flags & gc::kThreadIsMain) != 0;
    thread.took_snapshot = (flags & gc::kThreadTookSnapshot) != 0;
    thread.name = cursor->Text();
    thread.stack_begin = cursor->Number();
    thread.stack_end = thread.stack_begin + cursor->Number();
    thread.stack_pointer = cursor->Number();
    for (uint64_t n = cursor->Number(); n > 0 && cursor->ok(); --n) {
      const auto number = static_cast<uint32_t>(cursor->Number());
      thread.registers[number] = cursor->Number();
    }
    threads->push_back(std::move(thread));
  }
  return cursor->ok();
}

bool ReadKinds(SnapshotCursor* cursor, std::vector<SnapshotKind>* kinds) {
  while (!cursor->AtEnd()) {
    SnapshotKind kind;
    kind.name = cursor->Text();
    const uint64_t flags = cursor->Number();
    kind.is_pointer_free = (flags & gc::kKindPointerFree) != 0;
    kind.is_described = (flags & gc::kKindDescribed) != 0;
    kind.is_uncollectable = (flags & gc::kKindUncollectable) != 0;
    kind.has_disclaim = (flags & gc::kKindDisclaims) != 0;
    kinds->push_back(std::move(kind));
  }
  return cursor->ok();
}

// The command as it was typed: the program writes control characters and \ as \ and three octal
// digits, so that it is a line.
std::string Unescaped(const std::string& text) {
  const auto is_octal = [](char c) { return '0' <= c && c <= '7'; };
  constexpr size_t kDigits = 3;
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string digits = text.substr(i + 1, kDigits);
    if (text[i] != '\\' || digits.size() < kDigits ||
        !std::all_of(digits.begin(), digits.end(), is_octal)) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(strtoul(digits.c_str(), nullptr, 8));
    i += kDigits;
  }
  return out;
}

void ReadDescription(const std::string& text, std::map<std::string, std::string>* lines) {
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(begin, end - begin);
    const size_t equals = line.find('=');
    if (equals != std::string::npos) (*lines)[line.substr(0, equals)] = line.substr(equals + 1);
    begin = end + 1;
  }
  if (const auto command = lines->find("command"); command != lines->end()) {
    command->second = Unescaped(command->second);
  }
}

bool ReadStack(const uint8_t* data, uint64_t bytes, std::vector<SnapshotThread>* threads) {
  constexpr uint64_t kHeadBytes = 2 * kWordBytes;
  if (bytes < kHeadBytes || bytes % kWordBytes != 0) return false;
  const uint64_t thread = WordAt(data);
  if (thread == 0 || thread > threads->size()) return false;
  (*threads)[thread - 1].words.push_back({WordAt(data + kWordBytes),
                                          reinterpret_cast<const uint64_t*>(data + kHeadBytes),
                                          static_cast<size_t>((bytes - kHeadBytes) / kWordBytes)});
  return true;
}

}  // namespace

bool SnapshotFile::ReadBlock(const Block& block) {
  const uint8_t* data = data_ + block.offset;
  SnapshotCursor cursor(data, block.bytes);
  switch (block.type) {
    case SnapshotBlock::kDescription:
      ReadDescription(std::string(reinterpret_cast<const char*>(data), block.bytes), &description_);
      return true;
    case SnapshotBlock::kModules:
      return ReadModules(&cursor, &modules_);
    case SnapshotBlock::kThreads:
      return ReadThreads(&cursor, &threads_);
    case SnapshotBlock::kStack:
      return ReadStack(data, block.bytes, &threads_);
    case SnapshotBlock::kKinds:
      return ReadKinds(&cursor, &kinds_);
    case SnapshotBlock::kFinalizers:
      while (!cursor.AtEnd()) {
        const uint64_t object = cursor.Number();
        const uint64_t function = cursor.Number();
        const bool is_queued = cursor.Number() != 0;
        finalizers_.push_back({object, function, is_queued, cursor.Number()});
      }
      return cursor.ok();
    case SnapshotBlock::kLinks:
      while (!cursor.AtEnd()) {
        const uint64_t word = cursor.Number();
        const uint64_t object = cursor.Number();
        links_.push_back({word, object, cursor.Number() != 0});
      }
      return cursor.ok();
    case SnapshotBlock::kEnd:
      for (uint64_t* n : {&totals_.objects, &totals_.bytes, &totals_.references, &totals_.roots,
                          &totals_.root_references, &totals_.stopped_ns}) {
        *n = cursor.Number();
      }
      // Files of earlier releases end here.
      for (uint64_t* n : {&totals_.mark_ns, &totals_.mark_busy_ns, &totals_.markers}) {
        *n = cursor.AtEnd() ? 0 : cursor.Number();
      }
      return cursor.ok();
    case SnapshotBlock::kObjects:
    case SnapshotBlock::kRoots:
      return true;  // on demand
  }
  return true;  // of a later version
}

size_t SnapshotFile::BlockOf(uint64_t address) {
  size_t found = blocks_.size();
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].type != SnapshotBlock::kObjects) continue;
    FirstFinder finder;
    SnapshotRecords records(&finder);
    SnapshotCursor cursor(data_ + blocks_[i].offset, blocks_[i].bytes);
    (void)records.Block(&cursor);
    if (!finder.is_found) continue;
    if (finder.first > address) break;
    found = i;
  }
  return found;
}

std::vector<SnapshotWord> SnapshotFile::WordsOf(uint64_t base) {
  std::vector<SnapshotWord> words;
  WordFinder finder{base, &words};
  SnapshotRecords records(&finder);
  for (size_t i = BlockOf(base); i < blocks_.size() && !finder.is_past; ++i) {
    if (blocks_[i].type != SnapshotBlock::kObjects) continue;
    SnapshotCursor cursor(data_ + blocks_[i].offset, blocks_[i].bytes);
    if (!records.Block(&cursor)) break;
  }
  std::stable_sort(words.begin(), words.end(), [](const SnapshotWord& a, const SnapshotWord& b) {
    return a.offset < b.offset;
  });
  return words;
}

}  // namespace gleaner::tools
