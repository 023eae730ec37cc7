#!/usr/bin/env python3
"""BH over MPI on four ranks: the result is that of one process, and each rank has its trace. With
libgleaner.a and MPI's compiler also a program that is linked to the archive.

usage: mpirun_test.py GLEANER DROPIN BH BH_MPI MPIRUN [INCLUDE LIBRARY MPICC]
"""

import json
import os
import re
import sys
import unittest

from command import CommandTest, clean, put

GLEANER, DROPIN, BH, BH_MPI, MPIRUN = (os.path.abspath(path) for path in sys.argv[1:6])
INCLUDE, LIBRARY, MPICC = sys.argv[6:9] or (None, None, None)
CALLS = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "mpi", "gleaner_mpi.c")
# Two exchanges, and calls in which some rank need not wait.
PROGRAM = """
#include <gleaner/gc.h>
#include <mpi.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  GC_INIT();
  int rank, sum, none[2] = {0, 1}, at[2] = {0, 0}, got[2];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(&rank, &sum, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allgatherv(&rank, rank, MPI_INT, got, none, at, MPI_INT, MPI_COMM_WORLD);
  GC_gcollect();
  MPI_Finalize();
  return sum == 1 ? 0 : 1;
}
"""


class MpirunTest(CommandTest):
    def output(self, *command, library=None, **variables):
        return self.execute(*command, env=clean(
            library, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            **variables)).stdout

    def test_four_ranks(self):
        arguments = ["--smoke", "--lists", "--bodies", "2000"]

        def checksum(*command, **variables):
            said = self.output(*command, *arguments, library=DROPIN, **variables)
            return re.search(r"\bchecksum=(\S+)", said)[1]

        alone = checksum(BH, "--variant", "st")
        together = checksum(MPIRUN, "--oversubscribe", "-np", "4", BH_MPI, "--collect-together",
                            GLEANER_TRACE=self.path("run.%r.trace"), GLEANER_COLLECT_EVERY="1m")
        self.assertEqual(alone, together)
        self.assertEqual(self.files(), [f"run.{rank}.trace" for rank in range(4)])
        run = json.loads(self.output(GLEANER, "ranks", "--json", *self.files()))
        self.assertEqual([rank["rank"] for rank in run["ranks"]], [0, 1, 2, 3])
        # Three steps, two exchanges at the beginning and the end, three comparisons, and whether
        # all collect, before each step.
        self.assertEqual(run["exchanges"], 3 + 2 * 2 + 3 + 3)
        self.assertEqual(sum(rank["last"] for rank in run["ranks"]), run["exchanges"])
        for rank in run["ranks"]:
            self.assertGreater(rank["collections"], 0)
            self.assertLessEqual(rank["by_collector_ns"], rank["held_up_ns"])

    @unittest.skipIf(LIBRARY is None, "no libgleaner.a")
    def test_the_archive(self):
        put(self.path("program.c"), PROGRAM)
        self.output(MPICC, "-I", INCLUDE, "program.c", os.path.abspath(CALLS), LIBRARY,
                    "-Wl,-u,gleaner_trace_begin", "-lpthread", "-ldl", "-o", "program")
        self.output(MPIRUN, "--oversubscribe", "-np", "2", "./program",
                    GLEANER_TRACE="run.%r.trace")
        traces = ["run.0.trace", "run.1.trace"]
        run = json.loads(self.output(GLEANER, "ranks", "--json", *traces))
        self.assertEqual(run["exchanges"], 2)
        self.assertIn("part MPI_Allgatherv", self.output(GLEANER, "trace", traces[1], "-o", "-"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
