// Cube, the approximate solver of Rubik's cube of Endo's thesis: breadth-first search over
// positions that is pruned from time to time to the best ones by a score.
// A level is the positions that the same number of turns leads to. They are the nodes of a binary
// search tree, against repetition, and form a list, whose order is that of the next level. A
// position holds its own list of turns. Positions are garbage when they are pruned, and a level is
// when the next but one is complete.
// A scrambled cube is solved by one thread, and in the same way whatever the number of threads.
// Each solution is replayed on the scrambled cube.
#define GC_THREADS
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"
#include "rubik.h"

namespace {

using rubik::Cube;

// A level is pruned when it has this many times the positions that are kept.
constexpr uint64_t kSlack = 4;
constexpr uint64_t kMaxTurns = 1000;

struct Turn {
  Turn* before;
  uint64_t turn;
};

// Belongs to one level.
struct Position {
  Position* left;   // In the tree: smaller keys.
  Position* right;  // Greater keys.
  Position* next;   // In the list, in the order of creation.
  Turn* last_turn;  // The turns from the scrambled cube to here, backwards.
  uint64_t hash;
  Cube cube;
  int score;
};

struct Parameters {
  uint64_t cubes;
  uint64_t depth;
  uint64_t beam;
  uint64_t max_turns;
  bench::RandomWork work;
};

template <class T>
T* New() {
  bench::RecordProgress();
  void* object = GC_malloc(sizeof(T));
  if (object == nullptr) bench::Fail("no memory for %lu bytes", sizeof(T));
  return static_cast<T*>(object);
}

uint64_t HashOf(const Cube& cube) {
  static_assert(rubik::kCubies == 20);
  uint64_t first, second;
  uint32_t third;
  std::memcpy(&first, cube.rotations.data(), 8);
  std::memcpy(&second, cube.rotations.data() + 8, 8);
  std::memcpy(&third, cube.rotations.data() + 16, 4);
  return bench::Mix64(first + bench::Mix64(second + bench::Mix64(third)));
}

// The list of `last`, copied, with one turn more: no two positions share a part of their lists.
Turn* NewTurns(const Turn* last, int turn) {
  Turn* copy = New<Turn>();
  copy->turn = static_cast<uint64_t>(turn);
  Turn* end = copy;
  for (; last != nullptr; last = last->before) {
    end->before = New<Turn>();
    end = end->before;
    end->turn = last->turn;
  }
  return copy;
}

// The cube that the turns of a list make of `cube`.
Cube Replay(const Cube& cube, const Turn* last) {
  int turns[kMaxTurns];
  uint64_t count = 0;
  for (; last != nullptr; last = last->before) {
    if (count == kMaxTurns || last->turn >= rubik::kTurns) bench::Fail("a list is damaged");
    turns[count++] = static_cast<int>(last->turn);
  }
  Cube result = cube;
  while (count != 0) result = rubik::Turned(result, turns[--count]);
  return result;
}

// On the stack of the thread that searches, which roots the positions.
class Level {
 public:
  // The place in the tree for a cube: where it is, or the null pointer where it belongs. Ordered by
  // hash, the tree is balanced as if the cubes came in random order.
  Position** Find(const Cube& cube, uint64_t hash) {
    Position** place = &root_;
    while (*place != nullptr) {
      Position* position = *place;
      if (hash != position->hash) {
        place = hash < position->hash ? &position->left : &position->right;
      } else if (cube != position->cube) {
        place = cube < position->cube ? &position->left : &position->right;
      } else {
        break;
      }
    }
    return place;
  }

  // `place` is what Find returned for the position's cube.
  void Add(Position** place, Position* position) {
    *place = position;
    *(last_ == nullptr ? &first_ : &last_->next) = position;
    last_ = position;
    ++count_;
  }

  // Keeps the `keep` positions with the lowest scores, of equal ones those that are older. The
  // others lose their links, so that a stale pointer to one of them holds no others.
  void Prune(uint64_t keep) {
    if (count_ <= keep) return;
    uint64_t counts[rubik::kScores] = {};
    for (const Position* p = first_; p != nullptr; p = p->next) ++counts[p->score];
    int limit = 0;  // All with a lower score are kept, and `keep` with this one.
    for (; counts[limit] <= keep; ++limit) keep -= counts[limit];
    Level kept;
    for (Position* p = first_; p != nullptr;) {
      Position* next = p->next;
      p->left = p->right = p->next = nullptr;
      if (p->score < limit || (p->score == limit && keep != 0)) {
        if (p->score == limit) --keep;
        kept.Add(kept.Find(p->cube, p->hash), p);
      }
      p = next;
    }
    *this = kept;
  }

  Position* first() const { return first_; }
  uint64_t count() const { return count_; }

 private:
  Position* root_ = nullptr;
  Position* first_ = nullptr;
  Position* last_ = nullptr;
  uint64_t count_ = 0;
};

// The search for one scrambled cube. On the stack of the thread that searches.
class Search {
 public:
  Search(const Parameters& parameters, const Cube& scrambled)
      : parameters_(parameters), scrambled_(scrambled) {
    const uint64_t hash = HashOf(scrambled);
    Add(next_.Find(scrambled, hash), scrambled, hash, nullptr);
  }

  // Ends at the solved cube or after the most turns; the best position has the lowest score.
  void Run() {
    for (uint64_t turns = 0; best_->score != 0 && turns < parameters_.max_turns; ++turns) {
      previous_ = current_;
      current_ = next_;
      next_ = Level();
      Expand();
      next_.Prune(parameters_.beam);
    }
    Verify(best_);
    for (const Position* p = next_.first(); p != nullptr; p = p->next) Verify(p);
  }

