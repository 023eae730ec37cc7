#!/usr/bin/env python3
"""What `tradeoff` makes of runs that are made up: medians, domination, tables; and their order."""

import argparse
import contextlib
import io
import os
import tempfile
import unittest

from experiments import compare, tradeoff
from experiments.running import Run, RunFailed
from experiments.session import Session

THEIRS, OURS = tradeoff.LIBRARIES


def run_of(memory, time, wall=None):
    return Run({}, memory, time if wall is None else wall, time)


def curve(*points):
    """Of pairs (memory, time); the divisors are 1, 2 ..."""
    return [tradeoff.Point.of_runs(divisor, [run_of(*point)])
            for divisor, point in enumerate(points, 1)]


def curves(theirs, ours):
    return {THEIRS: curve(*theirs), OURS: curve(*ours)}


def exceptions(theirs, ours, kind="processor"):
    """Divisor and Gleaner's time of those that are not dominated."""
    return [(point.divisor, best)
            for point, best in tradeoff.not_dominated(curves(theirs, ours), kind)]


class Medians(unittest.TestCase):
    def test_each_metric_has_its_own(self):
        runs = [run_of(10, 5, 1), run_of(30, 4, 9), run_of(20, 6, 2)]
        record = tradeoff.Point.of_runs(3, runs).record
        self.assertEqual((record["peak_mb"], record["processor_s"], record["wall_s"]), (20, 5, 2))
        self.assertEqual((record["wall_s_min"], record["wall_s_max"], record["runs"]), (1, 9, 3))

    def test_of_an_even_number_it_is_the_mean_of_the_middle_two(self):
        self.assertEqual(tradeoff.Point.of_runs(3, [run_of(10, 1), run_of(20, 2)]).memory, 15)


class LeastTime(unittest.TestCase):
    POINTS = [(40, 1), (20, 2), (10, 4)]

    def test_at_a_point_and_between_two(self):
        for memory, time in ((10, 4), (15, 3), (20, 2), (30, 1.5), (40, 1)):
            self.assertEqual(tradeoff.least_time(self.POINTS, memory), time, memory)

    def test_beyond_the_ends(self):
        self.assertEqual(tradeoff.least_time(self.POINTS, 1000), 1)
        self.assertIsNone(tradeoff.least_time(self.POINTS, 9.9))

    def test_a_point_with_less_memory_may_be_faster(self):
        self.assertEqual(tradeoff.least_time([(40, 3), (20, 2)], 40), 2)

    def test_lines_join_neighbours_alone(self):
        # Between the first and the last there is none.
        self.assertEqual(tradeoff.least_time([(40, 1), (60, 1), (10, 11)], 30), 7)

    def test_points_of_equal_memory(self):
        self.assertEqual(tradeoff.least_time([(20, 3), (20, 2)], 20), 2)
        self.assertIsNone(tradeoff.least_time([(20, 3), (20, 2)], 19))

    def test_one_point_is_a_curve(self):
        self.assertEqual(tradeoff.least_time([(20, 3)], 20), 3)


class Domination(unittest.TestCase):
    def test_a_curve_below(self):
        self.assertEqual(exceptions([(40, 2), (20, 4)], [(30, 1), (15, 2)]), [])

    def test_equal_points_are_dominated(self):
        self.assertEqual(exceptions([(40, 2), (20, 4)], [(40, 2), (20, 4)]), [])

    def test_a_line_between_points_counts(self):
        self.assertEqual(exceptions([(30, 3)], [(40, 2), (20, 4)]), [])
        self.assertEqual(exceptions([(30, 2.9)], [(40, 2), (20, 4)]), [(1, 3)])

    def test_curves_that_cross(self):
        self.assertEqual(exceptions([(40, 2), (30, 2.5), (20, 2.6)], [(40, 1), (20, 3)]), [(3, 3)])

    def test_less_memory_than_ours_ever_needs(self):
        self.assertEqual(exceptions([(40, 2), (10, 100)], [(40, 1), (20, 2)]), [(2, None)])

    def test_each_time_has_its_verdict(self):
        theirs, ours = [(40, 2, 1)], [(40, 1, 2)]
        self.assertEqual(exceptions(theirs, ours, "processor"), [])
        self.assertEqual(exceptions(theirs, ours, "wall"), [(1, 2)])


