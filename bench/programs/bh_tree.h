// The octree of the Barnes-Hut program (Barnes, Hut, Nature 324, 1986). Cells live in collected
// memory and are made anew for every step.
//
// A cube with two or more bodies is a cell, a cube with one is that body, an empty one is null. The
// tree therefore depends on the positions alone, not on the order of insertion, and a cell sums up
// its children in the order of the octants: results are equal to the last bit for every number of
// threads and both ways of building.
#ifndef GLEANER_BENCH_BH_TREE_H_
#define GLEANER_BENCH_BH_TREE_H_

#include <cstdint>

#include "bh_bodies.h"

namespace bh {

struct Cell : Node {
  Node* children[8];
};

// A cube whose half edge is a power of two and whose centre is a multiple of it: halving is exact.
struct Cube {
  Vec3 centre;
  double half;

  // Which of the eight octants holds the point: bit 0 for x, 1 for y, 2 for z.
  int OctantOf(const Vec3& point) const {
    return (point.x >= centre.x ? 1 : 0) | (point.y >= centre.y ? 2 : 0) |
           (point.z >= centre.z ? 4 : 0);
  }
  Cube Octant(int octant) const;
};

// The least such cube around the origin with |x|, |y|, |z| < half for coordinates up to `reach`.
Cube CubeAround(double reach);

// The largest absolute coordinate of bodies[begin] ... bodies[end - 1].
double ReachOf(Body* const* bodies, uint64_t begin, uint64_t end);

// Adds a body to the subtree of `cube` and returns the subtree's new root.
Node* Insert(Node* subtree, Body* body, const Cube& cube);

// Sets mass and centre of mass of all cells below, from the leaves up.
void Summarise(Node* subtree);

// A new cell without children.
Cell* NewCell();

// Sets mass and centre of mass of one cell from its children.
void SummariseCell(Cell* cell);

// Sets acceleration and potential of a body from a tree with the root cube's half edge. A cell is
// one mass if its edge is less than theta times its distance. With an interaction list (Barnes, "A
// modified tree code", 1990) the nodes that act on the body are first collected in a list of chunks
// in collected memory.
void ComputeForce(Body* body, Node* root, double half, double theta, bool by_list);

}  // namespace bh

#endif  // GLEANER_BENCH_BH_TREE_H_
