// Initial conditions and totals; see bh_bodies.h.
#include "bh_bodies.h"

#define GC_THREADS
#include <bit>
#include <cmath>
#include <numbers>

#include "bench_util.h"
#include "gc.h"

namespace bh {
namespace {

// Mass shells beyond this fraction are left out, which bounds the radius.
constexpr double kMassCut = 0.999;
constexpr double kTimeStep = 0.025;
constexpr double kMaxDrift = 2e-3;

Vec3 OnSphere(double radius, bench::Rng* rng) {
  const double z = 2 * rng->Unit() - 1;
  const double angle = 2 * std::numbers::pi * rng->Unit();
  const double rho = std::sqrt(1 - z * z);
  return Vec3{rho * std::cos(angle), rho * std::sin(angle), z} * radius;
}

}  // namespace

Body** NewPlummerModel(uint64_t count, uint64_t seed) {
  constexpr double kLength = 3 * std::numbers::pi / 16;
  const double speed_unit = std::sqrt(1 / kLength);
  auto** bodies = static_cast<Body**>(GC_malloc(count * sizeof(Body*)));
  bench::Rng rng(seed);
  Vec3 centre, drift;
  for (uint64_t i = 0; i < count; ++i) {
    auto* body = static_cast<Body*>(GC_malloc_atomic(sizeof(Body)));
    *body = Body{};
    body->kind = Node::Kind::kBody;
    body->mass = 1 / static_cast<double>(count);
    const double fraction = kMassCut * (1 - rng.Unit());
    const double radius = 1 / std::sqrt(std::pow(fraction, -2.0 / 3) - 1);
    body->position = OnSphere(kLength * radius, &rng);
    double ratio, bound;
    do {
      ratio = rng.Unit();
      bound = 0.1 * rng.Unit();
    } while (bound > ratio * ratio * std::pow(1 - ratio * ratio, 3.5));
    const double speed = ratio * std::numbers::sqrt2 / std::pow(1 + radius * radius, 0.25);
    body->velocity = OnSphere(speed_unit * speed, &rng);
    centre += body->position * body->mass;
    drift += body->velocity * body->mass;
    bodies[i] = body;
  }
  for (uint64_t i = 0; i < count; ++i) {
    bodies[i]->position = bodies[i]->position - centre;
    bodies[i]->velocity = bodies[i]->velocity - drift;
  }
  return bodies;
}

void Advance(Body* const* bodies, uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; ++i) {
    bodies[i]->velocity += bodies[i]->acceleration * (kTimeStep / 2);
    bodies[i]->position += bodies[i]->velocity * kTimeStep;
  }
}

void Accelerate(Body* const* bodies, uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; ++i) {
    bodies[i]->velocity += bodies[i]->acceleration * (kTimeStep / 2);
  }
}

double CheckedDrift(const Totals& before, const Totals& after) {
  const double drift = std::fabs(after.energy() / before.energy() - 1);
  if (!(drift < kMaxDrift)) {
    bench::Fail("energy went from %.9g to %.9g", before.energy(), after.energy());
  }
  return drift;
}

Totals TotalsOf(Body* const* bodies, uint64_t count) {
  Totals totals;
  for (uint64_t i = 0; i < count; ++i) {
    const Body& body = *bodies[i];
    totals.kinetic += 0.5 * body.mass * Dot(body.velocity, body.velocity);
    totals.potential += 0.5 * body.mass * body.potential;
    totals.momentum += body.velocity * body.mass;
  }
  return totals;
}

uint64_t HashOf(Body* const* bodies, uint64_t count) {
  uint64_t hash = count;
  for (uint64_t i = 0; i < count; ++i) {
    const Body& body = *bodies[i];
    for (double value : {body.position.x, body.position.y, body.position.z, body.velocity.x,
                         body.velocity.y, body.velocity.z}) {
      hash = bench::Mix64(hash ^ std::bit_cast<uint64_t>(value)) + i;
    }
  }
  return hash;
}

}  // namespace bh
