// Bodies that attract each other, by the method of Barnes and Hut: an octree, every cell a block of
// its own, is built and freed in each step. Forces take most of the time, the tree all of the
// allocation.
#include <cmath>
#include <cstdlib>
#include <vector>

#include "copies.h"

namespace {

struct Vector {
  double x = 0, y = 0, z = 0;
};
Vector operator+(Vector a, Vector b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
Vector operator-(Vector a, Vector b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
Vector operator*(Vector a, double f) { return {a.x * f, a.y * f, a.z * f}; }
double Square(Vector a) { return a.x * a.x + a.y * a.y + a.z * a.z; }

struct Body {
  Vector place, speed;
  double mass = 0;
};

// A leaf has one body, an inner cell up to eight parts.
struct Cell {
  Vector centre;  // of mass, once Sum was called
  double mass = 0;
  const Body* body = nullptr;
  Cell* part[8] = {};
};

Cell* NewCell() {
  void* memory = std::malloc(sizeof(Cell));
  if (memory == nullptr) bench::Fail("no memory");
  return new (memory) Cell;
}

int PartOf(Vector middle, Vector place) {
  return (place.x >= middle.x ? 1 : 0) | (place.y >= middle.y ? 2 : 0) |
         (place.z >= middle.z ? 4 : 0);
}
Vector MiddleOf(Vector middle, double half, int part) {
  const double quarter = half / 2;
  return middle + Vector{(part & 1) != 0 ? quarter : -quarter, (part & 2) != 0 ? quarter : -quarter,
                         (part & 4) != 0 ? quarter : -quarter};
}

// The cell is a cube around `middle` with edges of 2 * half.
void Insert(Cell** cell, const Body* body, Vector middle, double half) {
  while (*cell != nullptr) {
    if ((*cell)->body != nullptr) {
      Cell* inner = NewCell();
      inner->part[PartOf(middle, (*cell)->body->place)] = *cell;
      *cell = inner;
    }
    const int part = PartOf(middle, body->place);
    cell = &(*cell)->part[part];
    middle = MiddleOf(middle, half, part);
    half /= 2;
    if (half < 1e-12) return;  // two bodies at one place: the second has no weight in this step
  }
  *cell = NewCell();
  (*cell)->body = body;
}

void Sum(Cell* cell) {
  if (cell->body != nullptr) {
    cell->mass = cell->body->mass;
    cell->centre = cell->body->place;
    return;
  }
  for (Cell* part : cell->part) {
    if (part == nullptr) continue;
    Sum(part);
    cell->mass += part->mass;
    cell->centre = cell->centre + part->centre * part->mass;
  }
  cell->centre = cell->centre * (1 / cell->mass);
}

void Free(Cell* cell) {
  for (Cell* part : cell->part) {
    if (part != nullptr) Free(part);
  }
  std::free(cell);
}

Vector PullOf(const Cell* cell, const Body& body, double half) {
  if (cell->body == &body) return {};
  const Vector way = cell->centre - body.place;
  const double distance = Square(way) + 1e-4;
  if (cell->body != nullptr || 4 * half * half < 0.49 * distance) {
    return way * (cell->mass / (distance * std::sqrt(distance)));
  }
  Vector sum;
  for (const Cell* part : cell->part) {
    if (part != nullptr) sum = sum + PullOf(part, body, half / 2);
  }
  return sum;
}

// The sum of the bodies' squared distances from the origin at the end.
double Simulate(uint64_t count, uint64_t steps) {
  bench::Rng random(1);
  std::vector<Body> bodies(count);
  for (Body& body : bodies) {
    body.place = {random.Unit() - 0.5, random.Unit() - 0.5, random.Unit() - 0.5};
    body.mass = (0.5 + random.Unit()) / static_cast<double>(count);
  }
  constexpr double kStep = 1e-3;
  for (uint64_t step = 0; step < steps; ++step) {
    double half = 0;
    for (const Body& body : bodies) half = std::fmax(half, std::sqrt(Square(body.place)));
    Cell* root = NewCell();
    for (const Body& body : bodies) Insert(&root, &body, {}, half);
    Sum(root);
    for (Body& body : bodies) body.speed = body.speed + PullOf(root, body, half) * kStep;
    for (Body& body : bodies) body.place = body.place + body.speed * kStep;
    Free(root);
  }
  double checksum = 0;
  for (const Body& body : bodies) checksum += Square(body.place);
  return checksum;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t count, steps;
  bench::Options options("barnes", "an octree of malloc'ed cells, built and freed in each step");
  options.Number("bodies", &count, 20'000, 300, 1, 1 << 24, "how many");
  options.Number("steps", &steps, 8, 3, 1, 1 << 20, "how many");
  options.Parse(argc, argv);
  double checksum;
  const double seconds =
      bench::RunCopies(options.threads(), &checksum, [&] { return Simulate(count, steps); });
  bench::ResultLine result("barnes");
  result.Count("threads", static_cast<uint64_t>(options.threads()));
  result.Real("seconds", seconds);
  result.Real("checksum", checksum);
  result.Print();
}
