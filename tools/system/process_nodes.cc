#include "tools/system/process_nodes.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

namespace gleaner::tools {
namespace {

// Pages of one call: the kernel holds its lock for each call's batches only, and the arrays stay in
// the cache.
constexpr size_t kPagesPerCall = 1 << 15;

// move_pages in several calls; `nodes` is null for a query. Returns 0 or the error of a call that
// has done nothing.
int CallMovePages(int thread, const std::vector<uint64_t>& pages, const int* nodes, int flags,
                  std::vector<int>* results) {
  results->assign(pages.size(), -EAGAIN);
  for (size_t at = 0; at < pages.size(); at += kPagesPerCall) {
    const size_t count = std::min(kPagesPerCall, pages.size() - at);
    const long returned = syscall(SYS_move_pages, thread, count, &pages[at],
                                  nodes == nullptr ? nullptr : nodes + at, &(*results)[at], flags);
    // A positive number is that of pages that were not moved; their results say why.
    if (returned < 0) return errno;
  }
  return 0;
}

}  // namespace

int QueryNodes(int thread, const std::vector<uint64_t>& pages, std::vector<int>* nodes) {
  return CallMovePages(thread, pages, nullptr, 0, nodes);
}

int MoveToNodes(int thread, const std::vector<uint64_t>& pages, const std::vector<int>& nodes,
                bool of_others, std::vector<int>* results) {
  return CallMovePages(thread, pages, nodes.data(), of_others ? MPOL_MF_MOVE_ALL : MPOL_MF_MOVE,
                       results);
}

std::string SystemFile(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace gleaner::tools
