// <sys/sdt.h> makes a probe of a nop and a note of the object file, which says where the nop is,
// where the arguments are, and the address of the 16-bit semaphore that a tracer counts itself in.
#include "observe/probes.h"

#include "observe/trace.h"

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

namespace gleaner::platform {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the semaphore is the upper half");

constinit __attribute__((section(".probes"))) Atomic<uint32_t> g_listeners{0};

// The notes name their semaphores gleaner_PROBE_semaphore: all are names of the word's upper half.
#define SEMAPHORE(probe)                                                                       \
  extern "C" __attribute__((visibility("hidden"))) unsigned short gleaner_##probe##_semaphore; \
  asm(".hidden gleaner_" #probe                                                                \
      "_semaphore\n"                                                                           \
      ".globl gleaner_" #probe                                                                 \
      "_semaphore\n"                                                                           \
      ".set gleaner_" #probe "_semaphore, _ZN7gleaner8platform11g_listenersE + 2");
SEMAPHORE(pause_part)
SEMAPHORE(pause)
SEMAPHORE(collection)
SEMAPHORE(mark)
SEMAPHORE(idle)
SEMAPHORE(stall)
SEMAPHORE(handshake)
SEMAPHORE(cycle_state)
SEMAPHORE(step)
SEMAPHORE(sweep)
SEMAPHORE(slow_path)
SEMAPHORE(returned)
SEMAPHORE(heap)
SEMAPHORE(drain)
SEMAPHORE(unswept)
SEMAPHORE(program)
#undef SEMAPHORE

// The number of arguments of a row in observe/trace_events.def, and a span's duration. A probe has
// at most twelve arguments, the time among them.
void FireProbe(TraceEvent event, uint64_t begin_ns, const uint64_t* a) {
  switch (event) {
    case TraceEvent::kPausePart:
      STAP_PROBE3(gleaner, pause_part, begin_ns, a[0], a[1]);
      break;
    case TraceEvent::kPause:
      STAP_PROBE3(gleaner, pause, begin_ns, a[0], a[1]);
      break;
    case TraceEvent::kCollection:
      STAP_PROBE12(gleaner, collection, begin_ns, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7],
                   a[8], a[9], a[10]);
      break;
    case TraceEvent::kMark:
      STAP_PROBE6(gleaner, mark, begin_ns, a[0], a[1], a[2], a[3], a[4]);
      break;
    case TraceEvent::kIdle:
      STAP_PROBE3(gleaner, idle, begin_ns, a[0], a[1]);
      break;
    case TraceEvent::kStall:
      STAP_PROBE3(gleaner, stall, begin_ns, a[0], a[1]);
      break;
    case TraceEvent::kHandshake:
      STAP_PROBE2(gleaner, handshake, begin_ns, a[0]);
      break;
    case TraceEvent::kCycleState:
      STAP_PROBE2(gleaner, cycle_state, begin_ns, a[0]);
      break;
    case TraceEvent::kStep:
      STAP_PROBE3(gleaner, step, begin_ns, a[0], a[1]);
      break;
    case TraceEvent::kSweep:
      STAP_PROBE2(gleaner, sweep, begin_ns, a[0]);
      break;
    case TraceEvent::kSlowPath:
      STAP_PROBE3(gleaner, slow_path, begin_ns, a[0], a[1]);
      break;
    case TraceEvent::kReturned:
      STAP_PROBE3(gleaner, returned, begin_ns, a[0], a[1]);
      break;
    case TraceEvent::kHeap:
      STAP_PROBE5(gleaner, heap, begin_ns, a[0], a[1], a[2], a[3]);
      break;
    case TraceEvent::kDrain:
      STAP_PROBE2(gleaner, drain, begin_ns, a[0]);
      break;
    case TraceEvent::kUnswept:
      STAP_PROBE2(gleaner, unswept, begin_ns, a[0]);
      break;
    case TraceEvent::kProgram:
      STAP_PROBE5(gleaner, program, begin_ns, a[0], a[1], a[2], a[3]);
      break;
    default:  // notes for the reader of a trace
      break;
  }
}

}  // namespace gleaner::platform
