"""Runs the benchmarks in turn on Debian's libgc and on Gleaner and prints one table.

Every row compares two sides, A and B, of one workload: A B A B ..., so that both see the same
machine. Shown are the median of the runs with minimum and maximum, the ratio A / B (how many times
faster B is), the peak resident set and the collections. A run counts only if it used the libgc
intended (the program reports the path that the loader chose) and if its checksum equals that of all
the other runs of its row. The exit status is 1 if a run failed; a missed target is not a failure.

With --against NAME the library of --theirs is Gleaner as well, of the commit NAME, and only the rows
are printed in which the slowest run of one side is faster than the fastest of the other. Of two equal
libraries that is so in one row of 126 with five runs of each, in one of ten with three.
"""

import argparse
import re
import statistics
import sys
from dataclasses import dataclass

from .machine import OtherPrograms
from .running import OURS, THEIRS, RunFailed, Side, add_places, check_places, run_once
from .session import Session
from .tables import print_markdown, regex, report_failures, three_digits, write_records

NOISE = 0.03  # A target of exactly 1 ("never slower") is met from 1 - NOISE on.


@dataclass
class Row:
    name: str
    threads: int
    a: Side
    b: Side
    target: float = 0  # The ratio wanted; 0 means the row is for information.
    metric: str = "seconds"


WAKE = " --wake-markers"
SHAPES = ("graph", "arrays", "huge", "tree", "list")
# Name, command, and the ratio wanted on one thread and on two; None: there is no such row. Debian's
# libgc starts its markers with the first thread. A program without threads is run in the way that
# suits it better: with markers where marking dominates, without where it does not.
ON_BOTH = [
    ("GC_MALLOC(16), nothing kept", "malloc_peak", 7, 20),
    ("binary trees", "binary_trees" + WAKE, 1.5, 2),
    ("GCBench", "gcbench" + WAKE, 1.6, 2.5),
    ("atomic strings of 8-2000 bytes", "strings", 4, 6),
    ("hash table, 400 MB", "hash_table" + WAKE, 1.2, 1.4),
    ("hash table, without collection", "hash_table --no-collect" + WAKE, 0, 0),
    *((f"a heap fixed at {percent / 100:g} times 40 MB live",
       f"stable_heap --live-mb 40 --heap-percent {percent}" + WAKE, 1, 1)
      for percent in (150, 200, 400)),
    *((f"full collection, {shape}", f"mark_shapes --shape {shape}" + WAKE, target, None)
      for shape, target in zip(SHAPES, (4, 4, 4, 1.3, 1))),
    ("BH-pt", "bh --variant pt" + WAKE, 1.3, 2),
    ("BH-pt, interaction lists", "bh --variant pt --lists" + WAKE, 1.3, 2),
    ("BH-st", "bh --variant st" + WAKE, 0, 0),
]
# Kind, arguments of mark_shapes, and how many times as fast two markers are to be.
ON_MARKERS = [("graph", "--shape graph", 1.8)] + [
    (f"small {shape}", f"--shape {shape} --objects {objects} --repeats 201", 1)
    for shape, objects in (("graph", 60_000), ("tree", 80_000), ("list", 80_000), ("arrays", 500),
                           ("huge", 300_000))]


def make_rows(against=""):
    """All rows; with `against`, of that commit's library and ours, and no others."""
    rows = []

    def add(name, threads, a, b, target):
        metric = "collect_ms_median" if b.command[0] == "mark_shapes" else "seconds"
        rows.append(Row(name, threads, a, b, 0 if against else target, metric))

    def both(command, environment=()):
        return [Side(label, command, library, dict(environment)) for label, library in (
            (against or THEIRS, THEIRS), ("this tree" if against else OURS, OURS))]

    def ours(command, count):
        return Side(f"{OURS}, {count} marker{'s' * (count - 1)}", command, OURS,
                    {"GC_MARKERS": str(count)})

    for name, command, *targets in ON_BOTH:
        for threads, target in enumerate(targets, 1):
            if target is not None:
                argv = command.split() if threads == 1 else command.removesuffix(WAKE).split()
                argv[1:1] = ["--threads", str(threads)]
                add(name, threads, *both(argv), target)
    for kind, arguments, target in ON_MARKERS:
        command = f"mark_shapes {arguments}{WAKE}".split()
        if not against:
            add(f"2 markers against 1, {kind}", 1, ours(command, 1), ours(command, 2), target)
        for count in (1, 2) if against else ():
            add(f"full collection, {kind}, markers {count}", 1,
                *both(command, {"GC_MARKERS": str(count)}.items()), 0)
    for shape in SHAPES if not against else ():
        add(f"floor against our 1 marker, {shape}", 1,
            Side("floor", ["mark_floor", "--shape", shape]),
            ours(["mark_shapes", "--shape", shape], 1), 0)
    return rows


