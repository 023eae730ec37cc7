// Disappearing links to objects that are given back one by one, between collections.
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "alloc/object.h"
#include "tests/support/fake_world.h"

namespace gleaner::gc {
namespace {

using alloc::Kind;
using testing::g_roots;

constexpr size_t kObjects = 60;
constexpr size_t kLinks = 400;
constexpr size_t kNone = SIZE_MAX;
uintptr_t g_links[kLinks];  // 1 while they are not cleared

// What should be true of them.
class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed), target_(kLinks, kNone), objects_(kObjects) {
    g_roots.assign(kObjects, nullptr);
    for (size_t i = 0; i < kObjects; ++i) Renew(i);
  }

  void Step() {
    const size_t link = Below(kLinks);
    const size_t dice = Below(100);
    if (dice < 55) {
      // Most of them to a few objects, which get more than they have bytes.
      Register(link, Below(2) == 0 ? Below(3) : Below(kObjects));
    } else if (dice < 70) {
      EXPECT_EQ(links().Unregister(Address(link)), target_[link] != kNone);
      target_[link] = kNone;
    } else if (dice < 80) {
      Move(link, Below(kLinks));
    } else if (dice < 99) {
      const size_t object = Below(kObjects);
      GiveBack(object);
      Forget(object);
      Renew(object);
    } else {
      for (int i = 0; i < 5; ++i) {
        const size_t object = Below(kObjects);
        Forget(object);
        Renew(object);
      }
      testing::Collect();
    }
    Check();
  }

 private:
  size_t Below(size_t n) { return random_() % n; }
  Links& links() { return g_collector.registered().short_links; }
  static Addr Address(size_t link) { return AddressOf(&g_links[link]); }

  void Renew(size_t object) {
    constexpr size_t kSizes[] = {16, 16, 48, 600, 30000};
    objects_[object] = testing::Allocate(Kind::kNormal, kSizes[Below(std::size(kSizes))]);
    // The base would also keep the object in front, of which it may be one past the end.
    g_roots[object] = static_cast<char*>(objects_[object]) + 8;
  }
  void Register(size_t link, size_t object) {
    const bool present = target_[link] != kNone;
    EXPECT_EQ(links().Register(Address(link), AddressOf(objects_[object])),
              present ? LinkResult::kDuplicate : LinkResult::kNew);
    target_[link] = object;
    g_links[link] = 1;
  }
  void Move(size_t from, size_t to) {
    const bool is_free = target_[to] == kNone || from == to;
    const LinkResult result = links().Move(Address(from), Address(to));
    if (target_[from] == kNone) {
      EXPECT_EQ(result, LinkResult::kNotFound);
    } else if (!is_free) {
      EXPECT_EQ(result, LinkResult::kDuplicate);
    } else {
      EXPECT_EQ(result, LinkResult::kNew);
      std::swap(target_[from], target_[to]);
      g_links[to] = 1;
    }
  }
  void GiveBack(size_t object) {
    alloc::ObjectRef found;
    ASSERT_TRUE(alloc::FindObject(AddressOf(objects_[object]), &found));
    g_collector.registered().Move(found, 0, 0);
    ASSERT_EQ(alloc::FreeObject(objects_[object]), alloc::FreeResult::kFreed);
  }
  void Forget(size_t object) {
    for (size_t i = 0; i < kLinks; ++i) {
      if (target_[i] != object) continue;
      target_[i] = kNone;
      to_be_cleared_.push_back(i);
    }
  }
  void Check() {
    for (const size_t link : to_be_cleared_) {
      ASSERT_EQ(g_links[link], target_[link] == kNone ? 0u : 1u) << "link " << link;
    }
    to_be_cleared_.clear();
    size_t registered = 0;
    for (size_t i = 0; i < kLinks; ++i) {
      if (target_[i] == kNone) continue;
      ++registered;
      ASSERT_EQ(g_links[i], 1u) << "link " << i;
    }
    ASSERT_EQ(links().size(), registered);
  }

  std::mt19937_64 random_;
  std::vector<size_t> target_;  // of each link, an object or kNone
  std::vector<size_t> to_be_cleared_;
  std::vector<void*> objects_;  // no roots
};

CHILD_TEST(LinksTest, ThoseToWhatIsGivenBackAreClearedAndNoOthers) {
  testing::HeapConfig config;
  config.reserve = 256 * kMiB;
  testing::StartHeap(config);
  testing::StartCollector(1);
  const uint64_t seed = std::random_device()();
  fprintf(stderr, "seed %lu\n", seed);
  Model model(seed);
  for (int i = 0; i < 20'000 && !::testing::Test::HasFailure(); ++i) model.Step();
}

}  // namespace
}  // namespace gleaner::gc
