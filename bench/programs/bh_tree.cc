// Building and walking the octree; see bh_tree.h.
#include "bh_tree.h"

#define GC_THREADS
#include <algorithm>
#include <cmath>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"

namespace bh {
namespace {

// Bodies closer than this many halvings of the root cube are an error.
constexpr double kMinHalf = 0x1p-100;

struct Force {
  Vec3 acceleration;
  double potential = 0;

  void Add(const Vec3& towards, double distance_squared, double mass) {
    const double inverse = 1 / std::sqrt(distance_squared + kSoftening * kSoftening);
    const double attraction = mass * inverse;
    potential -= attraction;
    acceleration += towards * (attraction * inverse * inverse);
  }
};

bool IsFar(double edge_squared, double theta_squared, double distance_squared) {
  return edge_squared < theta_squared * distance_squared;
}

void Walk(const Node* node, const Body* body, double edge_squared, double theta_squared,
          Force* force) {
  const Vec3 towards = node->position - body->position;
  const double distance_squared = Dot(towards, towards);
  if (node->kind == Node::Kind::kBody) {
    if (node != body) force->Add(towards, distance_squared, node->mass);
  } else if (IsFar(edge_squared, theta_squared, distance_squared)) {
    force->Add(towards, distance_squared, node->mass);
  } else {
    for (const Node* child : static_cast<const Cell*>(node)->children) {
      if (child != nullptr) Walk(child, body, edge_squared / 4, theta_squared, force);
    }
  }
}

// An interaction list, newest chunk first.
struct Chunk {
  static constexpr uint64_t kCapacity = 61;
  Chunk* next;
  uint64_t size;
  Node* nodes[kCapacity];
};

void Append(Node* node, Chunk** list) {
  if (*list == nullptr || (*list)->size == Chunk::kCapacity) {
    auto* chunk = static_cast<Chunk*>(GC_malloc(sizeof(Chunk)));
    chunk->next = *list;
    *list = chunk;
  }
  (*list)->nodes[(*list)->size++] = node;
}

void Collect(Node* node, const Body* body, double edge_squared, double theta_squared,
             Chunk** list) {
  if (node->kind == Node::Kind::kBody) {
    if (node != body) Append(node, list);
    return;
  }
  const Vec3 towards = node->position - body->position;
  if (IsFar(edge_squared, theta_squared, Dot(towards, towards))) {
    Append(node, list);
    return;
  }
  for (Node* child : static_cast<Cell*>(node)->children) {
    if (child != nullptr) Collect(child, body, edge_squared / 4, theta_squared, list);
  }
}

void Store(const Force& force, Body* body) {
  body->acceleration = force.acceleration;
  body->potential = force.potential;
}

}  // namespace

Cube Cube::Octant(int octant) const {
  const double quarter = half / 2;
  return Cube{centre + Vec3{octant & 1 ? quarter : -quarter, octant & 2 ? quarter : -quarter,
                            octant & 4 ? quarter : -quarter},
              quarter};
}

Cube CubeAround(double reach) {
  double half = 1;
  while (half <= reach) half *= 2;
  return Cube{{}, half};
}

double ReachOf(Body* const* bodies, uint64_t begin, uint64_t end) {
  double reach = 0;
  for (uint64_t i = begin; i < end; ++i) {
    const Vec3& p = bodies[i]->position;
    reach = std::max({reach, std::fabs(p.x), std::fabs(p.y), std::fabs(p.z)});
  }
  if (!std::isfinite(reach)) bench::Fail("a body has left space");
  return reach;
}

Cell* NewCell() {
  bench::RecordProgress();
  auto* cell = static_cast<Cell*>(GC_malloc(sizeof(Cell)));
  cell->kind = Node::Kind::kCell;
  return cell;
}

Node* Insert(Node* subtree, Body* body, const Cube& cube) {
  if (subtree == nullptr) return body;
  if (cube.half < kMinHalf) bench::Fail("two bodies are in the same place");
  Cell* cell;
  if (subtree->kind == Node::Kind::kBody) {
    cell = NewCell();
    cell->children[cube.OctantOf(subtree->position)] = subtree;
  } else {
    cell = static_cast<Cell*>(subtree);
  }
  const int octant = cube.OctantOf(body->position);
  Node*& child = cell->children[octant];
  child = Insert(child, body, cube.Octant(octant));
  return cell;
}

void SummariseCell(Cell* cell) {
  double mass = 0;
  Vec3 moment;
  for (const Node* child : cell->children) {
    if (child == nullptr) continue;
    mass += child->mass;
    moment += child->position * child->mass;
  }
  cell->mass = mass;
  cell->position = moment * (1 / mass);
}

void Summarise(Node* subtree) {
  if (subtree == nullptr || subtree->kind == Node::Kind::kBody) return;
  auto* cell = static_cast<Cell*>(subtree);
  for (Node* child : cell->children) Summarise(child);
  SummariseCell(cell);
}

void ComputeForce(Body* body, Node* root, double half, double theta, bool by_list) {
  Force force;
  Chunk* list = nullptr;
  if (by_list) {
    Collect(root, body, 4 * half * half, theta * theta, &list);
  } else {
    Walk(root, body, 4 * half * half, theta * theta, &force);
  }
  for (const Chunk* chunk = list; chunk != nullptr; chunk = chunk->next) {
    for (uint64_t i = 0; i < chunk->size; ++i) {
      const Vec3 towards = chunk->nodes[i]->position - body->position;
      force.Add(towards, Dot(towards, towards), chunk->nodes[i]->mass);
    }
  }
  Store(force, body);
}

}  // namespace bh