class Verdict(unittest.TestCase):
    def text(self, theirs, ours):
        return "\n".join(tradeoff.verdict("trees", curves(theirs, ours), "wall"))

    def test_below_everywhere(self):
        self.assertEqual(self.text([(40, 2), (20, 4)], [(30, 1), (15, 2)]),
                         "trees, wall time: Gleaner dominates all 2 points of libgc.")

    def test_the_others_are_named(self):
        self.assertEqual(self.text([(40, 0.5), (30, 5), (10, 9)], [(40, 1), (20, 2)]), """\
trees, wall time: Gleaner does not dominate 2 of 3 points of libgc:
  divisor 1: 0.5 s in 40 MB; Gleaner takes 1 s in that memory
  divisor 3: 9 s in 10 MB; Gleaner has no point below 20 MB""")

    def test_none_without_points(self):
        self.assertIn("no verdict", self.text([(40, 2)], []))
        self.assertIn("no verdict", self.text([], [(40, 2)]))


class Table(unittest.TestCase):
    RESULTS = {"trees": curves([(40, 2, 3), (20, 4, 5)], [(30, 1, 2)]),
               "strings": curves([(7, 8, 9)], [(4, 5, 6)])}

    def test_a_line_for_each_divisor(self):
        lines = tradeoff.table(self.RESULTS)
        self.assertEqual(lines[1:], [["trees", "1", "2", "3", "40", "1", "2", "30"],
                                     ["trees", "2", "4", "5", "20", "-", "-", "-"],
                                     ["strings", "1", "8", "9", "7", "5", "6", "4"]])
        self.assertEqual({len(line) for line in lines}, {8})

    def test_what_is_written_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "table.csv")
            tradeoff.write_csv(path, self.RESULTS)
            self.assertEqual(tradeoff.read_csv(path), self.RESULTS)
            self.assertEqual(list(tradeoff.read_csv(path, "^s")), ["strings"])


class Program:
    """Writes down the order of its runs; `fails` fails the first time."""
    name = "program"

    def __init__(self, fails=None):
        self.order = []
        self.fails = fails

    def prepare(self):
        pass

    def measure(self, library, divisor):
        self.order.append((library, divisor))
        if (library, divisor) == self.fails:
            raise RunFailed("exit status 1")
        return run_of(divisor, len(self.order))


class Runs(unittest.TestCase):
    OPTIONS = argparse.Namespace(divisors=[1, 3], runs=2)

    def test_libraries_take_turns_at_each_divisor(self):
        program = Program()
        with tempfile.TemporaryDirectory() as folder:
            session = Session(os.path.join(folder, "runs"), {})
            result, failures = tradeoff.run_program(session, program, self.OPTIONS)
            session.close()
        self.assertEqual(program.order, 2 * [(THEIRS, 1), (OURS, 1), (THEIRS, 3), (OURS, 3)])
        self.assertEqual(failures, [])
        self.assertEqual([point.divisor for point in result[OURS]], [1, 3])
        self.assertEqual(result[OURS][1].record["processor_s"], (4 + 8) / 2)

    def test_a_point_that_fails_is_left_out(self):
        program = Program((THEIRS, 3))
        with tempfile.TemporaryDirectory() as folder:
            session = Session(os.path.join(folder, "runs"), {})
            result, failures = tradeoff.run_program(session, program, self.OPTIONS)
            session.close()
        self.assertEqual(failures, ["program, divisor 3, libgc: exit status 1"])
        self.assertEqual([point.divisor for point in result[THEIRS]], [1])
        self.assertEqual([point.divisor for point in result[OURS]], [1, 3])
        self.assertEqual(program.order.count((THEIRS, 3)), 1)


class Arguments(unittest.TestCase):
    def error_of(self, *arguments):
        with contextlib.redirect_stderr(io.StringIO()) as output, \
                self.assertRaises(SystemExit) as left:
            tradeoff.parse_arguments(["--bin", ".", *arguments])
        self.assertEqual(left.exception.code, 2)
        return output.getvalue()

    def test_wrong_ones_are_named(self):
        self.assertIn("'1,x' is no list of numbers", self.error_of("--divisors", "1,x"))
        self.assertIn("a divisor is at least 1", self.error_of("--divisors", "0,3"))
        self.assertIn("there is no client 'nothing'", self.error_of("--client", "nothing"))
        self.assertIn("at least 1", self.error_of("--runs", "0"))
        self.assertIn("there is no libgc.so.1 in /nowhere", self.error_of("--ours", "/nowhere"))
        self.assertIn("--read: there is no /nowhere", self.error_of("--read", "/nowhere"))

    def test_divisors_are_sorted_and_differ(self):
        self.assertEqual(tradeoff.divisors("8,1,3,8"), [1, 3, 8])

    def test_the_programs_are_rows_of_compare(self):
        for threads in (1, 2):
            names = {row.name for row in compare.make_rows() if row.threads == threads}
            self.assertLessEqual(set(tradeoff.BENCHMARKS), names)


if __name__ == "__main__":
    unittest.main()
