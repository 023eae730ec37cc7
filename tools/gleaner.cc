// The `gleaner` command line.
#include <CLI/CLI.hpp>
#include <cstring>

#include "runtime/options.h"
#include "tools/run.h"

namespace {

// Index of the first argument that is not `gleaner run`'s own: the program, or the "--" before it.
int EndOfRunOptions(int argc, char** argv) {
  int i = 2;
  while (i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0) ++i;
  return i;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Gleaner, a parallel conservative garbage-collected heap", "gleaner"};
  app.set_version_flag("--version", "gleaner " GLEANER_VERSION);
  app.require_subcommand(1);

  CLI::App* options = app.add_subcommand("options", "List the collector's options");
  bool markdown = false;
  options->add_flag("--markdown", markdown, "Print the text of docs/options.md");

  CLI::App* run = app.add_subcommand("run", "Run a program on Gleaner instead of libgc");
  run->footer(
      "gleaner run [--stats] PROGRAM [ARGUMENT...]: what follows PROGRAM is the program's.");
  bool stats = false;
  run->add_flag("--stats", stats,
                "At the end, print collections, pauses, memory and time on standard error");

  const bool is_run = argc > 1 && strcmp(argv[1], "run") == 0;
  const int end = is_run ? EndOfRunOptions(argc, argv) : argc;
  try {
    app.parse(end, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return is_run && status != 0 ? kRunFailed : status;
  }
  if (options->parsed()) gleaner::runtime::PrintOptions(markdown);
  if (!is_run) return 0;
  int program = end;
  if (program < argc && strcmp(argv[program], "--") == 0) ++program;
  return Run(argv + program, stats);
}
