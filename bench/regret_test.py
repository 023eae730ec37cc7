#!/usr/bin/env python3
"""What `regret` makes of times that are made up."""

import argparse
import contextlib
import io
import unittest

from experiments import regret, sweep
from experiments.running import OURS, THEIRS, Run, RunFailed
from experiments.session import Series

TIMES = {THEIRS: 6, "auto": 3, "stop": 2, "concurrent": 4, "generational": 5}


def measured(times, client=False, failed=()):
    """One workload on one thread, and on two in twice the time; the memory in MB is ten times the
    time. The median of three runs is the time."""
    workload = sweep.Workload("trees", ["trees"], ["trees"], measure=print if client else None)
    points = [{"library": [THEIRS], "threads": [1, 2]},
              {"mode": [side for side in times if side != THEIRS], "threads": [1, 2]}]
    points = points[THEIRS not in times:]
    figure = sweep.Figure("regret", "", [workload], [regret.WALL, regret.MEMORY], "mode", points,
                          points, fits=lambda workload, point: not client or point["threads"] == 1)
    found = sweep.Measured(figure, argparse.Namespace(quick=False, smoke=False, seed=None, runs=3,
                                                      out="nowhere"))
    for cell in found.cells:
        side = cell.point.get("mode", THEIRS)
        time = times[side] * cell.point["threads"]
        runs = [] if side in failed else [Run({}, 10 * time, wall) for wall in (time, 99, 0.1)]
        cell.series = Series(runs, RunFailed("exit status 1") if side in failed else None)
    return found


class Table(unittest.TestCase):
    def test_each_side_once_and_the_default_against_the_best_mode(self):
        self.assertEqual(regret.table(measured(TIMES))[1:], [
            ["trees", "1", "6", "3", "2", "4", "5", "stop", "1.50", "2.00", "0.50"],
            ["trees", "2", "12", "6", "4", "8", "10", "stop", "1.50", "2.00", "0.50"]])

    def test_a_client_has_no_threads(self):
        self.assertEqual([row[:3] for row in regret.table(measured(TIMES, client=True))[1:]],
                         [["trees", "-", "6"]])

    def test_what_was_not_measured_or_has_failed(self):
        few = {side: TIMES[side] for side in ("auto", "concurrent")}
        self.assertEqual(regret.table(measured(few, client=True))[1:], [
            ["trees", "-", "-", "3", "-", "4", "-", "concurrent", "0.75", "-", "-"]])
        self.assertEqual(len(regret.table(measured(TIMES, failed=["stop"]))), 1)
        self.assertEqual(len(regret.table(measured({"auto": 1}))), 1)
        self.assertEqual(len(regret.table(measured({"stop": 1}))), 1)


class Verdict(unittest.TestCase):
    def test_mean_and_worst(self):
        rows = [row for times in ({**TIMES, "auto": 2}, {**TIMES, "auto": 8})
                for row in regret.rows_of(measured(times))[:1]]
        rows[1].name = "lists"
        self.assertEqual(regret.verdict(rows), [
            "auto / best mode, programs: mean 2.00, worst 4.00 (lists, threads 1).",
            "libgc / auto, programs: mean 1.50, worst 0.75 (lists, threads 1).",
            "memory, auto / libgc, programs: mean 0.67, worst 1.33 (lists, threads 1)."])
        self.assertEqual(regret.verdict(regret.rows_of(measured(TIMES, client=True)))[0],
                         "auto / best mode, clients: mean 1.50, worst 1.50 (trees).")
        self.assertEqual(regret.verdict([]), [])


class Arguments(unittest.TestCase):
    def test_wrong_ones_are_named(self):
        with contextlib.redirect_stderr(io.StringIO()) as output, \
                self.assertRaises(SystemExit) as left:
            regret.parse_arguments(["--bin", ".", "--ours", "/nowhere"])
        self.assertEqual(left.exception.code, 2)
        self.assertIn("there is no libgc.so.1 in /nowhere", output.getvalue())

    def test_every_mode_of_every_program_on_one_thread_and_two(self):
        points = sweep.expand(regret.points())
        self.assertEqual(len(points), 10)
        options = argparse.Namespace(quick=False, seed=None)
        for workload in regret.workloads():
            environments = [sweep.side_of(workload, point, options).environment for point in points
                            if point["library"] == OURS and point["threads"] == 2]
            self.assertEqual([environment["GLEANER_MODE"] for environment in environments],
                             ["auto", "stop", "concurrent", "generational"], workload.name)


if __name__ == "__main__":
    unittest.main()
