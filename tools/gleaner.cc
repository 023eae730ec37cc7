// The `gleaner` command line.
#include <CLI/CLI.hpp>
#include <cstring>

#include "runtime/options.h"
#include "tools/launch.h"
#include "tools/record.h"
#include "tools/replay.h"
#include "tools/replay_heap.h"
#include "tools/run.h"
#include "tools/symbolize.h"

namespace {

// Commands that end in a program and its arguments.
bool TakesProgram(const char* command) {
  return strcmp(command, "run") == 0 || strcmp(command, "record") == 0;
}

bool IsOneOf(const char* word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [word](const char* each) { return strcmp(word, each) == 0; });
}

// Index of the first argument that is not the command's own: the program, or the "--" before it.
int EndOfOwnArguments(int argc, char** argv) {
  int i = 2;
  while (i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0) {
    i += IsOneOf(argv[i], {"-o", "--output", "--limit"}) ? 2 : 1;
  }
  return std::min(i, argc);
}

// A check that a value is one of `names`, which the message lists as `list`.
auto OneOf(std::vector<std::string> names, std::string list) {
  return [names = std::move(names), list = std::move(list)](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end()
               ? std::string()
               : "there is no " + name + "; there are " + list;
  };
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Gleaner, a parallel conservative garbage-collected heap", "gleaner"};
  app.set_version_flag("--version", "gleaner " GLEANER_VERSION);
  app.require_subcommand(0, 1);  // a word that is none is named, not a missing command
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("gleaner: ") + error.what() + " (--help says more)\n";
  });

  CLI::App* options = app.add_subcommand("options", "List the collector's options");
  bool markdown = false;
  options->add_flag("--markdown", markdown, "Print the text of docs/options.md");

  CLI::App* run = app.add_subcommand("run", "Run a program on Gleaner instead of libgc");
  run->footer(
      "gleaner run [--malloc [--collect] [--leaks]] [--stats] PROGRAM [ARGUMENT...]: what follows "
      "PROGRAM is the program's. With --malloc, --stats needs --collect.");
  RunOptions run_options;
  run->add_flag("--stats", run_options.stats,
                "At the end, print collections, pauses, memory and time on standard error");
  CLI::Option* malloc =
      run->add_flag("--malloc", run_options.malloc,
                    "Any program: malloc, free, new and delete on Gleaner's heap");
  run->add_flag("--collect", run_options.collect,
                "Memory that the program has lost is collected, though it was never freed")
      ->needs(malloc);
  run->add_flag("--leaks", run_options.leaks,
                "At exit, report the blocks that the program has lost, by where it allocated them")
      ->needs(malloc);
  run->callback([&run_options] {
    if (run_options.stats && run_options.malloc && !run_options.collect) {
      throw CLI::ValidationError("--stats", "with --malloc it needs --collect");
    }
  });

  CLI::App* symbolize = app.add_subcommand(
      "symbolize", "Names and lines for addresses of code, for reports of leaks");

  CLI::App* record = app.add_subcommand("record", "Write a trace of a program's allocations");
  record->footer(
      "gleaner record [OPTIONS] [--] PROGRAM [ARGUMENT...]: what follows PROGRAM is the "
      "program's.");
  RecordOptions recording;
  bool no_children = false;
  record->add_option("-o,--output", recording.file, "The trace; gleaner.trace if not given");
  record
      ->add_option("--limit", recording.limit_bytes,
                   "The most bytes of a trace, also as 64k, 256m or 1g; 256m if not given")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{64} << 10, uint64_t{1} << 40));
  record->add_flag("--no-children", no_children,
                   "Only the first program; else each process gets a file OUTPUT.PROCESS");

  CLI::App* replay = app.add_subcommand("replay", "Replay a trace on an allocator of choice");
  ReplayOptions replaying;
  replay->add_option("TRACE", replaying.trace, "What `gleaner record` wrote")->required();
  std::string names;
  for (const std::string& name : ReplayHeapNames()) names += (names.empty() ? "" : ", ") + name;
  replay->add_option("--allocator", replaying.allocator, names + "; malloc if not given")
      ->check(OneOf(ReplayHeapNames(), names), "");
  const std::map<std::string, Touch> touches = {
      {"none", Touch::kNone}, {"first", Touch::kFirst}, {"pages", Touch::kPages}};
  std::string touch = "pages";
  replay
      ->add_option("--touch", touch,
                   "Which bytes of a new block are written: none, first, or pages (one of each 4 "
                   "KiB, and the first; if not given)")
      ->check(OneOf({"none", "first", "pages"}, "none, first, pages"), "");
  replay->add_flag("--one-thread", replaying.one_thread,
                   "Everything in one thread, in the recorded order");
  replay->add_option("--csv", replaying.csv, "Write the course of memory to this file");
  replay->add_option("--points", replaying.points, "Lines of that file; 200 if not given")
      ->check(CLI::Range(1u, 1000000u));

  const bool takes_program = argc > 1 && TakesProgram(argv[1]);
  const int end = takes_program ? EndOfOwnArguments(argc, argv) : argc;
  try {
    app.parse(end, argv);
    if (app.get_subcommands().empty()) throw CLI::RequiredError("A command");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) != 0 ? kCommandFailed : 0;
  }
  if (options->parsed()) gleaner::runtime::PrintOptions(markdown);
  replaying.touch = touches.at(touch);
  if (replay->parsed()) return Replay(replaying);
  if (symbolize->parsed()) return Symbolize();
  if (!takes_program) return 0;
  char** program = argv + end;
  if (*program != nullptr && strcmp(*program, "--") == 0) ++program;
  if (run->parsed()) return Run(program, run_options);
  recording.children = !no_children;
  return Record(program, recording);
}
