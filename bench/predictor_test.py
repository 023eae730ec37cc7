#!/usr/bin/env python3
"""The experiments `predictor` and `numa-effect`: what they make of figures; and runs on a small graph.

usage: predictor_test.py BENCH_DIR OURS [unittest's arguments]
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

from experiments import numa_effect, predictor
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


class OnPaper(unittest.TestCase):
    def test_memory_counts_where_it_takes_longer(self):
        for record in numa_effect.on_paper():
            machine = next(one for one in numa_effect.MACHINES if one.name == record["machine"])
            # What memory takes, for what computing takes.
            load = 8 * machine.flops / (machine.bandwidth * record["K"])
            self.assertAlmostEqual(record["times as fast"],
                                   max(1, load) / max(1, load / machine.nodes))
            self.assertAlmostEqual(record["apart"], (1 + load) / (1 + load / machine.nodes))
            self.assertAlmostEqual(record["one node, ms"],
                                   max(record["computing, ms"], record["moving, ms"]))

    def test_figures_by_hand(self):
        first = numa_effect.on_paper()[0]  # 2 n^2 K / F and 16 n^2 / B, on Skylake
        self.assertAlmostEqual(first["computing, ms"], 10.76, places=2)
        self.assertAlmostEqual(first["moving, ms"], 54.80, places=2)

    def test_the_command(self):
        with tempfile.TemporaryDirectory() as folder, \
                contextlib.redirect_stdout(io.StringIO()) as output:
            self.assertEqual(numa_effect.main(["--bin", BIN, "--ours", OURS, "--theirs", OURS,
                                               "--quick", "--out", folder]), 0)
            with open(os.path.join(folder, "numa_effect.json"), encoding="utf-8") as file:
                records = json.load(file)["marking"]
        self.assertEqual(len(records), 2 * 3 * 4)
        waiting = {(record["machine"], record["heap"]): record["of it waiting for memory, %"]
                   for record in records if record["markers"] > 32}
        self.assertGreater(waiting["origin2000", "one node"], waiting["origin2000", "spread"])
        self.assertIn("Nothing is measured", output.getvalue())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
