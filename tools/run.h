// `gleaner run`: one program on the drop-in.
#pragma once

// Runs the program with the drop-in's folder first in the loader's path. `arguments` ends with
// null, as that of main(). Without `stats` the program replaces this process. With it, figures are
// printed at the end, and this process ends as the program did. Returns only if the program could
// not be run: the exit status for that, after a message.
int Run(char* const* arguments, bool stats);
