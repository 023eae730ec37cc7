"""Measures what time programs take in what memory, on Debian's libgc and on Gleaner.

A collector that collects more often takes more time and less memory. Both libraries collect the
more often the larger GC_FREE_SPACE_DIVISOR is. Each program runs with each value of --divisors, so
that each library has a curve of points (peak memory, time). Times are of the whole process: of the
processors, and of the clock. The time and the memory of a point are medians of its runs.

A point of libgc is dominated if Gleaner's curve has a point with no more memory and no more time.
The points of Gleaner's curve are those measured and the lines between neighbouring divisors. Points
that are not dominated are printed. They are no failure: the exit status is 1 if a run failed.

The programs are those of `bench`, and clients of tests/compat/clients.py that are installed.
"""

import argparse
import tempfile

from . import clients, tables
from .figures import MEMORY
from .main import complete, list_points, make_parser, measure_all
from .running import OURS, THEIRS
from .sweep import Figure, Metric, Workload

BENCHMARKS = {"binary trees": "binary_trees", "GCBench": "gcbench",
              "atomic strings of 8-2000 bytes": "strings", "hash table, 400 MB": "hash_table"}
CLIENT = "ecl"
DIVISORS = [1, 2, 3, 4, 6, 8, 12, 16, 24]
QUICK_DIVISORS = [1, 3, 8]
TIMES = {"processor": Metric("processor_s", "processor time, s"),
         "wall": Metric("wall_s", "time of the clock, s")}


def workloads(options, scratch):
    """The benchmarks, and those of the clients that are installed."""
    return [Workload(name, [program], [program], threads=options.threads,
                     wake=program != "strings") for name, program in BENCHMARKS.items()
            ] + clients.installed(options.clients, options, scratch)


def least_time(points, memory):
    """The least time of a curve where it needs at most this memory; None if it always needs more.
    The points are pairs (memory, time)."""
    times = [time for its, time in points if its <= memory]
    for (left, left_time), (right, right_time) in zip(points, points[1:]):
        if min(left, right) < memory < max(left, right):
            times.append(left_time + (right_time - left_time) * (memory - left) / (right - left))
    return min(times, default=None)


def not_dominated(theirs, ours):
    """The points (memory, time, divisor) of libgc that are not, each with Gleaner's least time in
    that memory or None."""
    curve = [(memory, time) for memory, time, _ in ours]
    found = [(point, least_time(curve, point[0])) for point in theirs]
    return [(point, best) for point, best in found if best is None or best > point[1]]


def verdict(name, kind, theirs, ours):
    """Lines of text."""
    if not theirs or not ours:
        return [f"{name}, {kind} time: no verdict, one side has no point."]
    exceptions = not_dominated(theirs, ours)
    if not exceptions:
        return [f"{name}, {kind} time: Gleaner dominates all {len(theirs)} points of libgc."]
    show = tables.three_digits
    return [f"{name}, {kind} time: Gleaner does not dominate {len(exceptions)} of {len(theirs)} "
            "points of libgc:"] + [
        f"  divisor {divisor}: {show(time)} s in {show(memory)} MB; " + (
            f"Gleaner has no point below {show(min(point[0] for point in ours))} MB"
            if best is None else f"Gleaner takes {show(best)} s in that memory")
        for (memory, time, divisor), best in exceptions]


def judge(measured):
    for workload in measured.figure.workloads:
        for kind, metric in TIMES.items():
            lines = measured.lines(workload, metric)
            print("\n".join(verdict(workload.name, kind, lines.get(THEIRS, []),
                                    lines.get(OURS, []))))
    return []


def divisors(text):
    """For argparse: numbers with commas between, sorted."""
    try:
        numbers = sorted({int(word) for word in text.split(",")})
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers") from None
    if numbers[0] < 1:
        raise argparse.ArgumentTypeError("a divisor is at least 1")
    return numbers


def parse_arguments(arguments):
    parser = make_parser("tradeoff", __doc__)
    clients.add_measure(parser)
    parser.add_argument("--divisors", metavar="N,...", type=divisors,
                        help=f"values of GC_FREE_SPACE_DIVISOR ({','.join(map(str, DIVISORS))}; "
                        f"with --quick or --smoke {','.join(map(str, QUICK_DIVISORS))})")
    parser.add_argument("--client", metavar="NAME", dest="clients", action="append",
                        type=clients.client_called,
                        help=f"a client of tests/compat/clients.py, instead of {CLIENT}; may be "
                        "repeated")
    parser.add_argument("--threads", type=int, choices=(1, 2), default=1,
                        help="of the benchmarks (%(default)s)")
    options = parser.parse_args(arguments)
    complete(parser, options, runs=5)
    options.divisors = options.divisors or (
        QUICK_DIVISORS if options.quick or options.smoke else DIVISORS)
    by_name = {client.name: client for client in options.clients or [clients.client_called(CLIENT)]}
    options.clients = list(by_name.values())
    clients.check_measure(parser, options)
    return options


def main(arguments):
    options = parse_arguments(arguments)
    points = [{"divisor": options.divisors, "library": [THEIRS, OURS]}]
    with tempfile.TemporaryDirectory(prefix="gleaner-tradeoff-") as scratch:
        figure = Figure("tradeoff", "Time against memory; beside each point its free space divisor",
                        workloads(options, scratch), [*TIMES.values(), MEMORY], "divisor", points,
                        points, against=MEMORY, drawn=list(TIMES.values()), timeout_s=300,
                        files=clients.files_of(options.clients, options), judge=judge)
        if options.list:
            list_points([figure], options)
            return 0
        return measure_all([figure], options)
