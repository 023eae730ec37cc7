// `gleaner run`: one program on the drop-in, or on the malloc of the heap.
#pragma once

struct RunOptions {
  bool stats = false;    // figures at the end; this process ends as the program did
  bool malloc = false;   // libgleaner_malloc.so is preloaded, in place of the drop-in
  bool collect = false;  // with GLEANER_COLLECT=1
  bool leaks = false;    // with GLEANER_LEAKS=1
};

// Runs the program with the drop-in's folder first in the loader's path, or with the malloc
// preloaded. `arguments` ends with null, as that of main(). Without `stats` the program replaces
// this process. Returns only if the program could not be run: the exit status for that, after a
// message. pre: `collect` and `leaks` come with `malloc`, and `malloc` with `stats` only if both
// are there.
int Run(char* const* arguments, const RunOptions& options);
