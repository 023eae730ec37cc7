#!/usr/bin/env python3
"""The report's case: matrices that one thread initialises, and a BLAS that has threads of its own.
On libgleaner_malloc.so an option places them, without numactl and without a change of the program.

usage: blas_test.py BUILD_DIR PROGRAM MALLOC_LIBRARY
"""

import os
import re
import subprocess
import sys
import unittest

from machine import Node
from on_machine import OnMachine

BUILD, PROGRAM, MALLOC = (os.path.abspath(path) for path in sys.argv[1:4])
BLAS = "libopenblas.so.0"
ROUNDING = 4  # pages; a matrix need not begin with a page, nor a span with the first node
SIZE, DEPTH = 1024, 64
PAGES = {"A": SIZE * DEPTH * 8 // 4096, "B": SIZE * DEPTH * 8 // 4096, "C": SIZE * SIZE * 8 // 4096}


def blas():
    """The path of Debian's OpenBLAS."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True)
    found = re.search(rf"{re.escape(BLAS)} .* => (/\S+)", listed.stdout)
    if not found:
        sys.exit(f"there is no {BLAS}: install libopenblas0-pthread, as ./dev test does")
    return found[1]


class Matrices(OnMachine):
    BUILD = BUILD
    NODES = [Node(1, 256)] * 4
    SETTINGS = {"files": [PROGRAM, MALLOC, blas()], "huge_pages": False}

    def pages(self, **options):
        """By matrix, the pages on each node after a product on all four processors."""
        lines = self.run_there(PROGRAM, blas(), str(SIZE), str(DEPTH), LD_PRELOAD=MALLOC,
                               **options).output.splitlines()
        self.assertEqual(lines[0], "threads=4")
        found = {line.split()[0]: [int(count) for count in re.findall(r"node\d+=(\d+)", line)]
                 for line in lines[1:]}
        self.assertEqual(list(found), list(PAGES))
        for name, counts in found.items():
            self.assertEqual(len(counts), len(self.NODES))
            self.assertAlmostEqual(sum(counts), PAGES[name], delta=1)
        return found

    def test_as_the_thread_that_initialises_them(self):
        for name, counts in self.pages().items():
            self.assertGreaterEqual(max(counts), PAGES[name] - ROUNDING, (name, counts))

    def test_interleaved(self):
        for name, counts in self.pages(GLEANER_NUMA="interleave:0-3").items():
            for count in counts:
                self.assertAlmostEqual(count, PAGES[name] / 4, delta=ROUNDING, msg=(name, counts))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
