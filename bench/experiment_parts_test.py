#!/usr/bin/env python3
"""Parts of the harness: journals that were cut off, resumed replays, pictures of runs that failed.

usage: experiment_parts_test.py [unittest's arguments]
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import unittest

from experiment_fixture import HERE, WithPrograms
from experiments import figures, journal, pictures, running, session, sweep

SEED = int(os.environ.get("SEED", "1"))


class Journals(unittest.TestCase):
    """Files that were cut off, or are something else."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "runs")
        self.stderr, sys.stderr = sys.stderr, open(os.devnull, "w", encoding="utf-8")
        self.addCleanup(self.restore)
        self.runs = {number: {"values": {"seconds": str(number)}} for number in range(5)}
        made = journal.Journal(self.path, {"a": 1})
        for key, run in self.runs.items():
            made.put(key, run)
        made.close()
        with open(self.path, "rb") as file:
            self.content = file.read()

    def restore(self):
        sys.stderr.close()
        sys.stderr = self.stderr

    def check(self, content, damaged=False):
        """What is read is right, unless it is damaged, and what is missing can be added."""
        with open(self.path, "wb") as file:
            file.write(content)
        made = journal.Journal(self.path, {"a": 1})
        for key, run in self.runs.items():
            if not damaged:
                self.assertIn(made.get(key), (None, run))
            made.put(key, run)
        made.close()
        again = journal.Journal(self.path, {"a": 1})
        self.assertEqual([again.get(key) for key in self.runs], list(self.runs.values()))
        again.close()

    def test_cut_anywhere(self):
        for length in range(0, len(self.content), 7):
            self.check(self.content[:length])

    def test_damaged_anywhere(self):
        """What is missing can be added, whatever is read of the rest."""
        draw = random.Random(SEED)
        for _ in range(60):
            content = bytearray(self.content)
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
            self.check(bytes(content), damaged=True)

    def test_something_else(self):
        for content in (b"\0" * 100, b"[]\n{}\n", b"\n\n", random.Random(SEED).randbytes(1000)):
            self.check(content)


MALLOC_TOOL = """#!/bin/sh
folder=${0%/*}
case "$*" in
  *--help*) echo "  --allocator TEXT  buddy, malloc; malloc if none" ;;
  record*) echo recorded >>"$folder/calls"; shift 5; echo $$ >"$1" ;;
  *)
    echo "$*" >>"$folder/calls"
    [ -e "$folder/slow" ] && [ "$(wc -l <"$folder/calls")" -gt 3 ] && exec sleep 60
    [ "$5" = --csv ] && : >"$6"
    echo "time 1.5"; echo "events 1"; echo "threads 1"; echo "peak requested 1"
    echo "peak resident 2" ;;
esac
"""


class Malloc(WithPrograms):
    def setUp(self):
        super().setUp()
        (self.root / "bin").mkdir()
        self.bin = self.root / "bin"
        self.tool = self.bin / "gleaner"
        self.tool.write_text(MALLOC_TOOL)
        self.tool.chmod(0o755)

    def command(self, *arguments):
        return [sys.executable, "-B", HERE / "experiment.py", "bench-malloc", "--build", self.root,
                "--ours", self.root / "none", "--out", self.out, "--runs", "2", "--allocators",
                "glibc", "--only", "lua", "replay", "replay"]

    def test_a_replay_goes_on_with_the_same_trace_and_tool(self):
        for tool, message in ((MALLOC_TOOL, "goes on: 1 run(s)"),
                              (MALLOC_TOOL + "# changed\n", "measured anew: other programs")):
            with self.subTest(message):
                process = self.start_and_wait()
                process.terminate()
                self.assertEqual(process.wait(30), 128 + signal.SIGTERM)
                (self.bin / "slow").unlink()
                self.tool.write_text(tool)
                self.assertIn(message, self.run_it())
                calls = (self.bin / "calls").read_text()
                # Once more if runs of the tool before do not count.
                self.assertEqual(calls.count("recorded"), 1 + (tool != MALLOC_TOOL), calls)
                self.assertEqual(list((self.root / "experiments" / "unfinished").iterdir()), [])
                (self.bin / "calls").unlink()

    def test_a_path_that_cannot_be_preloaded(self):
        (self.root / "none").write_text("")
        self.assertIn("none: LD_PRELOAD cannot name a path with a blank", self.run_it(status=1))


class Results(unittest.TestCase):
    def test_a_failure_may_be_one(self):
        """Of one library; of the other it is the experiment's."""
        workload = sweep.Workload("trees", ["trees"], ["trees"])
        axes = [{"library": [running.THEIRS, running.OURS], "incremental": ["on"]}]
        figure = sweep.Figure("latency", "", [workload], [sweep.SECONDS], "library", axes, axes,
                              libraries=(running.OURS,))
        with tempfile.TemporaryDirectory() as folder:
            options = argparse.Namespace(quick=False, smoke=False, seed=None, runs=1, out=folder,
                                         again=False, bin=folder)
            measured = sweep.Measured(figure, options)

            def fail(side, *_):
                raise running.RunFailed(f"{side.label}: exit status -6")

            workload.measure = fail
            measured.open()
            measured.run()
            self.assertEqual(measured.failures, [
                "latency, trees, gleaner, incremental on: gleaner, incremental on: exit status -6"])
            self.assertEqual(measured.table()[1:], [["trees", "libgc, incremental on", "signal 6", "-"]])


class Pictures(unittest.TestCase):
    def measured(self, *failing):
        """Of marking; no run has succeeded with these numbers of markers."""
        options = argparse.Namespace(quick=True, smoke=False, seed=None, runs=1, out="nowhere")
        measured = sweep.Measured(figures.FIGURES["marking"], options)
        for cell in measured.cells:
            runs = [running.Run({"collect_ms_median": "8"}, 1)]
            cell.series = session.Series([] if cell.point["markers"] in failing else runs)
        return measured

    def test_nothing_is_compared_with_a_run_that_failed(self):
        for failing, expected in (((), [(1, 1), (2, 1)]), ((2,), [(1, 1)])):
            measured = self.measured(*failing)
            lines = measured.lines(measured.figure.workloads[0], measured.figure.metrics[0])
            self.assertEqual(len(lines), 5)
            for points in lines.values():
                self.assertEqual(points, expected)
        measured = self.measured(1)
        lines = measured.lines(measured.figure.workloads[0], measured.figure.metrics[0])
        self.assertEqual(list(lines.values()), 5 * [[]])

    def test_panels_without_points(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("no matplotlib")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "picture.png")
            for lines in ({}, {"a": []}, {"a": [(1, 2.0), (2, 3.0)], "b": []},
                          {"a": [("x", 1)], "b": []}):
                panels = [("first", "y", False, lines), ("second", "y", True, {})]
                self.assertTrue(pictures.draw_panels(path, "t", "f", "x", 2, panels))
                self.assertTrue(os.path.exists(path))
            os.symlink("/dev/full", path + ".part")
            with self.assertRaisesRegex(OSError, "No space left.*picture.png"):
                pictures.draw_panels(path, "t", "f", "x", 1, [("first", "y", False, {})])


class Values(unittest.TestCase):
    def test_blanks_in_paths(self):
        values = running.parse_values("seconds=1.5 lib=/a b/x= c/libgc.so.1 threads=1\n")
        self.assertEqual(values, {"seconds": "1.5", "lib": "/a b/x= c/libgc.so.1", "threads": "1"})


if __name__ == "__main__":
    print(f"SEED={SEED}", flush=True)
    unittest.main()
