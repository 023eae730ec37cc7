// `gleaner ranks`: the collectors of the processes of one MPI run, and which of them the others
// waited for.
//
// The processes write their own traces, with MPI's calls as spans (tools/mpi/gleaner_mpi.c). An
// *exchange* is a call that returns on no rank before all ranks have made it. The n-th exchange of
// each rank is the same one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/report/report_model.h"

namespace gleaner::tools {

struct Exchange {
  std::string name;
  Interval time;
};

// What is read of one trace. Times are of a clock that the processes of the run share.
struct RankTrace {
  std::string path;
  std::string command;
  std::string rank;             // a number; empty: the process has none
  bool has_wall_clock = false;  // which the processes share only as far as hosts agree on it
  uint64_t process = 0;
  Interval time = {};  // of the whole trace
  uint64_t collections = 0;
  std::vector<Interval> held;  // pauses, and stalls of the thread that exchanges; disjoint
  uint64_t pause_ns = 0;       // of all pauses
  uint64_t longest_pause_ns = 0;
  std::vector<Exchange> exchanges;
  bool is_whole = true;
};

// What the exchanges say of one rank.
struct RankFigures {
  uint64_t last = 0;             // exchanges that it came to last
  uint64_t held_up_ns = 0;       // how long the others waited for it alone
  uint64_t by_collector_ns = 0;  // of this, what its collector had held it before
  uint64_t waited_ns = 0;        // how long it waited for others
};

struct RunFigures {
  std::vector<RankFigures> ranks;     // as the traces
  uint64_t exchanges = 0;             // that all ranks have in common
  uint64_t held_up_by_collector = 0;  // exchanges
  // Why there are not more: a rank that is there twice, or the first exchange that cannot be the
  // same one in all traces. Empty if they match.
  std::string mismatch;
};

// Reads the traces, in the order of ranks. False, with a message, if one of them cannot be read at
// all. What else is wrong with them is told as well.
bool ReadRanks(const std::vector<std::string>& paths, const char* command,
               std::vector<RankTrace>* traces);
// How people call the process: "3", or "process 4711" if it has no rank.
std::string NameOf(const RankTrace& trace);
// The same in a sentence: "rank 3".
std::string PhraseOf(const RankTrace& trace);

// What the exchanges that all have in common say. pre: the traces are in the order of ranks.
RunFigures CompareRanks(const std::vector<RankTrace>& traces);

// The ranks below the highest one that have no trace, as "1, 3-5"; empty if there are none.
// pre: as for CompareRanks.
std::string MissingRanks(const std::vector<RankTrace>& traces);

// Whether the traces have their ends and match, and none is missing.
bool IsWhole(const std::vector<RankTrace>& traces, const RunFigures& run);

struct RanksOptions {
  std::vector<std::string> traces;
  bool json = false;
};

// Prints the figures. Returns the exit status: 0; 1 after a message if a file is no trace; 2 if
// traces lack their end, are missing or do not match, and what is good is printed.
int CompareRanksOf(const RanksOptions& options);

}  // namespace gleaner::tools
