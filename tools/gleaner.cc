// The `gleaner` command line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "runtime/process/options.h"
#include "tools/common/symbolize.h"
#include "tools/common/text.h"
#include "tools/heap/snapshot.h"
#include "tools/heap/why.h"
#include "tools/numa/numa.h"
#include "tools/numa/topology.h"
#include "tools/predict/calibrate.h"
#include "tools/predict/predict.h"
#include "tools/replay/record.h"
#include "tools/replay/replay.h"
#include "tools/replay/replay_heap.h"
#include "tools/report/ranks.h"
#include "tools/report/report.h"
#include "tools/run/launch.h"
#include "tools/run/run.h"
#include "tools/system/standard_descriptors.h"
#include "tools/top/top.h"
#include "tools/trace/trace.h"

namespace {

// Index of the "--" that comes before a program; argc if there is none.
int IndexOfDashes(int argc, char** argv) {
  int i = 2;
  while (i < argc && strcmp(argv[i], "--") != 0) ++i;
  return std::min(i, argc);
}

// Whether the command's arguments end with a program and its arguments.
bool TakesProgram(int argc, char** argv) {
  if (argc < 2) return false;
  const char* command = argv[1];
  return strcmp(command, "run") == 0 || strcmp(command, "record") == 0 ||
         ((strcmp(command, "report") == 0 || strcmp(command, "numa") == 0) &&
          IndexOfDashes(argc, argv) < argc);
}

bool IsOneOf(const char* word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [word](const char* each) { return strcmp(word, each) == 0; });
}

// Index of the first argument that does not belong to the command: the program, or the "--" before
// it.
int EndOfOwnArguments(int argc, char** argv) {
  if (IsOneOf(argv[1], {"report", "numa"})) return IndexOfDashes(argc, argv);
  int i = 2;
  while (i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0) {
    i += IsOneOf(argv[i], {"-o", "--output", "--limit"}) ? 2 : 1;
  }
  return std::min(i, argc);
}

// Makes a check that a value is one of `names`; its message shows them as `list`.
auto OneOf(std::vector<std::string> names, std::string list) {
  return [names = std::move(names), list = std::move(list)](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end()
               ? std::string()
               : "there is no " + name + "; there are " + list;
  };
}

CLI::App* AddRun(CLI::App* app, RunOptions* options) {
  CLI::App* run = app->add_subcommand("run", "Run a program on Gleaner instead of libgc");
  run->footer(
      "gleaner run [--malloc [--collect] [--leaks]] [--local-text] [--stats] PROGRAM "
      "[ARGUMENT...]: what follows PROGRAM is the program's. With --malloc, --stats needs "
      "--collect.");
  run->add_flag("--stats", options->stats,
                "At the end, print collections, pauses, memory and time on standard error");
  CLI::Option* malloc = run->add_flag(
      "--malloc", options->malloc, "Any program: malloc, free, new and delete on Gleaner's heap");
  run->add_flag("--collect", options->collect,
                "Memory that the program has lost is collected, though it was never freed")
      ->needs(malloc);
  run->add_flag("--leaks", options->leaks,
                "At exit, report the blocks that the program has lost, by where it allocated them")
      ->needs(malloc);
  run->add_flag("--local-text", options->local_text,
                "The program and its libraries run on a copy of their text on the program's node");
  run->callback([options] {
    if (options->stats && options->malloc && !options->collect) {
      throw CLI::ValidationError("--stats", "with --malloc it needs --collect");
    }
  });
  return run;
}

CLI::App* AddRecord(CLI::App* app, RecordOptions* options) {
  CLI::App* record = app->add_subcommand("record", "Write a trace of a program's allocations");
  record->footer(
      "gleaner record [OPTIONS] [--] PROGRAM [ARGUMENT...]: what follows PROGRAM is the "
      "program's.");
  record->add_option("-o,--output", options->file, "The trace; gleaner.trace if not given");
  record
      ->add_option("--limit", options->limit_bytes,
                   "The most bytes of a trace, also as 64k, 256m or 1g; 256m if not given")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{64} << 10, uint64_t{1} << 40));
  record->add_flag_callback(
      "--no-children", [options] { options->children = false; },
      "Only the first program; else each process gets a file OUTPUT.PROCESS");
  return record;
}

