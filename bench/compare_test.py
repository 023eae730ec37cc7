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
    result = compare.Result(compare.Row(name, 1, *sides, metric=metric))
    for key, numbers in (("a", a), ("b", b)):
        for number in numbers:
            result.add(key, Run({metric: str(number), "checksum": "1", "collections": "3"}, 10))
    return result


def printed(results, against="abc"):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        compare.print_results(results, against)
    return output.getvalue()


class Against(unittest.TestCase):
    def test_ranges_without_anything_in_common_differ(self):
        self.assertTrue(result_of("slower", [1.0, 1.2, 1.1], [1.3, 1.21, 1.5]).differs())
        self.assertTrue(result_of("faster", [1.3, 1.21, 1.5], [1.0, 1.2, 1.1]).differs())

    def test_ranges_that_overlap_or_touch_do_not(self):
        self.assertFalse(result_of("overlap", [1.0, 1.2, 1.1], [1.15, 2, 3]).differs())
        self.assertFalse(result_of("inside", [1, 2, 3], [1.5, 1.6, 1.7]).differs())
        self.assertFalse(result_of("touch", [1.0, 1.2], [1.2, 1.3]).differs())

    def test_numbers_are_not_compared_as_text(self):
        self.assertTrue(result_of("digits", [9, 9.5], [10, 11]).differs())
        self.assertFalse(result_of("digits", [9, 10.5], [10, 11]).differs())

    def test_the_rows_own_metric_counts(self):
        self.assertTrue(result_of("pauses", [1, 2], [3, 4], "collect_ms_median").differs())

    def test_only_rows_that_differ_are_printed(self):
        text = printed([result_of("first", [1, 2], [3, 4]), result_of("second", [1, 3], [2, 4])])
        self.assertIn("| first ", text)
        self.assertNotIn("second", text)
        self.assertIn("abc (A)", text)
        self.assertIn("this tree (B)", text)
        self.assertIn("1 of 2 rows differ from abc", text)

    def test_one_line_if_none_differs(self):
        self.assertEqual(printed([result_of("second", [1, 3], [2, 4])]),
                         "No difference from abc beyond the spread of the runs in 1 rows.\n")

    def test_every_row_has_both_libraries_and_no_target(self):
        rows = compare.make_rows("abc")
        self.assertGreater(len(rows), 30)
        self.assertEqual(len({(row.name, row.threads) for row in rows}), len(rows))
        for row in rows:
            self.assertEqual((row.a.library, row.b.library), (THEIRS, OURS), row)
            self.assertEqual((row.a.command, row.a.environment), (row.b.command, row.b.environment))
            self.assertEqual((row.a.label, row.target), ("abc", 0), row)

    def test_without_it_all_rows_are_printed(self):
        text = printed([result_of("first", [1, 2], [3, 4]), result_of("second", [1, 3], [2, 4])], "")
        self.assertIn("| first ", text)
        self.assertIn("| second ", text)
        self.assertIn("| target ", text)


class Arguments(unittest.TestCase):
    def error_of(self, *arguments):
        with contextlib.redirect_stderr(io.StringIO()) as output, self.assertRaises(SystemExit) as left:
            compare.parse_arguments(["--bin", ".", *arguments])
        self.assertEqual(left.exception.code, 2)
        return output.getvalue()

    def test_wrong_ones_are_named(self):
        self.assertIn("'[' is no regular expression", self.error_of("--only", "["))
        self.assertIn("there is no libgc.so.1 in /nowhere", self.error_of("--ours", "/nowhere"))
        self.assertIn("at least 1", self.error_of("--runs", "0"))
        self.assertIn("one run has no spread", self.error_of("--against", "abc", "--runs", "1"))


if __name__ == "__main__":
    unittest.main()
