#include "record/trace_reader.h"

#include <algorithm>
#include <cstring>

namespace gleaner::record {

// --- The file ---

bool TraceReader::Bad(uint64_t offset, std::string what) {
  if (damage_.empty()) {
    damage_ = std::move(what);
    damage_offset_ = offset;
  }
  return false;
}

uint64_t TraceReader::FirstNonZero(uint64_t begin, uint64_t end) const {
  return static_cast<uint64_t>(
      std::find_if(data_ + begin, data_ + end, [](uint8_t byte) { return byte != 0; }) - data_);
}

bool TraceReader::Open(const uint8_t* data, size_t bytes) {
  data_ = data;
  bytes_ = bytes;
  if (!OpenHeader()) return false;
  const auto count = static_cast<uint32_t>(header_.blocks);
  const uint64_t whole = bytes / header_.block_bytes;
  for (uint32_t index = 1; index < count; ++index) {
    if (index >= whole) {
      Bad(bytes, "the file is cut: " + std::to_string(bytes) + " bytes of " +
                     std::to_string(uint64_t{count} * header_.block_bytes));
      break;
    }
    if (!OpenBlock(index)) break;
  }
  const uint64_t end = uint64_t{count} * header_.block_bytes;
  if (end < bytes) {
    const uint64_t offset = FirstNonZero(end, bytes);
    if (offset != bytes) Bad(offset, "bytes behind the last block");
  }
  std::sort(blocks_.begin(), blocks_.end(), [](const Block& a, const Block& b) {
    return a.first_sequence != b.first_sequence ? a.first_sequence < b.first_sequence
                                                : a.index < b.index;
  });
  return true;
}

bool TraceReader::OpenHeader() {
  if (bytes_ == 0) return Bad(0, "the file is empty");
  const size_t magic_bytes = std::min(bytes_, sizeof header_.magic);
  if (memcmp(data_, kFileMagic, magic_bytes) != 0) return Bad(0, "not an allocation trace");
  if (bytes_ < sizeof header_) return Bad(bytes_, "the file is cut in its header");
  memcpy(&header_, data_, sizeof header_);
  if (header_.version != kVersion) {
    return Bad(offsetof(FileHeader, version), "version " + std::to_string(header_.version) +
                                                  " of the format, or damaged; " +
                                                  std::to_string(kVersion) + " is known");
  }
  if (header_.block_bytes < kMinBlockBytes || header_.block_bytes > kMaxBlockBytes ||
      !IsPowerOfTwo(header_.block_bytes)) {
    return Bad(offsetof(FileHeader, block_bytes), "a bad size of blocks");
  }
  if (bytes_ < header_.block_bytes) return Bad(bytes_, "the file is cut in its header");
  if (header_.command_bytes > header_.block_bytes - sizeof header_) {
    return Bad(offsetof(FileHeader, command_bytes), "a bad length of the command line");
  }
  const uint32_t checksum =
      Crc32c(Crc32c(0, data_, kFileChecked), data_ + sizeof header_, header_.command_bytes);
  if (checksum != header_.checksum || header_.zero != 0) {
    return Bad(0, "the header's checksum is wrong");
  }
  const auto state = static_cast<uint32_t>(header_.state);
  if (!IsGuarded(header_.state) || state < static_cast<uint32_t>(FileState::kRecording) ||
      state > static_cast<uint32_t>(FileState::kRefused)) {
    return Bad(offsetof(FileHeader, state), "the header's state is damaged");
  }
  if (!IsGuarded(header_.blocks) || static_cast<uint32_t>(header_.blocks) == 0) {
    return Bad(offsetof(FileHeader, blocks), "the header's count of blocks is damaged");
  }
  const uint64_t rest = FirstNonZero(sizeof header_ + header_.command_bytes, header_.block_bytes);
  if (rest != header_.block_bytes) return Bad(rest, "bytes behind the header");
  return true;
}

BlockHeader TraceReader::ReadBlockHeader(uint32_t index) const {
  BlockHeader header;
  memcpy(&header, data_ + uint64_t{index} * header_.block_bytes, sizeof header);
  return header;
}

bool TraceReader::OpenBlock(uint32_t index) {
  const uint64_t offset = uint64_t{index} * header_.block_bytes;
  const BlockHeader header = ReadBlockHeader(index);
  const std::string name = "block " + std::to_string(index);
  if (header.magic != kBlockMagic || header.index != index || header.zero != 0) {
    return Bad(offset, name + " does not begin as one");
  }
  const auto used = static_cast<uint32_t>(header.committed);
  if (used > header_.block_bytes - sizeof header) {
    return Bad(offset + offsetof(BlockHeader, committed), name + " has a bad length");
  }
  const uint8_t* events = data_ + offset + sizeof header;
  if (Crc32c(Crc32c(0, data_ + offset, kBlockChecked), events, used) != header.committed >> 32) {
    return Bad(offset, "the checksum of " + name + " is wrong");
  }
  // An event that was being written when the process was killed is not committed, but its bytes may
  // be there.
  const uint64_t in_flight = offset + sizeof header + used + kMaxEventBytes;
  const uint64_t end = offset + header_.block_bytes;
  const uint64_t rest = in_flight < end ? FirstNonZero(in_flight, end) : end;
  if (rest != end) return Bad(rest, "bytes behind the events of " + name);

  Cursor cursor(*this, index);
  uint64_t count = 0;
  Block block = {0, index};
  uint32_t thread_end = thread_end_;
  for (Event event; cursor.Next(&event);) {
    if (count == 0) block.first_sequence = event.sequence;
    if (event.kind != Event::Kind::kResizeEnd) ++count;
    thread_end = std::max(thread_end, event.thread + 1);
  }
  if (cursor.error() != nullptr) return Bad(cursor.offset(), name + ": " + cursor.error());
  if (count == 0) return true;
  event_count_ += count;
  thread_end_ = thread_end;
  blocks_.push_back(block);
  return true;
}

std::string TraceReader::command() const {
  std::string text(reinterpret_cast<const char*>(data_) + sizeof header_, header_.command_bytes);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  // The text is printed on terminals: replace control characters.
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = c == '\0' ? ' ' : '?';
  }
  return text;
}