class Result:
    """The runs of one row."""

    def __init__(self, row, a=(), b=()):
        self.row = row
        self.runs = {"a": list(a), "b": list(b)}

    def numbers(self, key, name=None):
        name = name or self.row.metric
        return [run.rss_mb if name == "rss_mb" else float(run.values[name])
                for run in self.runs[key]]

    def median(self, key, name=None):
        return statistics.median(self.numbers(key, name))

    def ratio(self):
        return self.median("a") / self.median("b")

    def differs(self):
        """Whether the ranges of the two sides have nothing in common."""
        a, b = self.numbers("a"), self.numbers("b")
        return max(a) < min(b) or max(b) < min(a)

    def met(self):
        if not self.row.target:
            return ""
        minimum = 1 - NOISE if self.row.target == 1 else self.row.target
        return "yes" if self.ratio() >= minimum else "no"

    def time_text(self, key):
        numbers = self.numbers(key)
        unit = "ms" if self.row.metric == "collect_ms_median" else "s"
        low, mid, high = map(three_digits,
                             (min(numbers), statistics.median(numbers), max(numbers)))
        return f"{mid} {unit} ({low}-{high})"

    def stall_text(self, key):
        """The longest stall of a mutator where the program measures it, else the longest pause."""
        for name in ("max_stall_ms", "pause_max_ms"):
            if name in self.runs[key][0].values:
                return three_digits(self.median(key, name))
        return "-"


def header(a_label=THEIRS, b_label=OURS):
    """Of the table; the sides are these unless the row's name says otherwise."""
    return ["workload", "threads", f"{a_label} (A) median (min-max)",
            f"{b_label} (B) median (min-max)", "ratio A/B", "target", "met", "A peak MB", "B peak MB",
            "RSS ratio B/A", "collections A / B", "longest stall ms, A / B"]


def table_line(result, labels=(THEIRS, OURS)):
    row = result.row
    name = row.name
    if (row.a.label, row.b.label) != labels:
        name += f" ({row.a.label} : {row.b.label})"
    rss = [result.median(key, "rss_mb") for key in "ab"]
    return [name, str(row.threads), result.time_text("a"), result.time_text("b"),
            f"{result.ratio():.2f}", f"{row.target:g}" if row.target else "info", result.met(),
            f"{rss[0]:.0f}", f"{rss[1]:.0f}",
            f"{rss[1] / rss[0]:.2f}",
            " / ".join(f"{result.median(key, 'collections'):.0f}" for key in "ab"),
            f"{result.stall_text('a')} / {result.stall_text('b')}"]


def print_results(results, against=""):
    """All of them, or with `against` those that differ."""
    if not against:
        print_markdown([header()] + [table_line(result) for result in results])
        return
    differ = [result for result in results if result.differs()]
    if not differ:
        print(f"No difference from {against} beyond the spread of the runs in {len(results)} rows.")
        return
    labels = (differ[0].row.a.label, differ[0].row.b.label)
    lines = [header(*labels)] + [table_line(result, labels) for result in differ]
    target, met = lines[0].index("target"), lines[0].index("met")
    print_markdown([[cell for column, cell in enumerate(line) if column not in (target, met)]
                    for line in lines])
    print(f"\n{len(differ)} of {len(results)} rows differ from {against} beyond the spread of the runs.")


def write_csv(path, results):
    records = []
    for result in results:
        for key, side in (("a", result.row.a), ("b", result.row.b)):
            for number, run in enumerate(result.runs[key]):
                records.append({"row": result.row.name, "side": side.label, "run": number,
                                "rss_mb": run.rss_mb, **run.values})
    write_records(path, records)


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_places(parser)
    parser.add_argument("--against", metavar="NAME", default="",
                        help="--theirs is Gleaner of the commit NAME; print only rows that differ")
    parser.add_argument("--runs", type=int, help="runs of each side (5, with --smoke 1)")
    parser.add_argument("--only", metavar="REGEX", type=regex, default="",
                        help="only rows whose 'name, threads N' matches")
    parser.add_argument("--smoke", action="store_true", help="tiny runs; the figures mean nothing")
    parser.add_argument("--csv", metavar="FILE", help="also write every run to FILE")
    parser.add_argument("--list", action="store_true", help="print the rows and exit")
    options = parser.parse_args(arguments)
    if options.list:
        return options
    if options.runs is None:
        options.runs = 5 if not options.smoke else 2 if options.against else 1
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    if options.runs < 2 and options.against:
        parser.error("--against needs --runs 2 or more: one run has no spread")
    check_places(parser, options)
    return options


def measure(session, row, options):
    """Raises RunFailed, also if a checksum is another one than before."""
    checksums = set()

    def accept(_, run):
        checksums.add(run.values["checksum"])
        if len(checksums) > 1:
            raise RunFailed(f"{row.name}: different checksums {sorted(checksums)}")

    series = session.in_turn(f"{row.name}, threads {row.threads}", {"a": row.a, "b": row.b},
                             options.runs, lambda side: run_once(side, options), accept,
                             patient=False)
    return Result(row, series["a"].runs, series["b"].runs)


def main(arguments):
    options = parse_arguments(arguments)
    rows = [row for row in make_rows(options.against)
            if re.search(options.only, f"{row.name}, threads {row.threads}")]
    if not rows:
        sys.exit(f"no row matches {options.only!r}; --list shows them")
    if options.list:
        for row in rows:
            target = f"{row.target:g}x" if row.target else "info"
            print(f"{row.name}, threads {row.threads}: {target}: {' '.join(row.a.command)}"
                  + (f" | {' '.join(row.b.command)}" if row.a.command != row.b.command else ""))
        return 0

    others = OtherPrograms()
    results, failures = [], []
    session = Session.of_command("bench", options, arguments, total=2 * options.runs * len(rows))
    for row in rows:
        try:
            results.append(measure(session, row, options))
        except RunFailed as failure:
            failures.append(f"{row.name}, threads {row.threads}: {failure}")
    session.remove()

    print_results(results, options.against)
    print(f"\n{options.runs} run(s) of each side, alternating, {others.since_began()}.")
    if options.csv:
        write_csv(options.csv, results)
    return report_failures(failures)

