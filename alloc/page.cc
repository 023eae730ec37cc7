#include "alloc/page.h"

namespace gleaner::alloc {

constinit uint8_t g_epoch = 1;
constinit uint8_t g_young = 4;
constinit uint8_t g_idle_allocation_colour = 1;
constinit platform::Atomic<uint8_t> g_allocation_colour{1};
constinit platform::Atomic<uint8_t> g_dead_mark{0};
constinit platform::Atomic<uint64_t> g_uncollectable_units{0};
constinit uint16_t g_sweep_number = 0;
constinit Contents g_contents[kMaxKinds] = {Contents::kPointerFree, Contents::kWords,
                                            Contents::kWords, Contents::kPointerFree};

}  // namespace gleaner::alloc
