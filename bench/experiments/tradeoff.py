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
import glob
import os
import re
import shutil
import sys
import tempfile

from . import machine, tables
from .figures import MEMORY
from .main import complete, list_points, make_parser, measure_all
from .running import OURS, THEIRS, Run, RunFailed
from .sweep import Figure, Metric, Workload

COMPAT = os.path.join(machine.SOURCE, "tests", "compat")
sys.path.append(COMPAT)
import run as compat  # noqa: E402

BENCHMARKS = {"binary trees": "binary_trees", "GCBench": "gcbench",
              "atomic strings of 8-2000 bytes": "strings", "hash table, 400 MB": "hash_table"}
CLIENT = "ecl"
DIVISORS = [1, 2, 3, 4, 6, 8, 12, 16, 24]
QUICK_DIVISORS = [1, 3, 8]
TIMES = {"processor": Metric("processor_s", "processor time, s"),
         "wall": Metric("wall_s", "time of the clock, s")}


class Client:
    """A workload of a program that is installed."""

    LIBRARIES = {THEIRS: compat.LIBGC, OURS: compat.GLEANER}

    def __init__(self, client, options, scratch):
        self.client = client
        os.mkdir(scratch)
        self.machine = compat.Machine(
            argparse.Namespace(measure=options.measure, ours=options.ours, theirs=options.theirs,
                               set=[], timeout=300), scratch)
        self.expected = None

    def workload(self):
        return Workload(self.client.name, [self.client.name], [self.client.name], has_seed=False,
                        measure=self.measure)

    def _prepare(self):
        """Makes the client's input, and sees that it loads the libraries that are meant."""
        self.machine.prepare(self.client)
        expected = self.machine.observed_run(self.client, compat.LIBGC)
        compat.compare(expected, self.machine.observed_run(self.client, compat.GLEANER),
                       "on Gleaner")
        self.expected = expected

    def measure(self, side, _options, _timeout_s):
        """One run. Raises RunFailed, also if it prints or writes anything else than before."""
        try:
            if self.expected is None:
                self._prepare()
            run = self.machine.run(self.client, self.LIBRARIES[side.library], side.environment)
            compat.compare(self.expected, run, f"on {side.label}")
        except compat.RunFailed as failure:
            raise RunFailed(str(failure)) from failure
        return Run({}, run.rss_mb, run.seconds, run.processor)


def workloads(options, scratch):
    """The benchmarks, and those of the clients that are installed."""
    found = [Workload(name, [program], [program], threads=options.threads,
                      wake=program != "strings") for name, program in BENCHMARKS.items()]
    for number, client in enumerate(options.clients):
        missing = client.missing()
        if not missing:
            found.append(Client(client, options, os.path.join(scratch, str(number))).workload())
        elif re.search(options.only, client.name):
            print(f"left out: {client.name}: not installed: {', '.join(missing)}", file=sys.stderr)
    return found


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


def client_called(name):
    """For argparse: the client."""
    for client in compat.CLIENTS:
        if client.name == name:
            return client
    raise argparse.ArgumentTypeError(
        f"there is no client {name!r}, but {', '.join(client.name for client in compat.CLIENTS)}")


def parse_arguments(arguments):
    parser = make_parser("tradeoff", __doc__)
    parser.add_argument("--measure", metavar="FILE",
                        help="the program built from tests/compat/measure.c "
                        "(BIN/gleaner_compat_measure)")
    parser.add_argument("--divisors", metavar="N,...", type=divisors,
                        help=f"values of GC_FREE_SPACE_DIVISOR ({','.join(map(str, DIVISORS))}; "
                        f"with --quick or --smoke {','.join(map(str, QUICK_DIVISORS))})")
    parser.add_argument("--client", metavar="NAME", dest="clients", action="append",
                        type=client_called,
                        help=f"a client of tests/compat/clients.py, instead of {CLIENT}; may be "
                        "repeated")
    parser.add_argument("--threads", type=int, choices=(1, 2), default=1,
                        help="of the benchmarks (%(default)s)")
    options = parser.parse_args(arguments)
    complete(parser, options, runs=5)
    options.divisors = options.divisors or (
        QUICK_DIVISORS if options.quick or options.smoke else DIVISORS)
    by_name = {client.name: client for client in options.clients or [client_called(CLIENT)]}
    options.clients = list(by_name.values())
    options.measure = options.measure or os.path.join(options.bin, "gleaner_compat_measure")
    if not os.path.exists(options.measure):
        parser.error(f"--measure: there is no {options.measure}")
    return options


def main(arguments):
    options = parse_arguments(arguments)
    read = [options.measure] + [shutil.which(name) or name for client in options.clients
                                for name in client.needs]
    read += [path for path in sorted(glob.glob(os.path.join(COMPAT, "**", "*"), recursive=True))
             if "__pycache__" not in path]
    points = [{"divisor": options.divisors, "library": [THEIRS, OURS]}]
    with tempfile.TemporaryDirectory(prefix="gleaner-tradeoff-") as scratch:
        figure = Figure("tradeoff", "Time against memory; beside each point its free space divisor",
                        workloads(options, scratch), [*TIMES.values(), MEMORY], "divisor", points,
                        points, against=MEMORY, drawn=list(TIMES.values()), timeout_s=300,
                        files=tuple(read), judge=judge)
        if options.list:
            list_points([figure], options)
            return 0
        return measure_all([figure], options)
