// Rubik's cube for the program cube: positions, turns and a score that says how far from solved a
// position seems.
// A position says of each cubie (8 corners, 12 edges) by which of the 24 rotations of a solid cube
// it got from its solved place to where it is: that determines its place and its orientation.
// Turning a face multiplies the rotations of the cubies that are in the face.
// Thread-safety: after BuildTables everything may be called from any thread.
#ifndef GLEANER_BENCH_RUBIK_H_
#define GLEANER_BENCH_RUBIK_H_

#include <array>
#include <cstdint>

namespace rubik {

inline constexpr int kCubies = 20;
inline constexpr int kRotations = 24;  // Rotation 0 is the identity.
// Turn 3 * face + n - 1 is n clockwise quarter turns of a face; faces 2 * axis and 2 * axis + 1 are
// opposite to each other.
inline constexpr int kTurns = 18;

struct Cube {
  std::array<uint8_t, kCubies> rotations{};

  bool operator==(const Cube&) const = default;
  auto operator<=>(const Cube&) const = default;
  bool solved() const { return *this == Cube{}; }
};

// Fills the tables of the other functions. Once, before there are threads.
void BuildTables();

Cube Turned(const Cube& cube, int turn);

// Whether `turn` makes sense after `last`: another face, and of two opposite faces, which commute,
// in one order only.
inline bool MayFollow(int turn, int last) {
  const int face = turn / 3;
  const int last_face = last / 3;
  return face / 2 != last_face / 2 || face > last_face;
}

// How far from solved a cube seems, 0 for the solved one only: the neighbours, a corner and an
// edge, that are not side by side as in the solved cube, kApart each, and the cubies that are not
// home.
int Score(const Cube& cube);
inline constexpr int kApart = 32;
inline constexpr int kScores = 1024;  // Every score is below.

}  // namespace rubik

#endif  // GLEANER_BENCH_RUBIK_H_
