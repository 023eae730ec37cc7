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
from dataclasses import dataclass, field

from . import tables
from .running import OURS, THEIRS, RunFailed, Side, add_places, check_places, run_once
from .session import Session

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


def held(session, options, mode, environment, library, arguments):
    """Objects still held, by depth, and how many there were."""
    side = Side(library, ["retention"] + arguments, library, environment)

    def measure():
        run = run_once(side, options)
        if run.values["incremental"] != mode.incremental:
            raise RunFailed(f"{mode.name}: the program reports incremental="
                            f"{run.values['incremental']}")
        return run

    name = f"{mode.name}, {' '.join(arguments)}, {library}"
    values = session.once(name, name, measure).values
    return [int(values[f"held_{depth}"]) for depth in DEPTHS], int(values["objects"])


def rows(options):
    """Mode, thread, when, use."""
    for mode in MODES:
        short = options.smoke and mode.name != "default"
        for thread in THREADS[:1] if short else THREADS:
            for when in BETWEEN:
                for use in ("locals", "guardian") if short else USES:
                    yield mode, thread, when, use


def main(cli_arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_places(parser)
    parser.add_argument("--uses", action="store_true", help="a row for each use, not their sum")
    parser.add_argument("--check", action="store_true", help="test the law")
    parser.add_argument("--smoke", action="store_true",
                        help="fewer rows in the concurrent and generational modes")
    options = parser.parse_args(cli_arguments)
    check_places(parser, options)

    session = Session.of_command("bench-retention", options, cli_arguments)
    counts, broken = {}, []  # counts: by mode, thread and when; for each use
    for mode, thread, when, use in rows(options):
        arguments = ["--use", use, "--thread", thread, "--between", str(BETWEEN[when])]
        try:
            theirs, objects = held(session, options, mode, mode.theirs, THEIRS, arguments)
            ours, _ = held(session, options, mode, mode.ours, OURS, arguments)
        except RunFailed as failure:
            return tables.report_failures([failure])
        counts.setdefault((mode.name, thread, when), {})[use] = (theirs, ours)
        for depth, a, b in zip(DEPTHS, theirs, ours):
            if b > 2 * a + OBJECTS_OF_ROUND:
                broken.append(f"{mode.name}, {thread}, {when}, {use}, depth {depth}: "
                              f"libgc holds {a} of {objects}, Gleaner {b}")

    session.remove()
    lines = []
    for row, uses in counts.items():
        for use, (theirs, ours) in uses.items() if options.uses else [("all", sums(uses))]:
            lines.append(list(row) + [use] + [f"{a} / {b}" for a, b in zip(theirs, ours)])
    tables.print_markdown([["mode", "thread", "collection", "use"]
                            + [f"depth {depth}" for depth in DEPTHS]] + lines)
    print(f"\nlibgc / Gleaner, of {objects} objects of each use.")
    return tables.report_failures(broken) if options.check else 0


def sums(uses):
    """Over the uses, for each depth: theirs and ours."""
    return [[sum(counts) for counts in zip(*side)] for side in zip(*uses.values())]