CLI::App* AddReplay(CLI::App* app, ReplayOptions* options, std::string* touch) {
  CLI::App* replay = app->add_subcommand("replay", "Replay a trace on an allocator of choice");
  ReplayOptions replaying;
  replay->add_option("TRACE", options->trace, "What `gleaner record` wrote")->required();
  std::string names;
  for (const std::string& name : ReplayHeapNames()) names += (names.empty() ? "" : ", ") + name;
  replay->add_option("--allocator", options->allocator, names + "; malloc if not given")
      ->check(OneOf(ReplayHeapNames(), names), "");
  replay
      ->add_option("--touch", *touch,
                   "Which bytes of a new block are written: none, first, or pages (one of each 4 "
                   "KiB, and the first; if not given)")
      ->check(OneOf({"none", "first", "pages"}, "none, first, pages"), "");
  replay->add_flag("--one-thread", options->one_thread,
                   "Everything in one thread, in the recorded order");
  replay->add_option("--csv", options->csv, "Write the course of memory to this file");
  replay->add_option("--points", options->points, "Lines of that file; 200 if not given")
      ->check(CLI::Range(1u, 1000000u));
  return replay;
}

CLI::App* AddTrace(CLI::App* app, TraceOptions* options) {
  CLI::App* trace = app->add_subcommand(
      "trace", "Convert what GLEANER_TRACE has written for ui.perfetto.dev and chrome://tracing");
  trace->add_option("TRACE", options->trace, "The file that GLEANER_TRACE named")->required();
  trace->add_option("-o,--output", options->output,
                    "The JSON file; TRACE.json if not given, - for standard output");
  return trace;
}

CLI::App* AddSnapshot(CLI::App* app, SnapshotOptions* options) {
  CLI::App* snapshot = app->add_subcommand(
      "snapshot", "What is in a heap snapshot and what keeps it; of two, what has grown");
  snapshot->add_option("SNAPSHOT", options->snapshot, "The file that GLEANER_SNAPSHOT named")
      ->required();
  snapshot->add_option("OTHER", options->other, "A later one of the program: what has grown");
  snapshot->add_option("--top", options->top, "Rows of each table; 10 if not given")
      ->check(CLI::Range(1u, 1000000u));
  snapshot->add_flag("--json", options->json, "As JSON");
  return snapshot;
}

CLI::App* AddWhy(CLI::App* app, WhyOptions* options) {
  CLI::App* why =
      app->add_subcommand("why", "Why an object of a heap snapshot is there: the path from a root");
  why->footer("gleaner why [OPTIONS] SNAPSHOT ADDRESS|--largest|--type NAME");
  why->add_option("SNAPSHOT", options->snapshot, "The file that GLEANER_SNAPSHOT named")
      ->required();
  CLI::Option* address = why->add_option(
      "ADDRESS", options->address, "In the object, in hexadecimal: also behind its beginning");
  CLI::Option* largest =
      why->add_flag("--largest", options->largest, "The object without which most would be free");
  CLI::Option* type = why->add_option(
      "--type", options->type,
      "All objects of kinds, or of classes with a vtable, that have this in their names, by how "
      "they are kept");
  address->excludes(largest)->excludes(type);
  largest->excludes(type);
  why->add_option("--paths", options->paths, "Paths that share no word; 1 if not given")
      ->check(CLI::Range(1u, 1000u))
      ->excludes(type);
  why->add_option("--top", options->top, "With --type: groups; 10 if not given")
      ->check(CLI::Range(1u, 1000000u))
      ->needs(type);
  why->add_flag("--json", options->json, "As JSON");
  why->callback([options] {
    if (options->address.empty() && !options->largest && options->type.empty()) {
      throw CLI::RequiredError("ADDRESS, --largest or --type");
    }
  });
  return why;
}

CLI::App* AddRanks(CLI::App* app, gleaner::tools::RanksOptions* options) {
  CLI::App* ranks = app->add_subcommand(
      "ranks", "Compare the collectors of the processes of an MPI run, by their traces");
  ranks
      ->add_option("TRACE", options->traces, "What GLEANER_TRACE has written, a file for each rank")
      ->required();
  ranks->add_flag("--json", options->json, "Print JSON");
  return ranks;
}

