#!/usr/bin/env python3
"""The experiment `predictor`: what it makes of snapshots; and a run on a small graph.

usage: predictor_test.py BENCH_DIR OURS [unittest's arguments]
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

from experiments import predictor
from experiments.running import Run

BIN, OURS = (os.path.abspath(path) for path in sys.argv[1:3])
MACHINE = """name made up
processors 4
cache 32768 64 8 0 0 0 0 0
memory 100 10 12 2
tlb 1536 4096 30 3 3 0
word_ns 0.5
wake_call_ns 1500
"""


class Figures(unittest.TestCase):
    def test_the_fastest_of_the_largest_counts(self):
        small, slow, fast = (1e6, 1e6, 1), (100e6, 50e6, 1), (99e6, 40e6, 1)
        markings = {"small": small, "slow": slow, "fast": fast, "unmeasured": (100e6, 0, 0)}
        self.assertEqual(predictor.fastest_of_largest(markings), ("fast", fast))
        self.assertIsNone(predictor.fastest_of_largest({"small": small, "none": (0, 0, 0)}))
        chosen = predictor.fastest([Run({"objects": 1, "MB": 100, "measured": 50, "predicted": 44}, 0),
                                    Run({}, 0),
                                    Run({"objects": 1, "MB": 99, "measured": 40, "predicted": 44}, 0)])
        self.assertEqual((chosen["measured ms"], chosen["predicted ms"]), (40, 44))
        self.assertAlmostEqual(chosen["error"], 0.1)
        self.assertIsNone(predictor.fastest([Run({}, 0)]))

    def test_one_figure_is_made_larger(self):
        def changed(name):
            before = [line.split() for line in MACHINE.splitlines()]
            after = [line.split() for line in predictor.with_larger(MACHINE, name).splitlines()]
            return [b for a, b in zip(before, after) if a != b]

        self.assertEqual(changed("word_ns"), [["word_ns", "0.75"]])
        self.assertEqual(changed("memory"), [["memory", "150.0", "15.0", "18.0", "3.0"]])
        self.assertEqual(changed("tlb"), [["tlb", "1536", "4096", "45.0", "4.5", "4.5", "0.0"]])


class Command(unittest.TestCase):
    def test_a_small_graph(self):
        with tempfile.TemporaryDirectory() as folder, \
                contextlib.redirect_stdout(io.StringIO()) as output:
            machine = os.path.join(os.path.dirname(BIN), "share/gleaner/machines/flat.machine")
            status = predictor.main(["--bin", BIN, "--ours", OURS, "--theirs", OURS, "--quick",
                                     "--only", "^graph, large$", "--machine", machine,
                                     "--out", folder])
            self.assertEqual(status, 0)
            with open(os.path.join(folder, "predictor.json"), encoding="utf-8") as file:
                records = json.load(file)["measured"]
        self.assertEqual([record["markers"] for record in records], [1, 2])
        for record in records:
            self.assertGreater(record["objects"], 100_000)
            self.assertGreater(record["measured ms"], 0.1)
            self.assertGreater(record["predicted ms"], 0.1)
        self.assertIn("Mean error", output.getvalue())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
