#include "gc/inspect/snapshot_writer.h"

#include <gtest/gtest.h>

#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/heap/snapshot_records.h"

namespace gleaner::gc {
namespace {

using Reference = std::tuple<uint64_t, uint64_t, uint64_t, bool>;  // offset, base, value, known

struct Written {
  uint64_t address;
  uint64_t bytes;
  uint64_t kind;
  uint64_t type;
  std::vector<Reference> references;
  bool operator==(const Written&) const = default;
};

struct Reader {
  std::vector<Written> objects;
  std::vector<tools::GraphRoot> roots;

  bool Page(uint64_t begin, uint64_t bytes, uint64_t kind, const uint8_t*, uint64_t slots) {
    EXPECT_EQ(slots, 1u);
    objects.push_back({begin, bytes, kind, 0, {}});
    return true;
  }
  bool Object(uint64_t, uint64_t type) {
    objects.back().type = type;
    return true;
  }
  bool Root(const tools::GraphRoot& root) {
    roots.push_back(root);
    objects.push_back({root.begin, root.end - root.begin, 0, 0, {}});
    return true;
  }
  bool Reference(uint64_t offset, uint64_t base, uint64_t value, bool is_known) {
    objects.back().references.emplace_back(offset, base, value, is_known);
    return true;
  }
  bool End() { return true; }
};

class SnapshotWriterTest : public testing::Test {
 protected:
  SnapshotWriterTest() : seed_(std::random_device()()), random_(seed_) {
    RecordProperty("seed", std::to_string(seed_));
    EXPECT_TRUE(writer_.Init(Append, this, kChecksumStart));
  }
  ~SnapshotWriterTest() override { writer_.Release(); }

  static bool Append(void* test, const void* data, size_t bytes) {
    auto* self = static_cast<SnapshotWriterTest*>(test);
    const auto* begin = static_cast<const uint8_t*>(data);
    if (self->file_.size() + bytes > self->limit_) return false;
    self->file_.insert(self->file_.end(), begin, begin + bytes);
    return true;
  }

  uint64_t Draw(uint64_t limit) { return random_() % limit; }

  // A number of any length.
  uint64_t DrawNumber() { return random_() >> Draw(64); }

  Written DrawObject(size_t references) {
    Written object{Draw(1u << 20) * 16, DrawNumber() | 1, Draw(16), DrawNumber(), {}};
    uint64_t word = 0;
    for (size_t i = 0; i < references; ++i) {
      // Now and then in no order, as mark procedures may.
      word = Draw(10) == 0 ? Draw(1000) : word + (Draw(4) == 0 ? 1 + Draw(5) : 1);
      const uint64_t base = (Draw(3) == 0 ? Draw(uint64_t{1} << 43) : Draw(1000)) * 16;
      const uint64_t value = base + (Draw(4) == 0 ? Draw(100) : 0);
      const bool has_word = Draw(20) != 0;
      object.references.emplace_back(has_word ? word * 8 : tools::SnapshotWord::kNoOffset, base,
                                     value, Draw(2) == 0);
    }
    return object;
  }

  void WriteReferences(const Written& object, Addr origin) {
    writer_.BeginReferences(origin);
    for (const auto& [offset, base, value, is_known] : object.references) {
      const bool has_word = offset != tools::SnapshotWord::kNoOffset;
      writer_.AddReference(has_word ? offset / 8 : SnapshotWriter::kNoWord, base, value, is_known);
    }
    writer_.EndReferences();
  }

  void Write(const Written& object) {
    writer_.BreakIfFull(1000);
    writer_.Byte(static_cast<uint8_t>(SnapshotRecord::kObject));
    writer_.Address(object.address);
    writer_.Number(object.bytes);
    writer_.Number(object.kind);
    writer_.Number(object.type);
    WriteReferences(object, object.address);
  }

  // Decodes all blocks; how many there are.
  size_t Read(Reader* reader) {
    tools::SnapshotRecords records(reader);
    uint64_t sum = kChecksumStart;
    size_t blocks = 0;
    for (size_t at = 0; at < file_.size(); ++blocks) {
      SnapshotBlockHead head;
      memcpy(&head, &file_[at], sizeof head);
      const uint64_t bytes = head.type_and_bytes >> 8;
      EXPECT_LE(bytes, kMaxSnapshotBlockBytes);
      sum = Checksum(sum, head.type_and_bytes);
      at += sizeof head;
      for (size_t i = 0; i < AlignUp(bytes, 8); i += 8) {
        uint64_t word;
        memcpy(&word, &file_[at + i], sizeof word);
        sum = Checksum(sum, word);
      }
      EXPECT_EQ(sum, head.checksum);
      tools::SnapshotCursor cursor(&file_[at], bytes);
      EXPECT_TRUE(records.Block(&cursor)) << "block " << blocks;
      at += AlignUp(bytes, 8);
    }
    EXPECT_FALSE(records.is_open());
    return blocks;
  }

