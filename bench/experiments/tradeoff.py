"""Measures what time programs take in what memory, on Debian's libgc and on Gleaner.

A collector that collects more often takes more time and less memory. Both libraries collect the
more often the larger GC_FREE_SPACE_DIVISOR is. Each program runs with each value of --divisors, so
that each library has a curve of points (peak memory, time). Every run of a divisor on libgc is
followed by one on Gleaner. Times are of the whole process: of the processors, and of the clock. The
time and the memory of a point are medians of its runs.

A point of libgc is dominated if Gleaner's curve has a point with no more memory and no more time.
The points of Gleaner's curve are those measured and the lines between neighbouring divisors. Points
that are not dominated are printed. They are no failure: the exit status is 1 if a run failed.

The programs are those of compare, and clients of tests/compat/clients.py that are installed.
"""

import argparse
import csv
import glob
import os
import re
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass

from . import compare, machine, pictures, tables
from .running import (OURS, RUN_TIMEOUT_S, THEIRS, Run, RunFailed, Side, add_places, check_places,
                      run_once)
from .session import Session

sys.path.append(os.path.join(machine.SOURCE, "tests", "compat"))
import run as compat  # noqa: E402

BENCHMARKS = ["binary trees", "GCBench", "atomic strings of 8-2000 bytes", "hash table, 400 MB"]
CLIENT = "ecl"
DIVISORS = [1, 2, 3, 4, 6, 8, 12, 16, 24]
QUICK_DIVISORS = [1, 3, 8]
DIVISOR = "GC_FREE_SPACE_DIVISOR"
LIBRARIES = (THEIRS, OURS)
TIMES = {"processor": "processor_s", "wall": "wall_s"}
MEMORY = "peak_mb"
# By the column of the table, that of a run.
METRICS = {**{column: column for column in TIMES.values()}, MEMORY: "rss_mb"}


class Benchmark:
    """A row of compare, of which it takes the command."""

    def __init__(self, row, options):
        self.name = row.name
        self.row = row
        self.options = options
        self.checked = compare.Result(row)

    def prepare(self):
        pass

    def measure(self, library, divisor):
        """One run. Raises RunFailed, also if the checksum differs from that of the other runs."""
        key, side = ("a", self.row.a) if library == THEIRS else ("b", self.row.b)
        run = run_once(Side(library, side.command, library, {DIVISOR: str(divisor)}), self.options)
        self.checked.add(key, run)
        return run


class Client:
    """A workload of a program that is installed."""

    LIBRARIES = {THEIRS: compat.LIBGC, OURS: compat.GLEANER}

    def __init__(self, client, options, scratch):
        self.name = client.name
        self.client = client
        os.mkdir(scratch)
        self.machine = compat.Machine(
            argparse.Namespace(measure=options.measure, ours=options.ours, theirs=options.theirs,
                               set=[], timeout=RUN_TIMEOUT_S), scratch)
        self.expected = None

    def prepare(self):
        """Makes the client's input, and sees that it loads the libraries that are meant."""
        self.machine.prepare(self.client)
        self.expected = self.machine.observed_run(self.client, compat.LIBGC)
        compat.compare(self.expected, self.machine.observed_run(self.client, compat.GLEANER),
                       "on Gleaner")

    def measure(self, library, divisor):
        """One run. Raises RunFailed, also if it prints or writes anything else than before."""
        run = self.machine.run(self.client, self.LIBRARIES[library], {DIVISOR: str(divisor)})
        compat.compare(self.expected, run, f"on {library}, divisor {divisor}")
        return Run({}, run.rss_mb, run.seconds, run.processor)


def make_programs(options, scratch):
    """Those that --only matches and that are installed."""
    rows = {row.name: row for row in compare.make_rows() if row.threads == options.threads}
    programs = [Benchmark(rows[name], options) for name in BENCHMARKS
                if re.search(options.only, name)]
    for number, client in enumerate(options.clients):
        if not re.search(options.only, client.name):
            continue
        missing = client.missing()
        if missing:
            print(f"left out: {client.name}: not installed: {', '.join(missing)}", file=sys.stderr)
            continue
        programs.append(Client(client, options, os.path.join(scratch, str(number))))
    return programs


@dataclass
class Point:
    """The runs of one program with one divisor on one library."""
    divisor: int
    record: dict  # For each metric, its median under its name, and NAME_min and NAME_max.

    @classmethod
    def of_runs(cls, divisor, runs):
        record = {"runs": len(runs)}
        for metric in METRICS:
            values = [getattr(run, METRICS[metric]) for run in runs]
            record.update({metric: statistics.median(values), f"{metric}_min": min(values),
                           f"{metric}_max": max(values)})
        return cls(divisor, record)

    @property
    def memory(self):
        return self.record[MEMORY]

    def time(self, kind):
        return self.record[TIMES[kind]]


