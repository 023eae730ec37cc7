// The tables of turns and neighbours; see rubik.h.
#include "rubik.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "bench_util.h"

namespace rubik {
namespace {

constexpr int kCorners = 8;
constexpr int kNeighbours = 24;

using Vector = std::array<int, 3>;
// matrix[row][column]; the rotations of a cube are permutations of the axes with signs.
using Matrix = std::array<Vector, 3>;

Matrix g_rotations[kRotations];
Vector g_homes[kCubies];
// What rotation a cubie has after a turn.
uint8_t g_turned[kTurns][kCubies][kRotations];
// The corners and edges that touch each other in the solved cube.
struct Neighbours {
  int corner;
  int edge;
};
Neighbours g_neighbours[kNeighbours];

Vector Times(const Matrix& m, const Vector& v) {
  Vector product{};
  for (int row = 0; row < 3; ++row) {
    product[row] = std::inner_product(v.begin(), v.end(), m[row].begin(), 0);
  }
  return product;
}

Matrix Times(const Matrix& a, const Matrix& b) {
  Matrix product{};
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 3; ++column) {
      for (int k = 0; k < 3; ++k) product[row][column] += a[row][k] * b[k][column];
    }
  }
  return product;
}

// A quarter turn about the axis.
Matrix QuarterTurn(int axis) {
  Matrix turn{};
  turn[axis][axis] = 1;
  turn[(axis + 1) % 3][(axis + 2) % 3] = 1;
  turn[(axis + 2) % 3][(axis + 1) % 3] = -1;
  return turn;
}

// The index of the rotation among the first `count`, or `count` if it is not there.
int IndexOf(const Matrix& rotation, int count) {
  return static_cast<int>(std::find(g_rotations, g_rotations + count, rotation) - g_rotations);
}

// All products of quarter turns, the identity first.
void BuildRotations() {
  g_rotations[0] = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  int count = 1;
  for (int i = 0; i < count; ++i) {
    for (int axis = 0; axis < 3; ++axis) {
      const Matrix next = Times(QuarterTurn(axis), g_rotations[i]);
      if (IndexOf(next, count) < count) continue;
      if (count == kRotations) bench::Fail("a cube has more than %d rotations", kRotations);
      g_rotations[count++] = next;
    }
  }
}

// Corners first: the places of a 3x3x3 cube with three coordinates, then those with two.
void BuildHomes() {
  int count = 0;
  for (int distance = 3; distance >= 2; --distance) {
    for (int place = 0; place < 27; ++place) {
      const Vector home{place / 9 - 1, place / 3 % 3 - 1, place % 3 - 1};
      if (std::inner_product(home.begin(), home.end(), home.begin(), 0) != distance) continue;
      g_homes[count++] = home;
    }
  }
}

void BuildTurns() {
  for (int turn = 0; turn < kTurns; ++turn) {
    const int axis = turn / 6;
    const int side = turn / 3 % 2 == 0 ? 1 : -1;
    // Clockwise, seen from outside, is the other sense for the opposite face.
    const int quarters = side == 1 ? turn % 3 + 1 : 3 - turn % 3;
    Matrix rotation = g_rotations[0];
    for (int i = 0; i < quarters; ++i) rotation = Times(QuarterTurn(axis), rotation);
    for (int cubie = 0; cubie < kCubies; ++cubie) {
      for (int r = 0; r < kRotations; ++r) {
        const bool in_face = Times(g_rotations[r], g_homes[cubie])[axis] == side;
        const Matrix after = in_face ? Times(rotation, g_rotations[r]) : g_rotations[r];
        g_turned[turn][cubie][r] = static_cast<uint8_t>(IndexOf(after, kRotations));
      }
    }
  }
}

// Of homes that share a face.
bool Touch(const Vector& a, const Vector& b) {
  int distance = 0;
  for (int axis = 0; axis < 3; ++axis) distance += std::abs(a[axis] - b[axis]);
  return distance == 1;
}

void BuildNeighbours() {
  int count = 0;
  for (int corner = 0; corner < kCorners; ++corner) {
    for (int edge = kCorners; edge < kCubies; ++edge) {
      if (Touch(g_homes[corner], g_homes[edge])) g_neighbours[count++] = {corner, edge};
    }
  }
}

}  // namespace

void BuildTables() {
  BuildRotations();
  BuildHomes();
  BuildTurns();
  BuildNeighbours();
}

Cube Turned(const Cube& cube, int turn) {
  Cube turned;
  for (int cubie = 0; cubie < kCubies; ++cubie) {
    turned.rotations[cubie] = g_turned[turn][cubie][cube.rotations[cubie]];
  }
  return turned;
}

int Score(const Cube& cube) {
  int apart = 0;
  for (const auto& [corner, edge] : g_neighbours) {
    apart += cube.rotations[corner] != cube.rotations[edge];
  }
  const auto home = std::count(cube.rotations.begin(), cube.rotations.end(), 0);
  return apart * kApart + kCubies - static_cast<int>(home);
}

}  // namespace rubik
