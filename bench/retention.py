#!/usr/bin/env python3
"""Counts what collections find after its last use, on Debian's libgc and on Gleaner.

Runs the program `retention` for each way of using objects, in each kind of thread and in each mode,
and prints one table: objects still held, libgc / Gleaner, by the depth of the stack at which they
were used.

--check tests a law. Both sides run the same program, so that the same words are left over in its
frames. A word that is left over keeps the object that it points to; Gleaner's objects have no
padding, so that there it also keeps the one that ends at that address. So Gleaner may hold twice
what libgc holds, and in all rounds of a cell together as many more as one round makes, for the
words that an interrupt or a first call of a function leaves. The exit status is 1 where it holds
more.
"""

import argparse
import os
import sys
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import compare  # noqa: E402

USES = ["locals", "registers", "arguments", "vector", "weak", "finalizers", "guardian"]
THREADS = ["main", "other", "waiting", "blocked", "ended"]
DEPTHS = [0, 4, 16, 64, 256]
OBJECTS_OF_ROUND = 8
# Objects allocated between the last use and the collection.
BETWEEN = {"at once": 0, "later": 1000}


@dataclass
class Mode:
    name: str
    theirs: dict = field(default_factory=dict)  # variables of the environment
    ours: dict = field(default_factory=dict)
    incremental: str = "0"  # what the programs must report


INCREMENTAL = {"GC_ENABLE_INCREMENTAL": "1"}
MODES = [
    Mode("default"),
    Mode("concurrent", INCREMENTAL, INCREMENTAL, "1"),
    Mode("generational", INCREMENTAL, {**INCREMENTAL, "GLEANER_GENERATIONAL": "1"}, "1"),
]


def held(options, mode, environment, library, arguments):
    side = compare.Space(library, ["retention"] + arguments, library, environment)
    values = compare.run_once(side, options).values
    if values["incremental"] != mode.incremental:
        raise compare.RunFailed(f"{mode.name}: the program reports incremental="
                                f"{values['incremental']}")
    return [int(values[f"held_{depth}"]) for depth in DEPTHS], int(values["objects"])


def rows(options):
    """Mode, thread, when, use."""
    for mode in MODES:
        short = options.smoke and mode.name != "default"
        for thread in THREADS[:1] if short else THREADS:
            for when in BETWEEN:
                for use in ("locals", "guardian") if short else USES:
                    yield mode, thread, when, use


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    compare.add_places(parser)
    parser.add_argument("--uses", action="store_true", help="a row for each use, not their sum")
    parser.add_argument("--check", action="store_true", help="test the law")
    parser.add_argument("--smoke", action="store_true",
                        help="fewer rows in the concurrent and generational modes")
    options = parser.parse_args()
    compare.check_places(parser, options)

    counts, broken = {}, []  # counts: by mode, thread and when; for each use
    for mode, thread, when, use in rows(options):
        arguments = ["--use", use, "--thread", thread, "--between", str(BETWEEN[when])]
        try:
            theirs, objects = held(options, mode, mode.theirs, compare.THEIRS, arguments)
            ours, _ = held(options, mode, mode.ours, compare.OURS, arguments)
        except compare.RunFailed as failure:
            return compare.report_failures([failure])
        counts.setdefault((mode.name, thread, when), {})[use] = (theirs, ours)
        for depth, a, b in zip(DEPTHS, theirs, ours):
            if b > 2 * a + OBJECTS_OF_ROUND:
                broken.append(f"{mode.name}, {thread}, {when}, {use}, depth {depth}: "
                              f"libgc holds {a} of {objects}, Gleaner {b}")

    lines = []
    for row, uses in counts.items():
        for use, (theirs, ours) in uses.items() if options.uses else [("all", sums(uses))]:
            lines.append(list(row) + [use] + [f"{a} / {b}" for a, b in zip(theirs, ours)])
    compare.print_markdown([["mode", "thread", "collection", "use"]
                            + [f"depth {depth}" for depth in DEPTHS]] + lines)
    print(f"\nlibgc / Gleaner, of {objects} objects of each use.")
    return compare.report_failures(broken) if options.check else 0


def sums(uses):
    """Over the uses, for each depth: theirs and ours."""
    return [[sum(counts) for counts in zip(*side)] for side in zip(*uses.values())]


if __name__ == "__main__":
    sys.exit(main())
