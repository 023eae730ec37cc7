// `gleaner run`: runs a program on the drop-in library, or on libgleaner_malloc.so.
#pragma once

struct RunOptions {
  bool stats = false;       // print figures at the end; this process ends as the program did
  bool malloc = false;      // preload libgleaner_malloc.so instead of the drop-in
  bool collect = false;     // set GLEANER_COLLECT=1
  bool leaks = false;       // set GLEANER_LEAKS=1
  bool local_text = false;  // also preload libgleaner_local_text.so
};

// Runs the program with the drop-in's folder first in the loader's path, or with the malloc
// preloaded. `arguments` ends with null, as in main(). Without `stats` the program replaces this
// process. Returns only if the program could not be run: the exit status, after a message. pre:
// `collect` and `leaks` are set only with `malloc`; with `malloc`, `stats` is set only with
// `collect`.
int Run(char* const* arguments, const RunOptions& options);
