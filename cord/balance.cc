// Trees of logarithmic depth, after Boehm, Atkinson and Plass, "Ropes: an alternative to strings",
// Software Practice and Experience 25 (1995).
//
// A tree of depth d is balanced if it has at least F(d + 2) characters, where F is the Fibonacci
// sequence. Balancing takes the tree apart into its largest balanced subtrees, from left to right,
// and puts them into a forest. Slot i of the forest holds a tree of F(i) to F(i + 1) - 1
// characters. The text of a higher slot stands to the left of that of a lower one.
#include "cord/node.h"

namespace cord {
namespace {

// F(92) is the last Fibonacci number that fits into 64 signed bits, so longer trees share the last
// slot.
constexpr int kSlots = 92;

struct Fibonacci {
  size_t value[kSlots + 1];
  constexpr Fibonacci() : value{0, 1} {
    for (int i = 2; i <= kSlots; i++) value[i] = value[i - 1] + value[i - 2];
  }
};
constexpr Fibonacci kFibonacci;

bool Balanced(CORD x, size_t length) {
  return Depth(x) <= MAX_DEPTH && length >= kFibonacci.value[Depth(x) + 2];
}

struct Piece {
  CORD cord;
  size_t length;

  // Puts `left` before this piece.
  void Prepend(const Piece& left) {
    if (!left.cord) return;
    cord = cord ? MakeConcat(left.cord, left.length, cord, length) : left.cord;
    length += left.length;
  }
};

class Forest {
 public:
  void AddTree(CORD x, size_t length) {
    const Concat* concat = AsConcat(x);
    if (!concat || Balanced(x, length)) {
      Add({x, length});
      return;
    }
    AddTree(concat->left, concat->left_length);
    AddTree(concat->right, length - concat->left_length);
  }

  CORD Concatenated() {
    Piece all{CORD_EMPTY, 0};
    for (const Piece& slot : slots_) all.Prepend(slot);
    return all.cord;
  }

 private:
  void Add(Piece piece) {
    // The trees of all shorter slots are joined and put before the piece; the result goes into the
    // first slot that is long enough.
    Piece left{CORD_EMPTY, 0};
    int i = 2;
    for (; i < kSlots - 1 && kFibonacci.value[i + 1] <= piece.length; i++) Take(i, &left);
    Take(i, &left);
    piece.Prepend(left);
    while (i < kSlots - 1 && kFibonacci.value[i + 1] <= piece.length) Take(++i, &piece);
    slots_[i] = piece;
  }

  void Take(int i, Piece* to) {
    to->Prepend(slots_[i]);
    slots_[i] = {CORD_EMPTY, 0};
  }

  Piece slots_[kSlots] = {};
};

size_t CountLeaves(CORD x) {
  const Concat* concat = AsConcat(x);
  return concat ? CountLeaves(concat->left) + CountLeaves(concat->right) : 1;
}

Piece* ListLeaves(CORD x, size_t length, Piece* to) {
  const Concat* concat = AsConcat(x);
  if (!concat) {
    *to = {x, length};
    return to + 1;
  }
  to = ListLeaves(concat->left, concat->left_length, to);
  return ListLeaves(concat->right, length - concat->left_length, to);
}

Piece FromLeaves(const Piece* leaves, size_t count) {
  if (count == 1) return leaves[0];
  Piece right = FromLeaves(leaves + count / 2, count - count / 2);
  right.Prepend(FromLeaves(leaves, count / 2));
  return right;
}

}  // namespace
}  // namespace cord

using namespace cord;

CORD CORD_balance(CORD x) {
  if (!AsConcat(x)) return x;
  Forest forest;
  forest.AddTree(x, Length(x));
  CORD balanced = forest.Concatenated();
  if (Depth(balanced) <= MAX_DEPTH) return balanced;
  // Leaves of very different lengths can make a balanced tree too deep. A tree balanced by the
  // number of leaves cannot be: there is no memory for 2^48 leaves.
  const size_t leaves = CountLeaves(x);
  Piece* list = static_cast<Piece*>(AllocateOrDie(leaves * sizeof(Piece)));
  ListLeaves(x, Length(x), list);
  return FromLeaves(list, leaves).cord;
}
