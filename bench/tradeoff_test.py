#!/usr/bin/env python3
"""What `tradeoff` makes of points that are made up: domination, verdicts; and their order."""

import argparse
import contextlib
import io
import unittest

from experiments import compare, sweep, tradeoff
from experiments.figures import MEMORY
from experiments.running import OURS, THEIRS, Run, RunFailed
from experiments.session import Series


def points(*pairs):
    """Of pairs (memory, time); the divisors are 1, 2 ..."""
    return [(*pair, divisor) for divisor, pair in enumerate(pairs, 1)]


def exceptions(theirs, ours):
    """Divisor and Gleaner's time of those that are not dominated."""
    return [(point[2], best)
            for point, best in tradeoff.not_dominated(points(*theirs), points(*ours))]


class LeastTime(unittest.TestCase):
    def test_at_a_point_between_two_and_beyond_the_ends(self):
        curve = [(40, 1), (20, 2), (10, 4)]
        for memory, time in ((10, 4), (15, 3), (20, 2), (30, 1.5), (40, 1), (1000, 1), (9.9, None)):
            self.assertEqual(tradeoff.least_time(curve, memory), time, memory)

    def test_other_curves(self):
        for curve, memory, time in (
                ([(40, 3), (20, 2)], 40, 2),  # less memory may be faster
                ([(40, 1), (60, 1), (10, 11)], 30, 7),  # lines join neighbours alone
                ([(20, 3), (20, 2)], 20, 2), ([(20, 3), (20, 2)], 19, None), ([(20, 3)], 20, 3)):
            self.assertEqual(tradeoff.least_time(curve, memory), time, curve)


class Domination(unittest.TestCase):
    def test_points(self):
        for expected, theirs, ours in (
                ([], [(40, 2), (20, 4)], [(30, 1), (15, 2)]),
                ([], [(40, 2), (20, 4)], [(40, 2), (20, 4)]),  # equal ones are
                ([], [(30, 3)], [(40, 2), (20, 4)]),  # a line between points counts
                ([(1, 3)], [(30, 2.9)], [(40, 2), (20, 4)]),
                ([(3, 3)], [(40, 2), (30, 2.5), (20, 2.6)], [(40, 1), (20, 3)]),
                ([(2, None)], [(40, 2), (10, 100)], [(40, 1), (20, 2)])):
            self.assertEqual(exceptions(theirs, ours), expected)

    def test_verdicts(self):
        def text(theirs, ours):
            return "\n".join(tradeoff.verdict("trees", "wall", points(*theirs), points(*ours)))

        self.assertEqual(text([(40, 2), (20, 4)], [(30, 1), (15, 2)]),
                         "trees, wall time: Gleaner dominates all 2 points of libgc.")
        self.assertEqual(text([(40, 0.5), (30, 5), (10, 9)], [(40, 1), (20, 2)]), """\
trees, wall time: Gleaner does not dominate 2 of 3 points of libgc:
  divisor 1: 0.5 s in 40 MB; Gleaner takes 1 s in that memory
  divisor 3: 9 s in 10 MB; Gleaner has no point below 20 MB""")
        self.assertIn("no verdict", text([(40, 2)], []))
        self.assertIn("no verdict", text([], [(40, 2)]))


class Curves(unittest.TestCase):
    def measured(self):
        """Two divisors; on libgc, the second has failed."""
        workload = sweep.Workload("trees", ["trees"], ["trees"])
        axes = [{"divisor": [1, 3], "library": [THEIRS, OURS]}]
        figure = sweep.Figure("tradeoff", "", [workload], list(tradeoff.TIMES.values()), "divisor",
                              axes, axes, against=MEMORY)
        options = argparse.Namespace(quick=False, smoke=False, seed=None, runs=3, out="nowhere")
        measured = sweep.Measured(figure, options)
        for cell in measured.cells:
            failed = cell.point == {"library": THEIRS, "divisor": 3}
            cell.series = Series([Run({}, 10, 5, 1), Run({}, 30, 4, 9), Run({}, 20, 6, 2)],
                                 RunFailed("exit status 1") if failed else None)
        return measured

    def test_libraries_take_turns_at_each_divisor(self):
        measured = self.measured()
        self.assertEqual([(cell.point["library"], cell.point["divisor"]) for cell in measured.cells],
                         [(THEIRS, 1), (OURS, 1), (THEIRS, 3), (OURS, 3)])
        self.assertEqual([side.environment for side in measured.sides],
                         2 * [{"GC_FREE_SPACE_DIVISOR": "1"}] + 2 * [{"GC_FREE_SPACE_DIVISOR": "3"}])

    def test_each_figure_has_its_median_and_what_failed_is_left_out(self):
        measured = self.measured()
        workload = measured.figure.workloads[0]
        for kind, median in (("processor", 2), ("wall", 5)):
            self.assertEqual(measured.lines(workload, tradeoff.TIMES[kind]),
                             {THEIRS: [(20, median, 1)], OURS: [(20, median, 1), (20, median, 3)]})


class Arguments(unittest.TestCase):
    def test_wrong_ones_are_named(self):
        for message, *arguments in (
                ("'1,x' is no list of numbers", "--divisors", "1,x"),
                ("a divisor is at least 1", "--divisors", "0,3"),
                ("there is no client 'nothing'", "--client", "nothing"),
                ("at least 1", "--runs", "0"),
                ("there is no libgc.so.1 in /nowhere", "--ours", "/nowhere")):
            with contextlib.redirect_stderr(io.StringIO()) as output, \
                    self.assertRaises(SystemExit) as left:
                tradeoff.parse_arguments(["--bin", ".", *arguments])
            self.assertEqual(left.exception.code, 2)
            self.assertIn(message, output.getvalue())

    def test_divisors_are_sorted_and_differ(self):
        self.assertEqual(tradeoff.divisors("8,1,3,8"), [1, 3, 8])

    def test_the_programs_are_rows_of_bench(self):
        for threads in (1, 2):
            rows = {row.name: row.b.command for row in compare.make_rows() if row.threads == threads}
            for workload in tradeoff.workloads(argparse.Namespace(threads=threads, clients=[]), ""):
                point = {"library": OURS, "divisor": 1}
                options = argparse.Namespace(quick=False, seed=None)
                self.assertEqual(sweep.side_of(workload, point, options).command,
                                 rows[workload.name])


if __name__ == "__main__":
    unittest.main()
