// libFuzzer: a trace is read, whatever its bytes are, and a replay planned from it.
//
// Checksums are put right first: nobody would guess them, and behind them is what there is to find.
#include <cstdint>
#include <cstring>
#include <vector>

#include "record/trace_reader.h"
#include "tools/replay/replay_plan.h"

namespace gleaner::record {
namespace {

void MendChecksums(std::vector<uint8_t>* bytes) {
  if (bytes->size() < sizeof(FileHeader)) return;
  FileHeader header;
  memcpy(&header, bytes->data(), sizeof header);
  memcpy(header.magic, kFileMagic, sizeof header.magic);
  header.version = kVersion;
  header.block_bytes = kMinBlockBytes;
  header.zero = 0;
  header.blocks = Guarded(static_cast<uint32_t>(header.blocks) % 8);
  header.state = Guarded(static_cast<uint32_t>(header.state) % 6);
  bytes->resize(AlignUp(bytes->size(), kMinBlockBytes));
  header.command_bytes %= 256;
  header.checksum =
      Crc32c(Crc32c(0, &header, kFileChecked), bytes->data() + sizeof header, header.command_bytes);
  memcpy(bytes->data(), &header, sizeof header);
  memset(bytes->data() + sizeof header + header.command_bytes, 0,
         kMinBlockBytes - sizeof header - header.command_bytes);
  for (size_t offset = kMinBlockBytes; offset < bytes->size(); offset += kMinBlockBytes) {
    uint8_t* at = bytes->data() + offset;
    BlockHeader block;
    memcpy(&block, at, sizeof block);
    block.magic = kBlockMagic;
    block.index = static_cast<uint32_t>(offset / kMinBlockBytes);
    block.thread %= 16;
    block.zero = 0;
    const uint32_t used = static_cast<uint32_t>(block.committed) % (kMinBlockBytes - sizeof block);
    block.committed =
        used | uint64_t{Crc32c(Crc32c(0, &block, kBlockChecked), at + sizeof block, used)} << 32;
    memcpy(at, &block, sizeof block);
    memset(at + sizeof block + used, 0, kMinBlockBytes - sizeof block - used);
  }
}

void Read(const std::vector<uint8_t>& bytes) {
  TraceReader reader;
  if (!reader.Open(bytes.data(), bytes.size())) return;
  uint64_t last = 0, events = 0;
  reader.ForEach([&](const Event& event) {
    GLEANER_CHECK(event.sequence >= last && event.thread < reader.thread_end() &&
                      event.address != 0 && event.address < kMaxAddress && event.size < kMaxSize,
                  "event %llu is not one", static_cast<unsigned long long>(events));
    last = event.sequence;
    ++events;
  });
  GLEANER_CHECK(events >= reader.event_count(), "events are missing");
  if (reader.thread_end() > 4096) return;  // only slow
  ReplayPlan plan;
  GLEANER_CHECK(plan.Make(reader, (events & 1) != 0), "no plan");
  for (uint32_t thread = 0; thread < plan.thread_count(); ++thread) {
    for (const Operation* each = plan.begin(thread); each != plan.end(thread); ++each) {
      const bool spawns = static_cast<OperationKind>(each->kind) == OperationKind::kSpawn;
      GLEANER_CHECK(each->block < (spawns ? plan.thread_count() : plan.block_count()),
                    "operation on block %u", each->block);
    }
  }
}

}  // namespace
}  // namespace gleaner::record

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> bytes(data, data + size);
  gleaner::record::Read(bytes);
  gleaner::record::MendChecksums(&bytes);
  gleaner::record::Read(bytes);
  return 0;
}