// --- One block ---

TraceReader::Cursor::Cursor(const TraceReader& reader, uint32_t index) : data_(reader.data_) {
  const BlockHeader header = reader.ReadBlockHeader(index);
  at_ = data_ + uint64_t{index} * reader.header_.block_bytes + sizeof header;
  end_ = at_ + static_cast<uint32_t>(header.committed);
  sequence_ = header.base_sequence;
  time_ms_ = header.time_ms;
  thread_ = header.thread;
}

bool TraceReader::Cursor::Bad(const uint8_t* at, const char* what) {
  at_ = at;
  error_ = what;
  return false;
}

bool TraceReader::Cursor::Varint(const uint8_t** at, uint64_t* value) {
  const uint8_t* end = GetVarint(*at, end_, value);
  if (end == nullptr) return Bad(*at, "a bad number");
  *at = end;
  return true;
}

bool TraceReader::Cursor::Address(const uint8_t** at, uint64_t* address) {
  const uint8_t* begin = *at;
  uint64_t packed;
  if (!Varint(at, &packed)) return false;
  address_ = *address = UnpackAddress(packed, address_);
  return (address_ != 0 && address_ < kMaxAddress) || Bad(begin, "a bad address");
}

bool TraceReader::Cursor::Next(Event* event) {
  if (resizing_) {
    resizing_ = false;
    *event = resize_end_;
    return true;
  }
  if (error_ != nullptr) return false;
  while (at_ != end_) {
    const uint8_t* at = at_;
    const uint8_t tag = *at++;
    const auto kind = static_cast<EventKind>(tag & ((1u << kKindBits) - 1));
    uint64_t number = 0;
    if (kind == EventKind::kTime || kind == EventKind::kThread) {
      if (tag >> kKindBits != 0) return Bad(at_, "no event");
      if (!Varint(&at, &number)) return false;
      if (kind == EventKind::kTime) {
        time_ms_ += number;
      } else {
        if (number >= kMaxThreads) return Bad(at_, "a bad thread");
        thread_ = static_cast<uint32_t>(number);
      }
      at_ = at;
      continue;
    }
    uint64_t step = tag >> kKindBits;
    if (kind == EventKind{0} || step == 0) return Bad(at_, "no event");
    if (step == kLongStep && !Varint(&at, &step)) return false;
    if (step == 0 || sequence_ + step < sequence_) return Bad(at_, "a bad step");
    if (thread_ >= kMaxThreads) return Bad(at_, "a bad thread");

    *event = Event{};
    event->thread = thread_;
    event->time_ms = time_ms_;
    event->sequence = sequence_ += step;
    switch (kind) {
      case EventKind::kAligned:
        event->kind = Event::Kind::kAligned;
        if (at == end_) return Bad(at_, "an event that is cut off");
        event->alignment_log2 = *at++;
        if (event->alignment_log2 >= 47) return Bad(at_, "a bad alignment");
        break;
      case EventKind::kAllocate:
        event->kind = Event::Kind::kAllocate;
        break;
      case EventKind::kZeroed:
        event->kind = Event::Kind::kZeroed;
        break;
      case EventKind::kFree:
        event->kind = Event::Kind::kFree;
        break;
      default:
        event->kind = Event::Kind::kResizeBegin;
        if (!Address(&at, &event->address)) return false;
    }
    if (kind != EventKind::kFree) {
      if (!Varint(&at, &event->size)) return false;
      if (event->size >= kMaxSize) return Bad(at_, "a bad size");
    }
    if (kind == EventKind::kResize) {
      resize_end_ = *event;
      resize_end_.kind = Event::Kind::kResizeEnd;
      resize_end_.from = event->address;
      if (!Varint(&at, &step)) return false;
      if (step == 0 || sequence_ + step < sequence_) return Bad(at_, "a bad step");
      resize_end_.sequence = sequence_ += step;
      if (!Address(&at, &resize_end_.address)) return false;
      resizing_ = true;
    } else if (!Address(&at, &event->address)) {
      return false;
    }
    at_ = at;
    return true;
  }
  return false;
}

// --- All of them ---

bool TraceReader::Merge::Next(Event* event) {
  while (next_block_ < reader_.blocks_.size() &&
         (heads_.empty() ||
          reader_.blocks_[next_block_].first_sequence <= heads_.front().event.sequence)) {
    Head head = {{}, Cursor(reader_, reader_.blocks_[next_block_++].index)};
    head.cursor.Next(&head.event);  // succeeds: blocks_ has only blocks with events
    heads_.push_back(head);
    std::push_heap(heads_.begin(), heads_.end(), Later);
  }
  if (heads_.empty()) return false;
  std::pop_heap(heads_.begin(), heads_.end(), Later);
  *event = heads_.back().event;
  if (heads_.back().cursor.Next(&heads_.back().event)) {
    std::push_heap(heads_.begin(), heads_.end(), Later);
  } else {
    heads_.pop_back();
  }
  return true;
}

}  // namespace gleaner::record
