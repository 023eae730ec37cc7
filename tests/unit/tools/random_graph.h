// Graphs for the tests of what searches them: by hand, at random, and deep ones. Each object has 16
// bytes and stands at kBegin + 16 * its number.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <vector>

#include "tools/heap/heap_graph.h"

namespace gleaner::tools {

struct GraphWord {
  ObjectId target;
  bool is_interior;
};

struct GraphModel {
  static constexpr uint64_t kBegin = 0x7f0000000000;
  static constexpr uint64_t kBytes = 16;

  explicit GraphModel(size_t objects) : words(objects) {}

  void Refer(ObjectId source, ObjectId target, bool is_interior = false) {
    words[source].push_back({target, is_interior});
  }
  void Root(SnapshotRoot kind, ObjectId target, bool is_interior = false) {
    roots.push_back({kind, target, is_interior});
  }

  // Root i of the graph is roots[i], with one reference.
  void Build(HeapGraph* graph) const {
    const std::vector<uint8_t> live(words.size() / 8 + 1, 0xff);
    ASSERT_TRUE(graph->AddObjects(kBegin, kBytes, 0, live.data(), words.size()));
    graph->FinishObjects();
    for (ObjectId source = 0; source < words.size(); ++source) {
      uint64_t offset = 0;
      for (const GraphWord& word : words[source]) {
        ASSERT_TRUE(graph->AddReference(source, offset, Address(word.target, word.is_interior)));
        offset += 8;
      }
    }
    for (const auto& [kind, target, is_interior] : roots) {
      const uint32_t root = graph->AddRoot({kind, kNoThread, 0, 0, ""});
      ASSERT_TRUE(graph->AddRootReference(root, 8 * root, Address(target, is_interior)));
    }
    graph->FinishReferences();
  }

  struct ModelRoot {
    SnapshotRoot kind;
    ObjectId target;
    bool is_interior;
  };
  std::vector<std::vector<GraphWord>> words;
  std::vector<ModelRoot> roots;

 private:
  static uint64_t Address(ObjectId object, bool is_interior) {
    return kBegin + kBytes * object + (is_interior ? 8 : 0);
  }
};

class RandomGraphTest : public ::testing::Test {
 protected:
  RandomGraphTest() : seed_(std::random_device()()), random_(seed_) { printf("seed %u\n", seed_); }
  uint32_t Random(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

  // Some objects, some words, a few roots; more of the one or the other.
  GraphModel RandomGraph(size_t max_objects) {
    GraphModel model(1 + Random(static_cast<uint32_t>(max_objects)));
    const auto objects = static_cast<uint32_t>(model.words.size());
    for (uint32_t left = Random(3 * objects + 1); left > 0; --left) {
      // Mostly near, which makes long paths.
      const uint32_t source = Random(objects);
      const uint32_t target = Random(3) == 0 ? Random(objects) : (source + Random(4)) % objects;
      model.Refer(source, target, Random(4) == 0);
    }
    for (uint32_t left = Random(5); left > 0; --left) {
      const auto kind =
          static_cast<SnapshotRoot>(Random(static_cast<uint32_t>(SnapshotRoot::kOther) + 1));
      model.Root(kind, Random(objects), Random(4) == 0);
    }
    return model;
  }

  const unsigned seed_;
  std::mt19937_64 random_;
};

}  // namespace gleaner::tools
