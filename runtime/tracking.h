// The modes that must know what the program writes, concurrent and generational, and how it is
// found out for them.
//
// One tracker serves both. It is chosen when the first of them is turned on: the first mechanism
// that works, of
//   the option write_tracking       that one alone
//   GC_set_manual_vdb_allowed(1)    cards, then as auto
//   auto                            platform::kBestFirst
// The system may refuse to go on with it later. Then the collection after that turns the modes on
// again with the rest of the list. When nothing is left, the modes are off, and one line says why.
// docs/write_tracking.md, "Choice".
#pragma once

#include "platform/write_tracking.h"

namespace gleaner::runtime {

struct Modes {
  bool concurrent = false;
  bool generational = false;
};

// Turns modes on, if writes can be tracked; those that are on stay so. Otherwise prints a line.
// Any thread, without locks. pre: initialisation has come to the options at least.
void TurnOn(const Modes& modes);

// Any thread, at any time.
bool IsConcurrent();
Modes ModesInUse();
// How writes are tracked for them; kNone if none is on.
platform::TrackingKind TrackingInUse();
// How they would be after TurnOn. The rest take the collector lock and some 100 us.
platform::TrackingKind TrackingToUse();
// Whether the system can do it in that way.
bool CanTrack(platform::TrackingKind kind);

// Why no mode, or no better mechanism, is in use: for people, empty if there is no reason. Cut off
// at `capacity`. Takes the collector lock.
void CopyReason(char* text, size_t capacity);

// Collector lock held. Whether a mode that is wanted has no tracker, and nobody may be about to
// find one: the last was lost, or a fork came in the midst of it.
bool NeedsTracker();
// Then, after a collection, on a mutator without locks.
void ReplaceLostTracker();

}  // namespace gleaner::runtime
