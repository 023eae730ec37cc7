// The figures that `gleaner run --stats` gets from the program it has started.
//
// The tool creates the record in shared memory, writes the process number into it and names it in
// the environment (GLEANER_RUN_RECORD). Only the library of that process writes figures there;
// other processes that inherit the variable do not. It writes them as the program goes, so that
// they exist however the process ends. A process that executes several programs in turn adds up
// their figures.
#pragma once

#include "gc/policy/pause.h"
#include "platform/os/atomic.h"
#include "runtime/collect/tracking.h"

namespace gleaner::runtime {

// Every figure is true by itself; a process that is killed may leave some newer than others. The
// tool reads them after the process has ended.
struct RunRecord {
  static constexpr uint64_t kLayout = 0x676c65616e657233;  // changes with this structure

  // Written by the tool before the program starts.
  uint64_t layout;
  platform::Atomic<uint64_t> process;

  // Written by the library.
  platform::Hint<uint64_t> programs;     // programs of the process that have started the collector
  platform::Hint<uint64_t> collections;  // and their pauses: without inspections
  platform::Hint<uint64_t> pause_ns;
  platform::Hint<uint64_t> max_pause_ns;
  // The parts of the longest pause. If the process executes several programs, of one of them.
  platform::Hint<uint64_t> max_pause_part_ns[gc::kPauseParts];
  platform::Hint<uint64_t> max_stall_ns;  // the longest stall of one thread, from any cause
  platform::Hint<uint64_t> allocated_bytes;
  platform::Hint<uint64_t> freed_bytes;          // bytes found unreachable or given to GC_free
  platform::Hint<uint64_t> peak_resident_bytes;  // 0 until the program ends by exit

  // The modes of the last program, and the counts of collections in them over all programs.
  platform::Hint<uint64_t> is_concurrent;
  platform::Hint<uint64_t> is_generational;
  platform::Hint<uint64_t> concurrent;  // collections that marked concurrently
  platform::Hint<uint64_t> minors;
  // Texts, written under the collector lock. Cut short if the program ends during the write.
  char tracking[16];
  char reason[160];
};

// At initialisation: maps the record if the options name one and it is for this process.
void AttachRunRecord();
// After a collection. pre: the collector lock is held.
void RecordCollectionInRunRecord();
// When the modes in use have changed. pre: the collector lock is held.
void RecordModesInRunRecord(const Modes& modes, const char* tracking, const char* reason);
// When a thread has reported what it allocated. Any thread.
void RecordAllocationInRunRecord();

}  // namespace gleaner::runtime
