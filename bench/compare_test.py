#!/usr/bin/env python3
"""What `bench` makes of runs that are made up: which rows differ, and what it prints of them."""

import contextlib
import io
import unittest

from experiments import compare
from experiments.running import OURS, THEIRS, Run, Side


def result_of(name, a, b, metric="seconds"):
    sides = [Side(label, ["program"], library)
             for label, library in (("abc", THEIRS), ("this tree", OURS))]
    return compare.Result(compare.Row(name, 1, *sides, metric=metric), *(
        [Run({metric: str(number), "collections": "3"}, 10) for number in numbers]
        for numbers in (a, b)))


def printed(results, against="abc"):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        compare.print_results(results, against)
    return output.getvalue()


class Against(unittest.TestCase):
    def test_ranges_without_anything_in_common_differ(self):
        for expected, a, b in ((True, [1.0, 1.2, 1.1], [1.3, 1.21, 1.5]),
                               (True, [1.3, 1.21, 1.5], [1.0, 1.2, 1.1]),
                               (False, [1.0, 1.2, 1.1], [1.15, 2, 3]),
                               (False, [1, 2, 3], [1.5, 1.6, 1.7]), (False, [1.0, 1.2], [1.2, 1.3]),
                               # As numbers, not as text.
                               (True, [9, 9.5], [10, 11]), (False, [9, 10.5], [10, 11])):
            self.assertEqual(result_of("row", a, b).differs(), expected, (a, b))
        self.assertTrue(result_of("pauses", [1, 2], [3, 4], "collect_ms_median").differs())

    def test_only_rows_that_differ_are_printed(self):
        results = [result_of("first", [1, 2], [3, 4]), result_of("second", [1, 3], [2, 4])]
        text = printed(results)
        self.assertIn("| first ", text)
        self.assertNotIn("second", text)
        self.assertIn("abc (A)", text)
        self.assertIn("this tree (B)", text)
        self.assertIn("1 of 2 rows differ from abc", text)
        self.assertEqual(printed(results[1:]),
                         "No difference from abc beyond the spread of the runs in 1 rows.\n")
        text = printed(results, "")
        for word in ("| first ", "| second ", "| target "):
            self.assertIn(word, text)

    def test_every_row_has_both_libraries_and_no_target(self):
        rows = compare.make_rows("abc")
        self.assertGreater(len(rows), 30)
        self.assertEqual(len({(row.name, row.threads) for row in rows}), len(rows))
        for row in rows:
            self.assertEqual((row.a.library, row.b.library), (THEIRS, OURS), row)
            self.assertEqual((row.a.command, row.a.environment), (row.b.command, row.b.environment))
            self.assertEqual((row.a.label, row.target), ("abc", 0), row)


class Arguments(unittest.TestCase):
    def test_wrong_ones_are_named(self):
        for message, *arguments in (
                ("'[' is no regular expression", "--only", "["),
                ("there is no libgc.so.1 in /nowhere", "--ours", "/nowhere"),
                ("at least 1", "--runs", "0"),
                ("one run has no spread", "--against", "abc", "--runs", "1")):
            with contextlib.redirect_stderr(io.StringIO()) as output, \
                    self.assertRaises(SystemExit) as left:
                compare.parse_arguments(["--bin", ".", *arguments])
            self.assertEqual(left.exception.code, 2)
            self.assertIn(message, output.getvalue())


if __name__ == "__main__":
    unittest.main()
