#include "tools/numa/numa_fix.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/common/text.h"
#include "tools/system/process_nodes.h"

namespace gleaner::tools {
namespace {

// The pages of a mapping that are on other nodes than they are to be, and where they are to go.
struct Batch {
  std::vector<uint64_t> pages;
  std::vector<int> targets;
};

// Returns 0 or an error.
int Collect(const ProcessMemory& memory, const MisplacedMapping& mapping, Batch* batch) {
  std::vector<uint64_t> present;
  if (!memory.VisitPresence(mapping.begin, mapping.end, [&](uint64_t page, bool is_there) {
        if (is_there) present.push_back(page);
      })) {
    return EIO;
  }
  std::vector<int> nodes;
  if (const int error = QueryNodes(memory.thread(), present, &nodes); error != 0) return error;
  for (size_t i = 0; i < present.size(); ++i) {
    if (nodes[i] < 0 ||
        std::find(mapping.nodes.begin(), mapping.nodes.end(), nodes[i]) != mapping.nodes.end()) {
      continue;
    }
    batch->targets.push_back(mapping.nodes[batch->targets.size() % mapping.nodes.size()]);
    batch->pages.push_back(present[i]);
  }
  return 0;
}

std::string Reason(int error, bool own_pages_only) {
  switch (error) {
    case EACCES:
      return own_pages_only ? "other processes have them, too, and to move these takes "
                              "CAP_SYS_NICE. `gleaner run --local-text PROGRAM` starts the program "
                              "with a copy of its own"
                            : "other processes have them, too";
    case EBUSY:
      return "they were in use at that moment, or are pinned";
    case ENOMEM:
      return "there is no room on their node";
    case ENODEV:
      return "their node is gone";
    case EFAULT:
      return "the kernel moves none of that mapping";
    default:
      return strerror(error);
  }
}

}  // namespace

uint64_t NumaMoves::Stayed() const {
  uint64_t sum = 0;
  for (const auto& [error, pages] : stayed_pages) sum += pages;
  return sum;
}

std::string NumaMoves::Text() const {
  if (error != 0) {
    return std::string("Nothing was moved: move_pages fails with: ") + strerror(error) +
           (error == ENOSYS  ? " (a kernel without NUMA, or a filter of system calls)."
            : error == EPERM ? " (another user's process, or a filter of system calls)."
                             : ".");
  }
  std::string text = "Moved: " + Count(moved_pages) + " pages.";
  for (const auto& [reason, pages] : stayed_pages) {
    text += " " + Count(pages) + " stay: " + Reason(reason, own_pages_only) + ".";
  }
  return text;
}

Json NumaMoves::AsJson() const {
  Json stayed = Json::object();
  for (const auto& [reason, pages] : stayed_pages) stayed[strerrorname_np(reason)] = pages;
  return {{"error", error},
          {"pages", moved_pages},
          {"own_pages_only", own_pages_only},
          {"stayed", stayed}};
}

NumaMoves MoveMisplaced(const ProcessMemory& memory, const NumaPlaces& places) {
  NumaMoves moves;
  for (const MisplacedMapping& mapping : places.misplaced) {
    Batch batch;
    moves.error = Collect(memory, mapping, &batch);
    if (moves.error != 0) break;
    if (batch.pages.empty()) continue;
    std::vector<int> results;
    const auto move = [&] {
      return MoveToNodes(memory.thread(), batch.pages, batch.targets, !moves.own_pages_only,
                         &results);
    };
    moves.error = move();
    if (moves.error == EPERM && !moves.own_pages_only) {
      moves.own_pages_only = true;
      moves.error = move();
    }
    if (moves.error != 0) break;
    // A page that moved counts when it is asked for again: a result of the move may be that of the
    // huge page around it.
    std::vector<int> now;
    moves.error = QueryNodes(memory.thread(), batch.pages, &now);
    if (moves.error != 0) break;
    for (size_t i = 0; i < now.size(); ++i) {
      const bool is_placed =
          std::find(mapping.nodes.begin(), mapping.nodes.end(), now[i]) != mapping.nodes.end();
      if (is_placed) {
        ++moves.moved_pages;
      } else if (now[i] >= 0) {
        // Without a reason the kernel gave it up after some tries.
        ++moves.stayed_pages[results[i] < 0 ? -results[i] : EBUSY];
      }
    }
  }
  return moves;
}

}  // namespace gleaner::tools