  const Position* best() const { return best_; }
  uint64_t positions() const { return positions_; }

 private:
  // Makes the next level, or the part of it before the solved cube.
  void Expand() {
    for (const Position* p = current_.first(); p != nullptr; p = p->next) {
      for (int turn = 0; turn < rubik::kTurns; ++turn) {
        if (p->last_turn == nullptr || rubik::MayFollow(turn, LastTurn(p))) Try(p, turn);
        if (best_->score == 0) return;
      }
      if (next_.count() >= kSlack * parameters_.beam) next_.Prune(parameters_.beam);
    }
  }

  void Try(const Position* parent, int turn) {
    const Cube cube = rubik::Turned(parent->cube, turn);
    const uint64_t hash = HashOf(cube);
    if (*previous_.Find(cube, hash) != nullptr || *current_.Find(cube, hash) != nullptr) return;
    Position** place = next_.Find(cube, hash);
    if (*place == nullptr) Add(place, cube, hash, NewTurns(parent->last_turn, turn));
  }

  void Add(Position** place, const Cube& cube, uint64_t hash, Turn* last_turn) {
    auto* position = New<Position>();
    position->last_turn = last_turn;
    position->hash = hash;
    position->cube = cube;
    position->score = rubik::Score(cube);
    next_.Add(place, position);
    if (best_ == nullptr || position->score < best_->score) best_ = position;
    ++positions_;
  }

  static int LastTurn(const Position* position) {
    return static_cast<int>(position->last_turn->turn);
  }

  void Verify(const Position* position) const {
    if (Replay(scrambled_, position->last_turn) != position->cube) {
      bench::Fail("the turns of a position with score %d lead to another one", position->score);
    }
  }

  const Parameters& parameters_;
  const Cube scrambled_;
  Level previous_;
  Level current_;
  Level next_;
  const Position* best_ = nullptr;
  uint64_t positions_ = 0;
};

Cube Scrambled(const Parameters& parameters, uint64_t index) {
  bench::Rng rng(parameters.work.seed + bench::Mix64(index + 1));
  Cube cube;
  int last = -1;
  for (uint64_t i = 0; i < parameters.depth; ++i) {
    int turn;
    do {
      turn = static_cast<int>(rng.Below(rubik::kTurns));
    } while (last >= 0 && !rubik::MayFollow(turn, last));
    cube = rubik::Turned(cube, turn);
    last = turn;
  }
  return cube;
}

// What a thread did. Sums do not depend on which thread did what.
struct Work {
  uint64_t solved;
  uint64_t turns;      // Of the solutions.
  uint64_t positions;  // That were allocated.
  uint64_t checksum;
  int worst_score;  // Of the best positions of the cubes.
};

void Solve(const Parameters& parameters, uint64_t index, Work* work) {
  const Cube scrambled = Scrambled(parameters, index);
  Search search(parameters, scrambled);
  search.Run();
  const Position* best = search.best();
  uint64_t hash = index ^ bench::Mix64(search.positions());
  for (const Turn* turn = best->last_turn; turn != nullptr; turn = turn->before) {
    hash = bench::Mix64(hash) + turn->turn;
    if (best->score == 0) ++work->turns;
  }
  if (best->score == 0) {
    if (!Replay(scrambled, best->last_turn).solved()) {
      bench::Fail("the solution of cube %lu does not solve it", index);
    }
    ++work->solved;
  }
  work->positions += search.positions();
  work->checksum += bench::Mix64(hash);
  work->worst_score = std::max(work->worst_score, best->score);
}

}  // namespace

int main(int argc, char** argv) {
  Parameters parameters;
  bench::Options options("cube",
                         "approximate solutions of Rubik's cube by pruned breadth-first search");
  options.Number("cubes", &parameters.cubes, 10, 3, 1, 1'000'000, "scrambled cubes");
  options.Number("depth", &parameters.depth, 9, 6, 0, 1'000, "random turns that scramble a cube");
  options.Number("beam", &parameters.beam, 10'000, 500, 1, UINT64_C(1) << 32,
                 "positions of a level that pruning keeps");
  options.Number("max-turns", &parameters.max_turns, 30, 30, 0, kMaxTurns,
                 "turns after which a search gives up");
  options.SeedAndScale(&parameters.work);
  options.Parse(argc, argv);
  parameters.cubes = parameters.work.Scaled(parameters.cubes);

  bench::InitGc(options);
  rubik::BuildTables();
  static Work work[bench::kMaxThreads];
  std::atomic<uint64_t> next_cube{0};
  const bench::Measurement measurement = bench::RunThreads(options.threads(), [&](int t) {
    for (uint64_t i; (i = next_cube++) < parameters.cubes;) Solve(parameters, i, &work[t]);
  });

  Work total{};
  for (const Work& part : work) {
    total.solved += part.solved;
    total.turns += part.turns;
    total.positions += part.positions;
    total.checksum += part.checksum;
    total.worst_score = std::max(total.worst_score, part.worst_score);
  }
  bench::ResultLine result("cube");
  result.Count("cubes", parameters.cubes);
  result.Count("solved", total.solved);
  result.Count("turns", total.turns);
  result.Count("worst_score", static_cast<uint64_t>(total.worst_score));
  bench::PrintRun(options, measurement, static_cast<double>(total.positions), total.checksum,
                  &result);
}
