// The bodies of the Barnes-Hut program: their layout, their initial conditions and their energy.
#ifndef GLEANER_BENCH_BH_BODIES_H_
#define GLEANER_BENCH_BH_BODIES_H_

#include <cstdint>

namespace bh {

// Gravitational softening length, in the units of the Plummer model (G = M = 1, E = -1/4).
inline constexpr double kSoftening = 0.05;

struct Vec3 {
  double x = 0, y = 0, z = 0;

  Vec3& operator+=(const Vec3& other) {
    x += other.x;
    y += other.y;
    z += other.z;
    return *this;
  }
};

inline Vec3 operator+(Vec3 a, const Vec3& b) { return a += b; }
inline Vec3 operator-(const Vec3& a, const Vec3& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
inline Vec3 operator*(const Vec3& a, double s) { return {a.x * s, a.y * s, a.z * s}; }
inline double Dot(const Vec3& a, const Vec3& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

// The common part of bodies and cells: what exerts gravity.
struct Node {
  enum class Kind : uint64_t { kBody, kCell };
  Kind kind;
  double mass;
  Vec3 position;  // Of a cell: its centre of mass.
};

// In collected memory without pointers. Written by the thread that owns it in the current phase.
struct Body : Node {
  Vec3 velocity;
  Vec3 acceleration;
  double potential;
};

struct Totals {
  double kinetic = 0;
  double potential = 0;
  Vec3 momentum;

  double energy() const { return kinetic + potential; }
};

// The two halves of a leapfrog step; the forces are computed in between.
void Advance(Body* const* bodies, uint64_t begin, uint64_t end);
void Accelerate(Body* const* bodies, uint64_t begin, uint64_t end);

// How much the energy has changed, in parts of what it was. Fails if that is too much.
double CheckedDrift(const Totals& before, const Totals& after);

// Returns an array of `count` bodies in collected memory that sample the Plummer model (Aarseth,
// Henon, Wielen, 1974) in its centre-of-mass frame. The same seed gives the same bodies.
Body** NewPlummerModel(uint64_t count, uint64_t seed);

// Sums over the bodies in the order of the array, so the result does not depend on threads.
Totals TotalsOf(Body* const* bodies, uint64_t count);

// A hash of every position and velocity.
uint64_t HashOf(Body* const* bodies, uint64_t count);

}  // namespace bh

#endif  // GLEANER_BENCH_BH_BODIES_H_
