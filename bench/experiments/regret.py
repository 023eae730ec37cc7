"""Measures what the default mode costs against the mode that suits each program best.

Each program runs on libgc, and on Gleaner in each GLEANER_MODE, in turn. The regret of a program is
its time in mode auto, as a multiple of its least time in a fixed mode. Times are of the clock, of
the whole process; times and memory are medians of the runs.

The programs are those of `bench`, on one thread and on two, and the clients of
tests/compat/clients.py that are installed. A regret is no failure: the exit status is 1 if a run
failed.
"""

import statistics
import tempfile

from . import clients, tables
from .figures import MEMORY, PROGRAMS, programs, sized
from .main import complete, list_points, make_parser, measure_all
from .running import OURS, THEIRS
from .sweep import Figure, Metric

AUTO = "auto"
FIXED = ("stop", "concurrent", "generational")
WALL = Metric("wall_s", "time of the clock, s")
# What allocates 16 bytes and keeps nothing, and what collects when it is told to, has no regret.
NAMED = [name for name in PROGRAMS if name not in ("malloc_peak", "relay", "hash_table")]


def points():
    return [{"library": [THEIRS], "threads": [1, 2]}, {"mode": [AUTO, *FIXED], "threads": [1, 2]}]


def workloads():
    """Programs of `bench`, and of the two whose heap is large or fixed, the rows of ./dev bench."""
    return [*programs(*NAMED),
            sized("hash_table, 400 MB", "hash_table", "--operations 6000000",
                  "--megabytes 40 --operations 500000"),
            sized("stable_heap, twice 40 MB", "stable_heap --live-mb 40 --heap-percent 200", "",
                  "--scale 0.1")]


class Row:
    """The medians of a workload on so many threads; `threads` is None for a client."""

    def __init__(self, workload, threads, cells):
        self.name, self.threads = workload.name, threads
        self.cells = {cell.point.get("mode", THEIRS): cell for cell in cells}

    def is_complete(self):
        return all(cell.series.runs for cell in self.cells.values()) and AUTO in self.cells and any(
            mode in self.cells for mode in FIXED)

    def time(self, side):
        return self.cells[side].median(WALL) if side in self.cells else None

    def best(self):
        return min((mode for mode in FIXED if mode in self.cells), key=self.time)

    def regret(self):
        return self.time(AUTO) / self.time(self.best())

    def speed(self):
        """Times as fast as libgc; None if that was not measured."""
        return self.time(THEIRS) / self.time(AUTO) if THEIRS in self.cells else None

    def memory(self):
        return self.cells[AUTO].median(MEMORY) / self.cells[THEIRS].median(
            MEMORY) if THEIRS in self.cells else None


def rows_of(measured):
    found = []
    for workload in measured.figure.workloads:
        its = [cell for cell in measured.cells if cell.workload is workload]
        for threads in sorted({cell.point["threads"] for cell in its}):
            row = Row(workload, None if workload.measure else threads,
                      [cell for cell in its if cell.point["threads"] == threads])
            if row.is_complete():
                found.append(row)
    return found


def text(number):
    return "-" if number is None else tables.three_digits(number)


def table(measured):
    lines = [["program", "threads", *(f"{side}, s" for side in (THEIRS, AUTO, *FIXED)), "best mode",
              "auto / best", f"{THEIRS} / auto", f"memory, auto / {THEIRS}"]]
    for row in rows_of(measured):
        lines.append([row.name, text(row.threads),
                      *(text(row.time(side)) for side in (THEIRS, AUTO, *FIXED)), row.best(),
                      *(f"{number:.2f}" if number else "-"
                        for number in (row.regret(), row.speed(), row.memory()))])
    return lines


def sentence(what, numbers, worst):
    """`numbers` by name: their geometric mean, and the worst of them by the function `worst`."""
    name = worst(numbers, key=numbers.get)
    return (f"{what}: mean {statistics.geometric_mean(numbers.values()):.2f}, "
            f"worst {numbers[name]:.2f} ({name}).")


def verdict(rows):
    """Lines of text."""
    lines = []
    for kind, its in (("programs", [row for row in rows if row.threads]),
                      ("clients", [row for row in rows if not row.threads])):
        for what, value, worst in ((f"auto / best mode, {kind}", Row.regret, max),
                                   (f"{THEIRS} / auto, {kind}", Row.speed, min),
                                   (f"memory, auto / {THEIRS}, {kind}", Row.memory, max)):
            numbers = {f"{row.name}{f', threads {row.threads}' if row.threads else ''}": value(row)
                       for row in its if value(row) is not None}
            if numbers:
                lines.append(sentence(what, numbers, worst))
    return lines


def judge(measured):
    print("\n".join(verdict(rows_of(measured))))
    return []


def parse_arguments(arguments):
    parser = make_parser("regret", __doc__)
    clients.add_measure(parser)
    parser.add_argument("--no-clients", action="store_true", help="programs of `bench` alone")
    options = parser.parse_args(arguments)
    complete(parser, options, runs=5)
    clients.check_measure(parser, options)
    return options


def main(arguments):
    options = parse_arguments(arguments)
    chosen = [] if options.no_clients or options.smoke else clients.CLIENTS
    with tempfile.TemporaryDirectory(prefix="gleaner-regret-") as scratch:
        figure = Figure("regret", "Mode auto against the fixed modes and libgc",
                        [*workloads(), *clients.installed(chosen, options, scratch)],
                        [WALL, MEMORY], "mode", points(), points(), drawn=[WALL], timeout_s=300,
                        files=clients.files_of(chosen, options), table=table, judge=judge,
                        fits=lambda workload, point: not workload.measure or point["threads"] == 1)
        if options.list:
            list_points([figure], options)
            return 0
        return measure_all([figure], options)
