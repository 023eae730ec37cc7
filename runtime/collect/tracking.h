// The modes that need to know what the program writes (concurrent and generational), and the choice
// of the write tracker for them.
//
// The program asks for a mode (options, GC_enable_incremental). Unless it has, and with the option
// mode=auto, the collector turns both on once collections have taken some time:
// docs/design/policy.md. Then no mechanism is used that a correct program can notice.
//
// One tracker serves both modes. It is chosen when the first mode is turned on: the first mechanism
// that works, from
//   the option write_tracking       that one alone
//   the collector's own choice      platform::kUnnoticed
//   GC_set_manual_vdb_allowed(1)    cards, then as auto
//   auto                            platform::kBestFirst
// The system may stop supporting a mechanism later. The next collection is then followed by a
// choice from the rest of the list. When no mechanism is left, the modes are off, and one line says
// why. docs/design/write_tracking.md, "Choice".
#pragma once

#include "platform/tracking/write_tracking.h"

namespace gleaner::runtime {

struct Modes {
  bool concurrent = false;
  bool generational = false;
};

// From now on a filter of system calls that the program installs waits until no step of the
// collector is under way that the filter might not allow. Called once, at initialisation.
void HeedFilters();

// The program asks for modes: turns them on, if writes can be tracked; modes that are on stay on.
// Otherwise prints a line that says why. Any thread, without locks. pre: initialisation has read
// the options.
void TurnOn(const Modes& modes);
// Turns on what the options ask for. Called once, at initialisation.
void TurnOnByOptions();

// Whether the collector is to turn both modes on now, without being asked. pre: the collector lock
// is held.
bool ShouldTurnOnAutomatically();
// Called after a collection for which ShouldTurnOnAutomatically is true, on a mutator without
// locks.
void TurnOnAutomatically();

// Whether the cost of a first write to tracked memory is to be measured again, since the machine's
// load may have changed. pre: the collector lock is held.
bool ShouldMeasureAgain();
// Called after a collection for which ShouldMeasureAgain is true, on a mutator without locks.
void MeasureAgain();

// Any thread, at any time. The answer may change at once.
bool IsConcurrent();
Modes ModesInUse();
// Whether the program has asked for a mode, so that those in use are not the collector's choice.
bool IsProgramsChoice();
// Whether the collector chooses: not IsProgramsChoice, and the option mode is auto.
bool IsAutomatic();
// Whether the program has asked for concurrent collections, and they are on.
bool IsIncremental();
// How writes are tracked for the modes in use; kNone if no mode is on.
platform::TrackingKind TrackingInUse();
// How writes would be tracked after TurnOn({.concurrent = true}). This call and the next two take
// the collector lock; the first two test mechanisms, which takes some 100 us.
platform::TrackingKind TrackingToUse();
// Whether writes can be tracked by this mechanism.
bool CanTrack(platform::TrackingKind kind);

// Copies the reason why no mode, or no better mechanism, is in use: text for people, empty if there
// is none. Cut off at `capacity` bytes.
void CopyReason(char* text, size_t capacity);
// Adds the modes, the tracker and the reason to the collector trace, if they are not what it has.
// pre: the collector lock is held.
void TraceModesLocked();
// In a forked child, by its only thread: its trace has none of them.
void ForgetTracedModes();

// Whether a wanted mode may lack a tracker: the last tracker was lost, or some thread is in TurnOn,
// or was when the process forked. pre: the collector lock is held.
bool NeedsTracker();
// Replaces a lost tracker with the next mechanism of the list. Called after a collection for which
// NeedsTracker is true, on a mutator without locks.
void ReplaceLostTracker();

}  // namespace gleaner::runtime
