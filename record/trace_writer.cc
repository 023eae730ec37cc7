#include "record/trace_writer.h"

#include <sched.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "platform/os/os_page.h"

namespace gleaner::record {
namespace {

using platform::memory_order_acquire;
using platform::memory_order_relaxed;
using platform::memory_order_release;

// Stores a word of the file that a reader may load at any instant. Release: the bytes that the word
// covers are in the mapping before it. The reader is another process, or reads after this process
// has ended.
void Publish(uint64_t* word, uint64_t value) {
  std::atomic_ref<uint64_t>(*word).store(value, memory_order_release);
}

BlockHeader* HeaderOf(const Stream& stream) { return reinterpret_cast<BlockHeader*>(stream.block); }

}  // namespace

int TraceWriter::Start(const char* path, uint64_t limit, bool children) {
  children_ = children;
  path_bytes_ = strlen(path);
  if (path_bytes_ > kMaxPath) return ENAMETOOLONG;
  memcpy(path_, path, path_bytes_ + 1);
  const uint64_t allowed = FileSizeLimit();
  limit_ = limit < allowed ? limit : allowed;
  block_bytes_ = static_cast<uint32_t>(platform::OsPageBytes());
  if (block_bytes_ < kMinBlockBytes) block_bytes_ = kMinBlockBytes;
  alive_ = MapForkWord();
  if (alive_ == nullptr) return errno;
  const int error = CreateFile(0);
  if (error != 0) return error;
  alive_->Store(kAlive, memory_order_relaxed);  // Relaxed: the release of recording_ follows.
  // Release: the state above is stored before the flag. A reader gets it by the acquire of g_start
  // (interpose.cc), since IsRecording is relaxed.
  recording_.Store(1, memory_order_release);
  return 0;
}

int TraceWriter::CreateFile(uint32_t flags) {
  char* rest = path_ + path_bytes_;
  const unsigned long process = ProcessNumber();
  *rest = 0;
  int error = file_.Create(path_);
  for (unsigned attempt = 0; children_ && error == EEXIST && attempt < 1000; ++attempt) {
    if (attempt == 0) {
      snprintf(rest, sizeof path_ - path_bytes_, ".%lu", process);
    } else {
      snprintf(rest, sizeof path_ - path_bytes_, ".%lu.%u", process, attempt);
    }
    error = file_.Create(path_);
  }
  if (error != 0) return error;

  file_bytes_ = 4 * uint64_t{block_bytes_};
  if (file_bytes_ > limit_) return EFBIG;
  if ((error = file_.Grow(file_bytes_)) != 0) return error;
  auto* header = static_cast<FileHeader*>(file_.Map(0, block_bytes_));
  if (header == nullptr) return errno;
  memcpy(header->magic, kFileMagic, sizeof header->magic);
  header->version = kVersion;
  header->block_bytes = block_bytes_;
  header->process = process;
  header->start_ns = WallClockNs();
  header->flags = flags;
  char* command = reinterpret_cast<char*>(header + 1);
  header->command_bytes = static_cast<uint32_t>(ReadCommandLine(command, block_bytes_ / 2));
  header->checksum = Crc32c(Crc32c(0, header, kFileChecked), command, header->command_bytes);
  Publish(&header->state, Guarded(static_cast<uint32_t>(FileState::kRecording)));
  blocks_ = 1;
  Publish(&header->blocks, Guarded(blocks_));
  header_ = header;
  start_ms_ = CoarseMs();
  return 0;
}

void TraceWriter::SetState(FileState state) {
  Publish(&header_->state, Guarded(static_cast<uint32_t>(state)));
}

// --- Blocks ---

bool TraceWriter::Prepare(Stream* stream) {
  // Relaxed: only the fork that makes a child, and that child, change the word. A thread without a
  // block of this process goes on to PrepareSlow, which acquires.
  if (GLEANER_LIKELY(alive_->Load(memory_order_relaxed) == kAlive && stream->block != nullptr &&
                     stream->process == process_ &&
                     sizeof(BlockHeader) + stream->used + kMaxEventBytes <= block_bytes_)) {
    return true;
  }
  return PrepareSlow(stream);
}

GLEANER_COLD bool TraceWriter::PrepareSlow(Stream* stream) {
  // Acquire: pairs with the release of kAlive in BeginInChild.
  if (alive_->Load(memory_order_acquire) != kAlive) BeginInChild();
  if (stream->process != process_) {
    const bool ended = stream->ended;
    *stream = Stream{};
    stream->process = process_;
    stream->ended = ended;
  }
  pthread_mutex_lock(&mutex_);
  const bool ready = IsRecording() && TakeBlock(stream);
  pthread_mutex_unlock(&mutex_);
  return ready;
}

// Several threads of the child may come here: the first one does the work. The release of kAlive
// and its acquire by the others hand the new state on.
void TraceWriter::BeginInChild() {
  uint32_t expected = 0;
  // Acquire: pairs with nothing; the zero comes from the fork.
  if (!alive_->CompareExchange(expected, kBeginning, memory_order_acquire)) {
    // Acquire: pairs with the release of kAlive below.
    while (alive_->Load(memory_order_acquire) != kAlive) sched_yield();
    return;
  }
  // The parent's mappings stay mapped: the fork may have interrupted a change of their list.
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
  ++process_;
  threads_ = 0;
  parked_count_ = 0;
  if (IsRecording() && (!children_ || CreateFile(kForkedChild) != 0)) {
    // Relaxed: the release of kAlive below shows it to the child's threads.
    recording_.Store(0, memory_order_relaxed);
  }
  alive_->Store(kAlive, memory_order_release);  // pairs with PrepareSlow
}

bool TraceWriter::TakeBlock(Stream* stream) {
  const uint32_t begun = threads_;
  if (stream->thread == 0) {
    if (threads_ == kMaxThreads) return false;
    stream->thread = ++threads_;
  }
  if (stream->block == nullptr && parked_count_ != 0) {
    const uint32_t thread = stream->thread;
    const bool ended = stream->ended;
    *stream = parked_[--parked_count_];
    stream->ended = ended;
    if (stream->thread != thread) {
      stream->thread = thread;
      uint8_t* at = stream->block + sizeof(BlockHeader) + stream->used;
      *at++ = static_cast<uint8_t>(EventKind::kThread);
      Commit(stream, PutVarint(at, thread - 1));
    }
    return true;
  }

  const uint64_t begin = uint64_t{blocks_} * block_bytes_;
  const uint64_t end = begin + block_bytes_;
  FileState stop = FileState::kLimit;
  bool possible = end <= limit_;
  if (possible && end > file_bytes_) {
    stop = FileState::kRefused;
    const uint64_t step = file_bytes_ < kMaxGrowBytes ? file_bytes_ : kMaxGrowBytes;
    uint64_t bytes = file_bytes_ + step < limit_ ? file_bytes_ + step : limit_;
    bytes = AlignDown(bytes, block_bytes_);
    possible = file_.Grow(bytes) == 0;
    if (possible) file_bytes_ = bytes;
  }
  void* memory = possible ? file_.Map(begin, block_bytes_) : nullptr;
  if (memory == nullptr) {
    SetState(possible ? FileState::kRefused : stop);
    // Relaxed: a thread that sees it late writes a few events more.
    recording_.Store(0, memory_order_relaxed);
    threads_ = begun;
    return false;
  }
  if (stream->block != nullptr) RecordFile::Unmap(stream->block, block_bytes_);
  stream->block = static_cast<uint8_t*>(memory);
  stream->used = 0;
  stream->address = 0;
  stream->sequence = sequence_.Load(memory_order_relaxed);  // this thread's later ones are larger
  stream->time_ms = CoarseMs() - start_ms_;
  BlockHeader* header = HeaderOf(*stream);
  header->magic = kBlockMagic;
  header->index = blocks_;
  header->base_sequence = stream->sequence;
  header->time_ms = stream->time_ms;
  header->thread = stream->thread - 1;
  stream->checksum = Crc32c(0, header, kBlockChecked);
  Publish(&header->committed, uint64_t{stream->checksum} << 32);
  Publish(&header_->blocks, Guarded(++blocks_));
  return true;
}

// Parks the stream's block for the next thread. If too many are parked, the block is unmapped.
void TraceWriter::GiveBack(Stream* stream) {
  if (stream->block == nullptr || stream->process != process_) return;
  pthread_mutex_lock(&mutex_);
  if (parked_count_ < kMaxParked &&
      sizeof(BlockHeader) + stream->used + 2 * kMaxEventBytes <= block_bytes_) {
    parked_[parked_count_++] = *stream;
  } else {
    RecordFile::Unmap(stream->block, block_bytes_);
  }
  stream->block = nullptr;
  pthread_mutex_unlock(&mutex_);
}

void TraceWriter::EndThread(Stream* stream) {
  stream->ended = true;
  // Relaxed: the process changes the word only in BeginInChild. If it is not kAlive, a fork came
  // between, and the block is the parent's.
  if (alive_->Load(memory_order_relaxed) == kAlive) GiveBack(stream);
}

void TraceWriter::Finish() {
  // Relaxed: only a fork changes the word; a child that has not begun leaves the parent's file
  // alone.
  if (!IsRecording() || alive_->Load(memory_order_relaxed) != kAlive) return;
  pthread_mutex_lock(&mutex_);
  const uint64_t used = uint64_t{blocks_} * block_bytes_;
  if (file_.Cut(used) == 0) file_bytes_ = used;
  SetState(FileState::kEnded);
  pthread_mutex_unlock(&mutex_);
}

// --- Events ---

uint8_t* TraceWriter::Begin(Stream* stream, EventKind kind, uint64_t sequence) {
  uint8_t* at = stream->block + sizeof(BlockHeader) + stream->used;
  const uint64_t now = CoarseMs() - start_ms_;
  if (now != stream->time_ms) {
    *at++ = static_cast<uint8_t>(EventKind::kTime);
    at = PutVarint(at, now - stream->time_ms);
    stream->time_ms = now;
  }
  const uint64_t step = sequence - stream->sequence;
  const uint64_t in_byte = step < kLongStep ? step : kLongStep;
  *at++ = static_cast<uint8_t>(static_cast<uint64_t>(kind) | in_byte << kKindBits);
  if (step >= kLongStep) at = PutVarint(at, step);
  stream->sequence = sequence;
  return at;
}

void TraceWriter::Commit(Stream* stream, const uint8_t* end) {
  const uint8_t* events = stream->block + sizeof(BlockHeader);
  const uint8_t* begin = events + stream->used;
  const auto bytes = static_cast<size_t>(end - begin);
  stream->checksum = Crc32c(stream->checksum, begin, bytes);
  stream->used += static_cast<uint32_t>(bytes);
  Publish(&HeaderOf(*stream)->committed, stream->used | uint64_t{stream->checksum} << 32);
}

void TraceWriter::Allocated(Stream* stream, size_t size, size_t alignment, bool zeroed,
                            const void* address) {
  if (!Prepare(stream)) return;
  const EventKind kind = zeroed           ? EventKind::kZeroed
                         : alignment != 0 ? EventKind::kAligned
                                          : EventKind::kAllocate;
  uint8_t* at = Begin(stream, kind, NextSequence());
  if (kind == EventKind::kAligned) *at++ = static_cast<uint8_t>(std::bit_width(alignment - 1));
  at = PutVarint(at, size);
  Commit(stream, PutAddress(stream, at, AddressOf(address)));
  if (stream->ended) GiveBack(stream);
}

void TraceWriter::Freeing(Stream* stream, const void* address) {
  if (Prepare(stream)) Freed(stream, NextSequence(), address);
}

void TraceWriter::Freed(Stream* stream, uint64_t begin, const void* address) {
  uint8_t* at = Begin(stream, EventKind::kFree, begin);
  Commit(stream, PutAddress(stream, at, AddressOf(address)));
  if (stream->ended) GiveBack(stream);
}

uint64_t TraceWriter::Resizing(Stream* stream) { return Prepare(stream) ? NextSequence() : 0; }

void TraceWriter::Resized(Stream* stream, uint64_t begin, const void* from, size_t size,
                          const void* to) {
  uint8_t* at = Begin(stream, EventKind::kResize, begin);
  at = PutAddress(stream, at, AddressOf(from));
  at = PutVarint(at, size);
  const uint64_t end = NextSequence();
  at = PutVarint(at, end - begin);
  stream->sequence = end;
  Commit(stream, PutAddress(stream, at, AddressOf(to)));
  if (stream->ended) GiveBack(stream);
}

}  // namespace gleaner::record