  const unsigned seed_;
  std::mt19937_64 random_;
  std::vector<uint8_t> file_;
  size_t limit_ = SIZE_MAX;
  SnapshotWriter writer_;
};

TEST_F(SnapshotWriterTest, WhatIsWrittenIsRead) {
  SCOPED_TRACE(seed_);
  std::vector<Written> objects;
  for (int i = 0; i < 3000; ++i) objects.push_back(DrawObject(Draw(Draw(50) == 0 ? 3000 : 20)));
  writer_.Begin(SnapshotBlock::kObjects);
  for (const Written& object : objects) Write(object);
  writer_.End();
  Reader reader;
  Read(&reader);
  EXPECT_EQ(reader.objects, objects);
}

TEST_F(SnapshotWriterTest, ReferencesGoOnInOtherBlocks) {
  SCOPED_TRACE(seed_);
  std::vector<Written> objects = {DrawObject(5), DrawObject(1'000'000), DrawObject(5)};
  writer_.Begin(SnapshotBlock::kObjects);
  for (const Written& object : objects) Write(object);
  writer_.End();
  Reader reader;
  EXPECT_GT(Read(&reader), 3u);
  EXPECT_EQ(reader.objects, objects);
}

TEST_F(SnapshotWriterTest, Roots) {
  SCOPED_TRACE(seed_);
  std::vector<Written> roots;
  writer_.Begin(SnapshotBlock::kRoots);
  for (int i = 0; i < 100; ++i) {
    Written root = DrawObject(Draw(1000));
    root.kind = root.type = 0;
    writer_.BreakIfFull(1000);
    writer_.Byte(static_cast<uint8_t>(SnapshotRecord::kRoot));
    writer_.Number(static_cast<uint64_t>(SnapshotRoot::kOther));
    writer_.Number(static_cast<uint64_t>(i));
    writer_.Number(root.address);
    writer_.Number(root.bytes);
    writer_.Text("name", 4);
    const Addr origin = Draw(1000) * 16;
    writer_.Number(origin);
    WriteReferences(root, origin);
    roots.push_back(std::move(root));
  }
  writer_.End();
  Reader reader;
  Read(&reader);
  EXPECT_EQ(reader.objects, roots);
  for (size_t i = 0; i < reader.roots.size(); ++i) {
    EXPECT_EQ(reader.roots[i].name, "name");
    EXPECT_EQ(reader.roots[i].thread, i == 0 ? tools::kNoThread : static_cast<uint32_t>(i - 1));
  }
}

TEST_F(SnapshotWriterTest, ShapesAreThoseOfTheBlock) {
  SCOPED_TRACE(seed_);
  writer_.Begin(SnapshotBlock::kObjects);
  std::vector<SnapshotWriter::Shape> shapes;
  for (size_t i = 0; i < kMaxShapes; ++i) {
    shapes.push_back({i, DrawNumber(), DrawNumber(), DrawNumber()});
    EXPECT_EQ(writer_.ShapeNumber(shapes[i]), i);
  }
  EXPECT_EQ(writer_.ShapeNumber({~uint64_t{0}, 0, 0, 0}), SnapshotWriter::kNoShape);
  for (int i = 0; i < 10000; ++i) {
    const size_t n = Draw(kMaxShapes);
    EXPECT_EQ(writer_.ShapeNumber(shapes[n]), n);
  }
  writer_.End();
  writer_.Begin(SnapshotBlock::kObjects);
  EXPECT_EQ(writer_.ShapeNumber(shapes[7]), 0u);
  writer_.End();
}

TEST_F(SnapshotWriterTest, AFailedWriteIsTheLastOne) {
  limit_ = 3 * kMaxSnapshotBlockBytes;
  writer_.Begin(SnapshotBlock::kObjects);
  for (int i = 0; i < 10; ++i) Write(DrawObject(200'000));
  writer_.End();
  EXPECT_TRUE(writer_.failed());
  EXPECT_LE(file_.size(), limit_);
}

}  // namespace
}  // namespace gleaner::gc
