// On which nodes the pages of another process are, and moving them there.
#pragma once

#include <cstdint>
#include <vector>

namespace gleaner::tools {

// The node of each page, or a negative error: -ENOENT for a page that is not in memory, -EFAULT for
// the zero page and for addresses without memory. Returns 0, or the error of the whole call: ENOSYS
// without NUMA in the kernel, EPERM where a filter or the kernel forbids it.
int QueryNodes(int thread, const std::vector<uint64_t>& pages, std::vector<int>* nodes);

// Moves each page to the node of the same index. `of_others`: pages that other processes map, too,
// which takes CAP_SYS_NICE. Afterwards `results` has the node of each page, or a negative error:
// -EACCES for a page that others map. Returns 0 or the error of the call.
int MoveToNodes(int thread, const std::vector<uint64_t>& pages, const std::vector<int>& nodes,
                bool of_others, std::vector<int>* results);

}  // namespace gleaner::tools
