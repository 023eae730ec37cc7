// What `gleaner run --stats` learns of the program it has started.
//
// The tool makes the record in shared memory, writes the number of the process into it and names it
// in the environment (GLEANER_RUN_RECORD). The library of that process, and of no other that
// inherits the variable, writes its figures there as it goes, so that they are there however the
// process ends. A process that executes one program after the other adds them up.
#pragma once

#include "gc/pause.h"
#include "platform/atomic.h"
#include "runtime/tracking.h"

namespace gleaner::runtime {

// Every field is true by itself; a process that is killed may leave some newer than others. All
// accesses are relaxed: the tool reads once the process has ended.
struct RunRecord {
  static constexpr uint64_t kLayout = 0x676c65616e657233;  // of this structure

  // Written by the tool before the program starts.
  uint64_t layout;
  platform::Atomic<uint64_t> process;

  // Written by the library.
  platform::Atomic<uint64_t> programs;  // that have started the collector
  platform::Atomic<uint64_t> collections;
  platform::Atomic<uint64_t> pause_ns;
  platform::Atomic<uint64_t> max_pause_ns;
  // The parts of the longest pause; of one program if the process executes several.
  platform::Atomic<uint64_t> max_pause_part_ns[gc::kPauseParts];
  platform::Atomic<uint64_t> max_stall_ns;  // of a thread, from any cause
  platform::Atomic<uint64_t> allocated_bytes;
  platform::Atomic<uint64_t> freed_bytes;          // found unreachable, or given to GC_free
  platform::Atomic<uint64_t> peak_resident_bytes;  // 0 until the program ends by exit

  // The modes of the last program, and collections in them of all.
  platform::Atomic<uint64_t> is_concurrent;
  platform::Atomic<uint64_t> is_generational;
  platform::Atomic<uint64_t> concurrent;  // marked concurrently
  platform::Atomic<uint64_t> minors;
  // Texts, written under the collector lock. One that is cut off by the program's end is shorter.
  char tracking[16];
  char reason[160];
};

// At initialisation: finds the record if the options name one for this process.
void AttachRunRecord();
// After a collection; collector lock held.
void NoteCollectionInRunRecord();
// When the modes in use have changed; collector lock held.
void NoteModesInRunRecord(const Modes& modes, const char* tracking, const char* reason);
// When a thread has reported what it allocated.
void NoteAllocationInRunRecord();

}  // namespace gleaner::runtime
