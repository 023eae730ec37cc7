"""Measures malloc of Gleaner against the allocators people use, each by LD_PRELOAD.

usage: bench-malloc [--build DIR] [--out DIR] [--runs N] [--only TEXT] EXPERIMENT...

  classic   larson, xmalloc-test, pairs of malloc and free
  sizes     64 allocations and frees of each size from 4 B to 128 MB
  resident  a million replacements among 256 to 16,384 resident blocks
  replay    traces of real programs, recorded now, on each allocator and on each policy
  tbb       a million `new double` under oneTBB's parallel_for
  programs  real programs, their results compared with those on glibc; gleaner-collect is with
            GLEANER_COLLECT=1
  all       all of these

The allocators take turns, so that all see the same machine. Of each experiment the median, minimum
and maximum, and the peak resident set go to OUT/EXPERIMENT.csv, a table to OUT/EXPERIMENT.md, and a
picture to OUT/EXPERIMENT.png if matplotlib is there. The exit status is 1 if a program failed or
gave a wrong result.
"""

import argparse
import csv
import glob
import hashlib
import os
import re
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass

from . import pictures, tables
from .malloc_programs import Inputs, commands
from .journal import digest_of_file
from .malloc_running import (COLLECTING, GLIBC, OURS, TooSlow, find_allocators, library_of,
                             preloading, run)
from .malloc_servers import measure_nginx, measure_postgres, measure_redis
from .running import Run, RunFailed, parse_values
from .session import Series, Session


@dataclass
class Row:
    """A workload: `measure(allocator)` gives (value, peak resident KiB), and perhaps an answer that
    must be the same on every allocator. `measured` are files that are worked on or run, apart from
    the benchmarks."""
    name: str
    measure: object
    unit: str = "s"
    higher_is_better: bool = False
    allocators: dict = None  # other sides than the preloaded ones
    measured: tuple = ()


def value_of(series):
    return statistics.median(values_of(series))


def values_of(series):
    return [run.values["value"] for run in series.runs]


def rss_mb_of(series):
    return statistics.median(run.rss_mb for run in series.runs)