def run_program(session, program, options):
    """All its runs, in turn. Returns its curves by library, and the failures in words. A point that
    fails once is left out."""
    sides = {f"divisor {divisor}, {library}": (divisor, library)
             for divisor in options.divisors for library in LIBRARIES}

    def measure(side):
        try:
            return program.measure(side[1], side[0])
        except compat.RunFailed as failure:
            raise RunFailed(str(failure)) from failure

    try:
        program.prepare()
    except compat.RunFailed as failure:
        return {}, [f"{program.name}: {failure}"]
    series = session.in_turn(program.name, sides, options.runs, measure)
    failures = [f"{program.name}, {label}: {one.failure}" for label, one in series.items()
                if one.failure]
    curves = {name: [Point.of_runs(divisor, series[label].runs)
                     for label, (divisor, library) in sides.items()
                     if library == name and not series[label].failure]
              for name in LIBRARIES}
    return curves, failures


def least_time(points, memory):
    """The least time of a curve where it needs at most this memory; None if it always needs more.
    The points are pairs (memory, time)."""
    times = [time for its, time in points if its <= memory]
    for (left, left_time), (right, right_time) in zip(points, points[1:]):
        if min(left, right) < memory < max(left, right):
            times.append(left_time + (right_time - left_time) * (memory - left) / (right - left))
    return min(times, default=None)


def not_dominated(curves, kind):
    """The points of libgc that are not, each with Gleaner's least time in that memory or None."""
    ours = [(point.memory, point.time(kind)) for point in curves[OURS]]
    found = []
    for point in curves[THEIRS]:
        best = least_time(ours, point.memory)
        if best is None or best > point.time(kind):
            found.append((point, best))
    return found


def verdict(name, curves, kind):
    """Lines of text."""
    count = len(curves[THEIRS])
    if not count or not curves[OURS]:
        return [f"{name}, {kind} time: no verdict, one side has no point."]
    exceptions = not_dominated(curves, kind)
    if not exceptions:
        return [f"{name}, {kind} time: Gleaner dominates all {count} points of libgc."]
    lines = [f"{name}, {kind} time: Gleaner does not dominate {len(exceptions)} of {count} points "
             "of libgc:"]
    least = tables.three_digits(min(point.memory for point in curves[OURS]))
    for point, best in exceptions:
        ours = (f"Gleaner has no point below {least} MB" if best is None else
                f"Gleaner takes {tables.three_digits(best)} s in that memory")
        lines.append(f"  divisor {point.divisor}: {tables.three_digits(point.time(kind))} s in "
                     f"{tables.three_digits(point.memory)} MB; {ours}")
    return lines


def cell(curves, library, divisor):
    """Of the table: processor time, time of the clock, memory."""
    for point in curves[library]:
        if point.divisor == divisor:
            return [tables.three_digits(point.record[metric]) for metric in METRICS]
    return ["-"] * len(METRICS)


def table(results):
    """The lines; the first is the header."""
    lines = [["program", "divisor"] + [f"{library} {what}" for library in ("libgc", "Gleaner")
                                       for what in ("processor s", "wall s", "peak MB")]]
    for name, curves in results.items():
        divisors = {point.divisor for library in LIBRARIES for point in curves[library]}
        for divisor in sorted(divisors):
            lines.append([name, str(divisor)] + [text for library in LIBRARIES
                                                 for text in cell(curves, library, divisor)])
    return lines


def write_csv(path, results):
    tables.write_records(path, [
        {"program": name, "library": library, "divisor": point.divisor, **point.record}
        for name, curves in results.items() for library in LIBRARIES for point in curves[library]])


def read_csv(path, only=""):
    """What write_csv wrote, of the programs that `only` matches."""
    results = {}
    with open(path, newline="", encoding="utf-8") as file:
        for record in csv.DictReader(file):
            program = record.pop("program")
            if not re.search(only, program):
                continue
            curves = results.setdefault(program, {name: [] for name in LIBRARIES})
            library, divisor = record.pop("library"), int(record.pop("divisor"))
            record = {key: int(text) if key == "runs" else float(text)
                      for key, text in record.items()}
            curves[library].append(Point(divisor, record))
    return results


