#!/usr/bin/env python3
"""BH over MPI on four ranks: the result is that of one process, and each rank has its trace.

usage: mpirun_test.py GLEANER DROPIN BH BH_MPI MPIRUN
"""

import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

GLEANER, DROPIN, BH, BH_MPI, MPIRUN = (os.path.abspath(path) for path in sys.argv[1:6])


class MpirunTest(unittest.TestCase):
    def test_four_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = {key: value for key, value in os.environ.items()
                           if not key.startswith(("GC_", "GLEANER_", "LD_"))}
            environment.update(LD_LIBRARY_PATH=os.path.dirname(DROPIN),
                               OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
            arguments = ["--smoke", "--lists", "--bodies", "2000"]

            def checksum(command, **variables):
                result = subprocess.run(command, env={**environment, **variables}, text=True,
                                        capture_output=True, timeout=100)
                self.assertEqual(result.returncode, 0, result.stderr)
                return dict(field.split("=", 1) for field in result.stdout.split())["checksum"]

            alone = checksum([BH, "--variant", "st", *arguments])
            together = checksum(
                [MPIRUN, "--oversubscribe", "-np", "4", BH_MPI,
                 "--collect-together", *arguments],
                GLEANER_TRACE=os.path.join(folder, "run.%r.trace"), GLEANER_COLLECT_EVERY="1m")
            self.assertEqual(alone, together)
            traces = sorted(glob.glob(os.path.join(folder, "*")))
            self.assertEqual([os.path.basename(path) for path in traces],
                             [f"run.{rank}.trace" for rank in range(4)])
            result = subprocess.run([GLEANER, "ranks", "--json", *traces], capture_output=True,
                                    text=True, timeout=60)
            self.assertEqual(result.returncode, 0, result.stderr)
            run = json.loads(result.stdout)
            self.assertEqual([rank["rank"] for rank in run["ranks"]], [0, 1, 2, 3])
            # Three steps, two exchanges at the beginning and the end, three comparisons, and whether
            # all collect, before each step.
            self.assertEqual(run["exchanges"], 3 + 2 * 2 + 3 + 3)
            self.assertEqual(sum(rank["last"] for rank in run["ranks"]), run["exchanges"])
            for rank in run["ranks"]:
                self.assertGreater(rank["collections"], 0)
                self.assertLessEqual(rank["by_collector_ns"], rank["held_up_ns"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