class Experiment:
    """Rows by allocators, run in turns, printed, and written as CSV and picture."""

    SLOW_S = 10  # what takes longer is not repeated

    def __init__(self, name, rows, allocators, options):
        self.name, self.options = name, options
        self.rows = [row for row in rows if options.only in row.name]
        self.allocators = allocators
        self.results = {}  # (row name, allocator) -> Series
        self.failed = False

    def in_turn(self, session, name, sides, measure, **more):
        """The series of those that did not fail; reports the others."""
        found = session.in_turn(f"{self.name}, {name}", sides, self.options.runs, measure,
                                rotate=True, **more)
        for label, series in found.items():
            if series.failure:
                slow = isinstance(series.failure, TooSlow)
                print(f"{'slow' if slow else 'FAILED'}: {name} on {label}: {series.failure}",
                      file=sys.stderr)
                self.failed = self.failed or not slow
        return {label: series for label, series in found.items() if not series.failure}

    def run(self, session):
        for row in self.rows:
            sides = row.allocators or self.allocators
            answers = []

            def measure(side, row=row):
                value, rss_kb, *answer = row.measure(side)
                return Run({"value": value, "answer": answer}, rss_kb / 1000)

            def accept(_, run, row=row, answers=answers):
                answers.append(run.values["answer"])
                if answers[-1] != answers[0]:
                    raise RunFailed(f"{row.name}: another result than before: {answers.pop()[0]}")

            found = self.in_turn(session, row.name, sides, measure, accept=accept,
                                 enough=lambda run, row=row:
                                 row.unit == "s" and run.values["value"] > self.SLOW_S,
                                 measured=[digest_of_file(path) for path in row.measured])
            self.results.update({(row.name, label): series for label, series in found.items()})
            self.print_row(row, list(sides))
        self.write()

    def print_row(self, row, names):
        base = self.results.get((row.name, GLIBC))
        print(f"{row.name} [{row.unit}]")
        for name in names:
            series = self.results.get((row.name, name))
            if series is None:
                print(f"  {name:12} no result")
                continue
            values = values_of(series)
            line = (f"  {name:12} {value_of(series):12.5g}  ({min(values):.5g} to "
                    f"{max(values):.5g})  {rss_mb_of(series):9.1f} MB")
            ratio = self.ratio(row, base, series)
            if ratio:
                line += f"  {ratio:7.2f} x glibc"
            print(line)
        sys.stdout.flush()

    @staticmethod
    def ratio(row, base, series):
        """How many times as good the series is; 0 if that has no meaning."""
        if base is None or series is None or not value_of(base) or not value_of(series):
            return 0
        ratio = value_of(base) / value_of(series)
        return 1 / ratio if row.higher_is_better else ratio

    def names(self):
        return list(dict.fromkeys(name for row in self.rows
                                  for name in row.allocators or self.allocators))

    def path(self, suffix):
        return os.path.join(self.options.out, self.name + suffix)

    def write(self):
        os.makedirs(self.options.out, exist_ok=True)
        records = []
        for row in self.rows:
            for name in row.allocators or self.allocators:
                series = self.results.get((row.name, name))
                if series:
                    values = values_of(series)
                    records.append({"workload": row.name, "allocator": name, "unit": row.unit,
                                    "median": value_of(series), "minimum": min(values),
                                    "maximum": max(values), "runs": len(values),
                                    "peak_rss_kb": rss_mb_of(series) * 1000})
        tables.write_records(self.path(".csv"), records)
        print(f"== {self.path('.csv')}")
        self.write_table()
        if self.results and pictures.draw_panels(self.path(".png"), self.name, "", *self.picture()):
            print(f"== {self.path('.png')}")

    def write_table(self):
        """As Markdown: medians, and in parentheses the peak resident set in MB."""
        names = self.names()
        with open(self.path(".md"), "w", encoding="utf-8") as file:
            print(f"| {self.name} | {' | '.join(names)} |", file=file)
            print("|---" * (len(names) + 1) + "|", file=file)
            for row in self.rows:
                cells = [f"{row.name}, {row.unit}"]
                for name in names:
                    series = self.results.get((row.name, name))
                    cells.append(f"{value_of(series):.4g} ({rss_mb_of(series):.3g})" if series
                                 else "-")
                print(f"| {' | '.join(cells)} |", file=file)
        print(f"== {self.path('.md')}")

    def picture(self):
        """Bars: how many times as fast as glibc, or as the first allocator there is."""
        names = self.names()
        lines = {}
        for row in self.rows:
            its = [self.results.get((row.name, name)) for name in (GLIBC, *names)]
            base = next((series for series in its if series), None)
            for name in names:
                ratio = self.ratio(row, base, self.results.get((row.name, name)))
                lines.setdefault(name, []).append((row.name, ratio))
        return "", 1, [("", "times as fast as glibc", False, lines)]


# --- Programs of our own: one line of key=value pairs ---

def benchmarks(options, program, name, metric="seconds", unit="s", higher_is_better=False):
    """A row for one thread and one for two; none if the program is not built."""
    path = os.path.join(options.build, "bench", program)
    if not os.path.exists(path):
        print(f"not built: {path}", file=sys.stderr)
        return []

    def row(threads):
        def measure(allocator):
            result = run([path, "--threads", threads, *(["--smoke"] if options.smoke else [])],
                         allocator)
            values = parse_values(result.output, path)
            return float(values[metric]), int(values["peak_rss_kb"])

        return Row(f"{name}, {threads} threads", measure, unit, higher_is_better)

    return [row("1"), row("2")]


def classic(options, _):
    rate = ("ops_per_second", "/s", True)
    xmalloc = benchmarks(options, "xmalloc_test", "xmalloc-test", *rate)[1:]  # it has pairs of them
    for row in xmalloc:
        row.name = "xmalloc-test"
    return [*benchmarks(options, "larson", "larson", *rate), *xmalloc,
            *benchmarks(options, "malloc_pairs", "pairs", "ns_per_pair", "ns")]


def tbb(options, _):
    return benchmarks(options, "tbb_doubles", "new double")


# --- SWAlloc's experiments: programs that print a line of CSV for each point ---