CLI::App* AddReport(CLI::App* app, bool takes_program, ReportOptions* options) {
  CLI::App* report = app->add_subcommand(
      "report", "Show what the collector did, and what to do about it, on a page of HTML");
  report->footer(
      "gleaner report [OPTIONS] TRACE: of a file that GLEANER_TRACE named.\n"
      "gleaner report [OPTIONS] TRACE TRACE...: of the ranks of an MPI run.\n"
      "gleaner report [OPTIONS] -- PROGRAM [ARGUMENT...]: of a run of the program.");
  if (!takes_program) {
    report->add_option("TRACE", options->traces, "The file that GLEANER_TRACE named")->required();
  }
  report->add_option("-o,--output", options->output,
                     "The page; TRACE.html or report.html if not given, - for standard output");
  report->add_option("--profile", options->profile, "A heap profile of the same run");
  CLI::Option* snapshot = report->add_option(
      "--snapshot", options->snapshot, "A heap snapshot of the same run, to predict marking from");
  report
      ->add_option("--machine", options->machine,
                   "The machine to predict for, as in gleaner predict; this one if not given")
      ->needs(snapshot);
  return report;
}

CLI::App* AddTop(CLI::App* app, TopOptions* options) {
  CLI::App* top = app->add_subcommand("top", "Show a running program's heap, without stopping it");
  top->add_option("PID", options->process, "The number of the process")
      ->required()
      ->check(CLI::Range(1, INT_MAX));
  top->add_option("-d,--delay", options->seconds, "Seconds between two frames; 1 if not given")
      ->check(CLI::Range(0.01, 86400.0));
  CLI::Option* frames =
      top->add_option("-n,--frames", options->frames, "How many frames; until it ends if not given")
          ->check(CLI::Range(uint64_t{1}, UINT64_MAX));
  CLI::Option* once = top->add_flag_callback(
                             "--once", [options] { options->frames = 1; }, "One frame")
                          ->excludes(frames);
  top->add_flag("--json", options->json, "The frame as JSON")->needs(once);
  return top;
}

CLI::App* AddCalibrate(CLI::App* app, CalibrateOptions* options) {
  CLI::App* calibrate =
      app->add_subcommand("calibrate", "Measure this machine for `gleaner predict`");
  calibrate->add_option("-o,--output", options->output,
                        "A file, or - for standard output; if not given, where `gleaner predict` "
                        "looks for this machine");
  return calibrate;
}

CLI::App* AddPredict(CLI::App* app, PredictOptions* options) {
  CLI::App* predict = app->add_subcommand(
      "predict", "The time of a collection of a heap snapshot on any number of processors");
  predict->add_option("SNAPSHOT", options->snapshot, "The file that GLEANER_SNAPSHOT named")
      ->required();
  predict->add_option("--machine", options->machine,
                      "A machine's description: its name or file; this machine if not given");
  predict->add_option("--markers", options->markers,
                      "Numbers of markers: N, A-B, or several of these separated by commas");
  predict->add_flag("--json", options->json, "As JSON");
  return predict;
}

CLI::App* AddTopology(CLI::App* app, TopologyOptions* options) {
  CLI::App* topology = app->add_subcommand(
      "topology", "Show memory nodes and their processors, and where markers would run");
  topology->footer(
      "HWLOC_SYNTHETIC='node:4 core:8 pu:1' or HWLOC_XMLFILE=FILE: of another machine.");
  topology
      ->add_option("--markers", options->markers,
                   "How many; as many as the library would start if not given")
      ->check(CLI::Range(1, 64));
  topology->add_flag("--json", options->json, "As JSON");
  return topology;
}

CLI::App* AddNuma(CLI::App* app, bool takes_program, NumaOptions* options) {
  CLI::App* numa = app->add_subcommand(
      "numa", "Which part of a process is on which memory node, and what is on the wrong one");
  numa->footer(
      "gleaner numa [OPTIONS] PID: of a running process.\n"
      "gleaner numa [OPTIONS] -- PROGRAM [ARGUMENT...]: of a run of the program, at its end.");
  if (!takes_program) {
    numa->add_option("PID", options->process, "The number of the process")
        ->required()
        ->check(CLI::Range(1, INT_MAX));
  } else {
    numa->add_option("--after", options->after_seconds,
                     "Seconds from the program's start; at its end if not given")
        ->check(CLI::Range(0.0, 86400.0 * 365));
  }
  numa->add_flag("--fix", options->fix,
                 "Move what is on other nodes than it is bound to; a program runs on its own copy "
                 "of its text");
  numa->add_flag("--all", options->all, "A row for each file");
  numa->add_flag("--json", options->json, "As JSON");
  numa->add_option("-o,--output", options->output,
                   "A file; if not given, standard output, or standard error for a program's");
  return numa;
}

