#include "tools/system/process_nodes.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

namespace gleaner::tools {
namespace {

// Pages of one call: the kernel holds its lock for each call's batches only, and the arrays stay in
// the cache.
constexpr size_t kPagesPerCall = 1 << 15;
// Queries of fewer pages have one thread.
constexpr size_t kPagesPerSlice = 1 << 13;
constexpr size_t kMaxSlices = 4;

// move_pages in several calls for pages [begin, end); `nodes` is null for a query. Returns 0 or the
// error of a call that has done nothing.
int CallMovePages(int thread, const std::vector<uint64_t>& pages, size_t begin, size_t end,
                  const int* nodes, int flags, int* results) {
  for (size_t at = begin; at < end; at += kPagesPerCall) {
    const size_t count = std::min(kPagesPerCall, end - at);
    const long returned = syscall(SYS_move_pages, thread, count, &pages[at],
                                  nodes == nullptr ? nullptr : nodes + at, results + at, flags);
    // A positive number is that of pages that were not moved; their results say why.
    if (returned < 0) return errno;
  }
  return 0;
}

}  // namespace

int QueryNodes(int thread, const std::vector<uint64_t>& pages, std::vector<int>* nodes) {
  nodes->assign(pages.size(), -EAGAIN);
  // A page takes some 0.2 us; the kernel answers several threads at once.
  const size_t slices = std::clamp<size_t>(pages.size() / kPagesPerSlice, 1, kMaxSlices);
  std::array<int, kMaxSlices> errors = {};
  std::vector<std::thread> helpers;
  const auto ask = [&](size_t slice) {
    errors[slice] = CallMovePages(thread, pages, pages.size() * slice / slices,
                                  pages.size() * (slice + 1) / slices, nullptr, 0, nodes->data());
  };
  for (size_t slice = 1; slice < slices; ++slice) helpers.emplace_back(ask, slice);
  ask(0);
  for (std::thread& helper : helpers) helper.join();
  return *std::max_element(errors.begin(), errors.end());
}

int MoveToNodes(int thread, const std::vector<uint64_t>& pages, const std::vector<int>& nodes,
                bool of_others, std::vector<int>* results) {
  results->assign(pages.size(), -EAGAIN);
  return CallMovePages(thread, pages, 0, pages.size(), nodes.data(),
                       of_others ? MPOL_MF_MOVE_ALL : MPOL_MF_MOVE, results->data());
}

}  // namespace gleaner::tools