class Sweep(Experiment):
    """Runs `program` once for each side and turn. A point is named by the column `point`, its value
    is that of the column `value`, in ns. The preloaded allocators, then the arena's policies."""

    ARENAS = ["arena-binned", "arena-tree", "arena-first-fit", "arena-buddy"]

    def __init__(self, name, program, point, value, arguments, allocators, options):
        super().__init__(name, [], allocators, options)
        self.program = os.path.join(options.build, "bench", program)
        self.point, self.value, self.arguments = point, value, arguments
        chosen = not options.allocators
        self.sides = {side: ("malloc", allocator) for side, allocator in allocators.items()}
        self.sides.update({side: (side, ()) for side in self.ARENAS if chosen})

    def run(self, session):
        if not os.path.exists(self.program):
            print(f"not built: {self.program}", file=sys.stderr)
            return

        def measure(side):
            policy, allocator = side
            result = run([self.program, "--allocator", policy, *self.arguments,
                          *(["--smoke"] if self.options.smoke else [])], allocator)
            return Run({"lines": list(csv.DictReader(result.output.splitlines()))}, 0)

        points = {}
        for label, found in self.in_turn(session, "all points", self.sides, measure).items():
            for line in (line for run in found.runs for line in run.values["lines"]):
                point = line[self.point]
                points[point] = Row(point, None, "ns", allocators=self.sides)
                self.results.setdefault((point, label), Series()).runs.append(
                    Run({"value": float(line[self.value])}, float(line.get("rss_mb", 0))))
        self.rows = list(points.values())
        for row in self.rows:
            self.print_row(row, list(self.sides))
        self.write()

    def picture(self):
        lines = {name: [(int(row.name), value_of(self.results[row.name, name])) for row in self.rows
                        if (row.name, name) in self.results] for name in self.sides}
        return self.point, 1, [("", "ns", True, lines)]


def sizes(options, allocators):
    return [Sweep("sizes", "gleaner_bench_sizes", "bytes", "ns_per_pair",
                  [] if options.smoke else ["--repeats", "1", "--ms", "20"], allocators, options)]


def resident(options, allocators):
    return [Sweep(f"resident_{touch}", "gleaner_bench_resident", "blocks", "ns_per_operation",
                  ["--touch", touch], allocators, options) for touch in ("none", "first", "all")]


# --- Real programs ---

def replay(options, allocators):
    """The time of the replay, and how far the resident set grew. The courses of memory of the first
    run of each allocator are drawn together."""
    tool = os.path.join(options.build, "bin/gleaner")
    inputs = Inputs(options.scratch)
    known = re.search(r"--allocator TEXT\s+(.*?); malloc if",
                      run([tool, "replay", "--help"]).output, re.DOTALL)[1]
    policies = [name for name in known.replace("\n", " ").replace(",", " ").split()
                if name != "malloc"]
    sides = {name: ("malloc", allocator) for name, allocator in allocators.items()}
    sides.update({name: (name, ()) for name in policies})
    os.makedirs(options.out, exist_ok=True)
    rows = []
    for name, make in commands(inputs).items():
        if options.only not in name:
            continue
        courses = {label: os.path.join(options.out, f"replay_{name}_{label}.csv") for label in sides}
        trace = os.path.join(options.traces, name + ".trace")
        try:
            if not os.path.exists(trace):
                for path in filter(os.path.exists, courses.values()):
                    os.remove(path)
                argv, environment = make()
                partial = trace + ".part"
                run([tool, "record", "--no-children", "--limit", "64m", "-o", partial, "--", *argv],
                    **environment)
                os.replace(partial, trace)
        except (RunFailed, FileNotFoundError) as error:
            print(f"not recorded: {name}: {error}", file=sys.stderr)
            continue
        size = os.path.getsize(trace)

        def measure(side, trace=trace, name=name, size=size, courses=courses):
            policy, allocator = side
            label = next(key for key, value in sides.items() if value == side)
            table = courses[label]
            patience_s = None if policy == "malloc" else Experiment.SLOW_S
            result = run([tool, "replay", trace, "--allocator", policy], allocator, patience_s)
            if not os.path.exists(table):
                run([tool, "replay", trace, "--allocator", policy, "--csv", table], allocator)

            def figure(what):
                return float(re.search(rf"^{what} +([\d.]+)", result.output, re.MULTILINE)[1])

            if label == GLIBC and not hasattr(measure, "told"):
                measure.told = True
                print(f"trace of {name}: {figure('events'):.0f} events, {figure('threads'):.0f} "
                      f"threads, {size / 1e6:.1f} MB, peak requested "
                      f"{figure('peak requested'):.1f} MB")
            return figure("time"), figure("peak resident") * 1000

        rows.append(Row(name, measure, allocators=sides, measured=(trace,)))
    return rows


