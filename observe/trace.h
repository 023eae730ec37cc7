// Events of a collector trace: rings that threads write to, and whoever drains them.
// docs/design/invariants.md has the argument why nothing is torn or lost without being counted
// [inv.trace-ring].
//
// Emitting makes no system call but the clock's, takes no lock and waits for nobody, so any code
// may do it, signal handlers included. A thread without a ring adds nothing to the trace. Each
// event is also a probe (observe/probes.h), which fires on threads without a ring as well.
//
// Call order: StartTrace once; then for each thread BeginTraceOfThread, EmitTrace any number of
// times, EndTraceOfThread. Meanwhile DrainTrace by one thread at a time, which the caller sees to.
#pragma once

#include <initializer_list>

#include "observe/probes.h"
#include "platform/os/atomic.h"
#include "platform/os/clock.h"

namespace gleaner::platform {

enum class TraceEvent : uint8_t {
  kNone,
#define TRACE_EVENT(number, id, name, form, arguments) k##id = (number),
#include "observe/trace_events.def"
#undef TRACE_EVENT
};

// What an allocation had to do that it seldom has to.
enum class TracePath : uint8_t {
  kFreshPage,  // a page that no thread has, or another thread's
  kGrowth,     // memory from the system
};
constexpr const char* NameOf(TracePath path) {
  constexpr const char* kNames[] = {"fresh page", "growth"};
  return kNames[static_cast<int>(path)];
}

enum class TraceRole : uint8_t { kMutator, kMarker, kDriver };
constexpr const char* NameOf(TraceRole role) {
  constexpr const char* kNames[] = {"mutator", "marker", "driver"};
  return kNames[static_cast<int>(role)];
}

// A record is a row of words: a header, the time of the event's beginning (CLOCK_MONOTONIC, ns),
// the arguments. The header is never 0.
//
//   63          32 31          16 15    8 7    0
//   | thread       | zero         | words | event |     thread: from 1, in the order of appearance
constexpr uint64_t TraceHeader(TraceEvent event, size_t words, uint32_t thread) {
  return static_cast<uint64_t>(event) | static_cast<uint64_t>(words) << 8 |
         static_cast<uint64_t>(thread) << 32;
}
constexpr TraceEvent TraceEventOf(uint64_t header) {
  return static_cast<TraceEvent>(header & 0xff);
}
constexpr size_t TraceWordsOf(uint64_t header) { return header >> 8 & 0xff; }
constexpr uint32_t TraceThreadOf(uint64_t header) { return static_cast<uint32_t>(header >> 32); }

// Whether anybody wants events: the trace, or somebody who has enabled a probe. One load. A hint:
// events before and after a change may be emitted or not.
inline bool IsTracing() { return GLEANER_UNLIKELY(g_listeners.Load(memory_order_relaxed) != 0); }
// Whether events go to the trace. A hint, as above.
inline bool HasTrace() { return (g_listeners.Load(memory_order_relaxed) & kTraceListens) != 0; }

// False if there is no memory for it.
[[nodiscard]] bool StartTrace();
// Events are dropped from now on, and not counted.
void StopTrace();

// The calling thread's events count from now on as those of the next thread number; before, it had
// none. `name` may be null. Not async-signal-safe. No effect without a trace, or if there is no
// ring to be had: then the thread's events are not traced, and UntracedThreads counts it.
void BeginTraceOfThread(TraceRole role, const char* name);
// From time to time: the program may have given the thread another name. Not async-signal-safe.
void ContinueTraceOfThread();
void EndTraceOfThread();
// At the end of the trace: passes the names that the threads have now, and how long each has waited
// for a processor, to `write`, as records. False if `write` has said so.
bool WriteEndsOfThreads(bool (*write)(void* context, const uint64_t* words, size_t count),
                        void* context);

// Adds an event to the calling thread's ring, and fires its probe. Async-signal-safe.
void EmitTrace(TraceEvent event, uint64_t begin_ns, std::initializer_list<uint64_t> arguments);

// An event that lasts as long as this object. Reads the clock only while events are traced.
class TraceSpan {
 public:
  TraceSpan() : begin_ns_(IsTracing() ? NowNs() : 0) {}
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  // Emits the event, which ends now, with the arguments that follow its duration.
  template <class... Arguments>
  void End(TraceEvent event, Arguments... arguments) const {
    if (begin_ns_ == 0 || !IsTracing()) return;
    EmitTrace(event, begin_ns_, {NowNs() - begin_ns_, static_cast<uint64_t>(arguments)...});
  }
  uint64_t begin_ns() const { return begin_ns_; }

 private:
  const uint64_t begin_ns_;
};

// An event that lasts as long as this object and has at most one argument but its duration.
class TraceScope {
 public:
  explicit TraceScope(TraceEvent event) : event_(event), has_argument_(false), argument_(0) {}
  TraceScope(TraceEvent event, uint64_t argument)
      : event_(event), has_argument_(true), argument_(argument) {}
  ~TraceScope() { has_argument_ ? span_.End(event_, argument_) : span_.End(event_); }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  const TraceSpan span_;
  const TraceEvent event_;
  const bool has_argument_;
  const uint64_t argument_;
};

// Passes what rings hold to write(context, words, count), whole records at a time, in the order of
// each thread. With `all` false only rings that are a quarter full. False if `write` has said so;
// what it was given then is lost. pre: no other thread drains.
bool DrainTrace(bool all, bool (*write)(void* context, const uint64_t* words, size_t count),
                void* context);

// How a limit on bytes stands in a trace: 0 if there is none, which is what one beyond any address
// space means.
constexpr uint64_t TracedLimit(uint64_t bytes) { return bytes >> 48 != 0 ? 0 : bytes; }

// Whether the calling thread's ring is a quarter full.
bool IsTraceFilling();

// Events that found no room, and threads that found no ring, so far.
uint64_t DroppedTraceEvents();
uint64_t UntracedThreads();

// In a forked child, once: forgets the parent's events. The caller gets another ring, since the
// fork may have interrupted EmitTrace, and is thread 1 if the child has traced no other thread
// before.
void ResetTraceAfterFork();

}  // namespace gleaner::platform