def draw(path, results, kind):
    """One panel for each program; each point has its divisor beside it."""
    plot = pictures.pyplot()
    if plot is None:
        return
    columns = min(3, len(results))
    rows = -(-len(results) // columns)
    figure, axes = plot.subplots(rows, columns, figsize=(5 * columns, 4 * rows), squeeze=False)
    panels = list(axes.flat)
    for panel, (name, curves) in zip(panels, results.items()):
        for library, label, offset in ((THEIRS, "libgc", (4, 4)),
                                       (OURS, "Gleaner", (-4, -11))):
            panel.plot([point.memory for point in curves[library]],
                       [point.time(kind) for point in curves[library]], marker="o", markersize=4,
                       label=label)
            for point in curves[library]:
                panel.annotate(str(point.divisor), (point.memory, point.time(kind)), fontsize=8,
                               xytext=offset, textcoords="offset points")
        panel.set_title(name)
        panel.set_xlabel("peak memory, MB")
        panel.set_ylabel(f"{kind} time, s")
        panel.margins(0.1)
        panel.grid(alpha=0.4)
        panel.legend(fontsize="small")
    for panel in panels[len(results):]:
        panel.set_axis_off()
    figure.suptitle("Time against memory; beside each point its free space divisor")
    figure.tight_layout()
    pictures.save(plot, figure, path)


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


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_places(parser)
    parser.add_argument("--measure", metavar="FILE",
                        help="the program built from tests/compat/measure.c "
                        "(BIN/gleaner_compat_measure)")
    parser.add_argument("--runs", type=int,
                        help="runs of each point (5, with --quick or --smoke 1)")
    parser.add_argument("--divisors", metavar="N,...", type=divisors,
                        help=f"values of {DIVISOR} ({','.join(map(str, DIVISORS))}; with --quick "
                        f"or --smoke {','.join(map(str, QUICK_DIVISORS))})")
    parser.add_argument("--only", metavar="REGEX", type=tables.regex, default="",
                        help="only programs whose name matches")
    parser.add_argument("--client", metavar="NAME", dest="clients", action="append",
                        type=client_called,
                        help=f"a client of tests/compat/clients.py, instead of {CLIENT}; may be "
                        "repeated")
    parser.add_argument("--threads", type=int, choices=(1, 2), default=1,
                        help="of the programs of compare (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="one run of few divisors")
    parser.add_argument("--smoke", action="store_true", help="tiny runs; the figures mean nothing")
    parser.add_argument("--csv", metavar="FILE", help="write the table to FILE")
    parser.add_argument("--plot", metavar="FILE", help="draw the curves (PNG, SVG or PDF)")
    parser.add_argument("--time", choices=TIMES, default="processor",
                        help="the time that is drawn (%(default)s)")
    parser.add_argument("--read", metavar="FILE",
                        help="judge and draw this table, which --csv wrote; nothing is run")
    options = parser.parse_args(arguments)
    if options.read:
        if not os.path.exists(options.read):
            parser.error(f"--read: there is no {options.read}")
        return options
    short = options.quick or options.smoke
    if options.runs is None:
        options.runs = 1 if short else 5
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    options.divisors = options.divisors or (QUICK_DIVISORS if short else DIVISORS)
    by_name = {client.name: client for client in options.clients or [client_called(CLIENT)]}
    options.clients = list(by_name.values())
    check_places(parser, options)
    if options.measure is None:
        options.measure = os.path.join(options.bin, "gleaner_compat_measure")
    if not os.path.exists(options.measure):
        parser.error(f"--measure: there is no {options.measure}")
    return options


def measure_all(options, arguments):
    """Results by program, and failures."""
    others = machine.OtherPrograms()
    results, failures = {}, []
    clients = [shutil.which(name) or name for client in options.clients for name in client.needs]
    workloads = [path for path in sorted(glob.glob(
        os.path.join(machine.SOURCE, "tests", "compat", "**", "*"), recursive=True))
                 if "__pycache__" not in path]
    session = Session.of_command("tradeoff", options, arguments,
                                 [options.measure, *clients, *workloads])
    with tempfile.TemporaryDirectory(prefix="gleaner-tradeoff-") as scratch:
        programs = make_programs(options, scratch)
        if not programs:
            sys.exit(f"no program matches {options.only!r}")
        for program in programs:
            curves, failed = run_program(session, program, options)
            failures += failed
            if not curves:
                continue
            results[program.name] = curves
            if options.csv:  # After each program: nothing is lost if the rest does not end.
                write_csv(options.csv, results)
    session.remove()
    print(f"Medians of {options.runs} run(s), libraries in turn, {others.since_began()}.\n")
    return results, failures


def main(arguments):
    options = parse_arguments(arguments)
    if options.read:
        results, failures = read_csv(options.read, options.only), []
    else:
        results, failures = measure_all(options, arguments)
    if results:
        tables.print_markdown(table(results))
        print()
        for name, curves in results.items():
            for kind in TIMES:
                print("\n".join(verdict(name, curves, kind)))
        if options.plot:
            draw(options.plot, results, options.time)
    return tables.report_failures(failures)