Touch TouchNamed(const std::string& name) {
  return name == "none" ? Touch::kNone : name == "first" ? Touch::kFirst : Touch::kPages;
}

int CannotWrite() {
  fprintf(stderr, "gleaner: standard output cannot be written\n");
  return 1;
}

int Execute(int argc, char** argv) {
  CLI::App app{"Gleaner, a parallel conservative garbage-collected heap", "gleaner"};
  app.set_version_flag("--version", "gleaner " GLEANER_VERSION);
  app.require_subcommand(0, 1);  // names an unknown subcommand in the message
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return "gleaner: " + gleaner::tools::ForTerminal(error.what()) + " (--help says more)\n";
  });

  const bool takes_program = TakesProgram(argc, argv);
  CLI::App* options = app.add_subcommand("options", "List the collector's options");
  bool markdown = false;
  options->add_flag("--markdown", markdown, "Print the text of docs/reference/options.md");

  RunOptions run_options;
  const CLI::App* run = AddRun(&app, &run_options);
  const CLI::App* symbolize = app.add_subcommand(
      "symbolize", "Names and lines for addresses of code, for reports of leaks");

  RecordOptions recording;
  AddRecord(&app, &recording);
  ReplayOptions replaying;
  std::string touch = "pages";
  const CLI::App* replay = AddReplay(&app, &replaying, &touch);

  TraceOptions tracing;
  const CLI::App* trace = AddTrace(&app, &tracing);
  gleaner::tools::RanksOptions comparing;
  const CLI::App* ranks = AddRanks(&app, &comparing);
  ReportOptions reporting;
  const CLI::App* report = AddReport(&app, takes_program, &reporting);

  TopOptions looking;
  const CLI::App* top = AddTop(&app, &looking);

  TopologyOptions planning;
  const CLI::App* topology = AddTopology(&app, &planning);
  NumaOptions placing;
  const CLI::App* numa = AddNuma(&app, takes_program, &placing);

  SnapshotOptions showing;
  const CLI::App* snapshot = AddSnapshot(&app, &showing);
  WhyOptions asking;
  const CLI::App* why = AddWhy(&app, &asking);

  CalibrateOptions calibrating;
  const CLI::App* calibrate = AddCalibrate(&app, &calibrating);
  PredictOptions predicting;
  const CLI::App* predict = AddPredict(&app, &predicting);

  const int end = takes_program ? EndOfOwnArguments(argc, argv) : argc;
  try {
    app.parse(end, argv);
    if (app.get_subcommands().empty()) throw CLI::RequiredError("A command");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) != 0 ? kCommandFailed : 0;
  }
  if (options->parsed() && !gleaner::runtime::PrintOptions(markdown)) return CannotWrite();
  replaying.touch = TouchNamed(touch);
  if (replay->parsed()) return Replay(replaying);
  if (symbolize->parsed()) return Symbolize();
  if (trace->parsed()) return ConvertTrace(tracing);
  if (snapshot->parsed()) return ShowSnapshot(showing);
  if (why->parsed()) return Why(asking);
  if (calibrate->parsed()) return CalibrateMachine(calibrating);
  if (predict->parsed()) return Predict(predicting);
  if (ranks->parsed()) return CompareRanksOf(comparing);
  if (report->parsed() && !takes_program) return ReportTrace(reporting);
  if (top->parsed()) return Top(looking);
  if (topology->parsed()) return ShowTopology(planning);
  if (numa->parsed() && !takes_program) return ShowNuma(placing);
  if (!takes_program) return 0;
  char** program = argv + end;
  if (*program != nullptr && strcmp(*program, "--") == 0) ++program;
  if (run->parsed()) return Run(program, run_options);
  if (report->parsed()) return ReportProgram(program, reporting);
  if (numa->parsed()) return ShowNumaOfProgram(program, placing);
  return Record(program, recording);
}

}  // namespace

int main(int argc, char** argv) {
  gleaner::tools::HoldClosedStandardDescriptors();
  const int status = Execute(argc, argv);
  // Of every command that prints by stdio.
  return fflush(stdout) == 0 && ferror(stdout) == 0 ? status : CannotWrite();
}