def draw_courses(options, rows):
    """Requested, resident and address space over the course of each trace."""
    for row in rows:
        resident, space = {}, {}
        for label in row.allocators:
            path = os.path.join(options.out, f"replay_{row.name}_{label}.csv")
            if not os.path.exists(path):
                continue
            with open(path) as file:
                for line in csv.DictReader(file):
                    x, (requested, its, spaces) = int(line["operation"]), (
                        int(line[f"{what}_bytes"]) / 1e6
                        for what in ("requested", "resident", "address_space"))
                    resident.setdefault(label, []).append((x, its))
                    space.setdefault(label, []).append((x, spaces))
                    if label == next(iter(row.allocators)):
                        resident.setdefault("requested", []).append((x, requested))
        path = os.path.join(options.out, f"replay_{row.name}.png")
        # The second is logarithmic: a buddy spreads its blocks over its pool.
        if pictures.draw_panels(path, f"the course of {row.name}", "", "operations", 2, [
                ("resident", "MB", False, resident), ("address space", "MB", True, space)]):
            print(f"== {path}")


def programs_of(names):
    """The files that run by these names, or that are servers in these folders."""
    found = [shutil.which(name) or name for name in names]
    return tuple(path for name in found
                 for path in (sorted(glob.glob(os.path.join(name, "*", "bin", "*")))
                              if os.path.isdir(name) else [name]))


def programs(options, allocators):
    inputs = Inputs(options.scratch)
    rows = []
    sides = dict(allocators)
    if OURS in sides and not options.allocators or COLLECTING in options.allocators:
        sides[COLLECTING] = preloading(options.ours, "GLEANER_COLLECT=1")
    for name, make in commands(inputs).items():
        if options.only not in name:
            continue
        try:
            argv, environment = make()
            run(argv, **environment)
        except (RunFailed, FileNotFoundError) as error:
            print(f"left out: {name}: {error}", file=sys.stderr)
            continue

        def measure(allocator, argv=argv, environment=environment, name=name):
            result = run(argv, allocator, **environment)
            # cmake tells how long it took.
            answer = "" if name == "cmake" else hashlib.sha1(result.output.encode()).hexdigest()
            return result.seconds, result.rss_kb, answer

        rows.append(Row(name, measure, allocators=sides, measured=programs_of(argv[:1])))

    servers = {
        "redis-server": (["redis-server", "redis-benchmark"], lambda: measure_redis(options), "s"),
        "nginx": (["nginx", "wrk"], lambda: measure_nginx(options, inputs), "/s"),
        "postgres": (["/usr/lib/postgresql"], lambda: measure_postgres(options), "/s"),
    }
    for name, (needed, make, unit) in servers.items():
        if options.only not in name:
            continue
        if not all(shutil.which(each) or os.path.isdir(each) for each in needed):
            print(f"left out: {name}: not installed", file=sys.stderr)
            continue
        rows.append(Row(name, make(), unit, unit == "/s", sides, programs_of(needed)))
    return rows


EXPERIMENTS = {"classic": classic, "sizes": sizes, "resident": resident, "replay": replay,
               "tbb": tbb, "programs": programs}


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="+", choices=[*EXPERIMENTS, "all"],
                        metavar="EXPERIMENT")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--ours", help="libgleaner_malloc.so; that of the build if not given")
    parser.add_argument("--out", default="build/malloc_experiments")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="", help="workloads whose name has this in it")
    parser.add_argument("--allocators", type=lambda text: text.split(","), default=[],
                        help="names, separated by commas")
    parser.add_argument("--smoke", action="store_true", help="tiny runs, to see that all works")
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    options.build = os.path.abspath(options.build)
    if options.smoke:
        options.runs = 1
    chosen = list(EXPERIMENTS) if "all" in options.experiments else list(
        dict.fromkeys(options.experiments))
    failed = False
    try:
        options.ours = os.path.abspath(
            options.ours or os.path.join(options.build, "lib/gleaner/libgleaner_malloc.so"))
        allocators = find_allocators(options.ours, options.allocators)
        options.bin = os.path.join(options.build, "bench")
        files = [os.path.join(options.build, "bin/gleaner"),
                 *filter(None, map(library_of, allocators.values()))]
        session = Session.of_command("bench-malloc", options, arguments, files)
        options.traces = session.folder()
        for name in chosen:
            print(f"== {name}; load average {os.getloadavg()[0]:.2f}")
            with tempfile.TemporaryDirectory() as options.scratch:
                found = EXPERIMENTS[name](options, allocators)
                if not found or isinstance(found[0], Row):
                    found = [Experiment(name, found, allocators, options)]
                for experiment in found:
                    experiment.run(session)
                    failed = failed or experiment.failed
                if name == "replay":
                    draw_courses(options, found[0].rows)
        session.remove()
    except RunFailed as error:
        sys.exit(f"bench-malloc: {error}")
    return 1 if failed else 0

