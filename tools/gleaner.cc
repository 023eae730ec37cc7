// The `gleaner` command line.
#include <CLI/CLI.hpp>

#include "runtime/options.h"

int main(int argc, char** argv) {
  CLI::App app{"Gleaner, a parallel conservative garbage-collected heap", "gleaner"};
  app.set_version_flag("--version", "gleaner " GLEANER_VERSION);
  app.require_subcommand(1);

  CLI::App* options = app.add_subcommand("options", "List the collector's options");
  bool markdown = false;
  options->add_flag("--markdown", markdown, "Print the text of docs/options.md");
  options->callback([&] { gleaner::runtime::PrintOptions(markdown); });

  CLI11_PARSE(app, argc, argv);
  return 0;
}
