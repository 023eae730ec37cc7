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
    """A workload: `measure(side)` gives (value, peak resident KiB), and perhaps an answer that must be
    the same on every side. `measured` are files that are worked on or run, apart from the
    benchmarks."""
    name: str
    measure: object
    unit: str = "s"
    higher_is_better: bool = False
    measured: tuple = ()


def value_of(series):
    return statistics.median(values_of(series))


def values_of(series):
    return [run.values["value"] for run in series.runs]


def rss_mb_of(series):
    return statistics.median(run.rss_mb for run in series.runs)


class Experiment:
    """Rows by sides, which are allocators, run in turns, printed, and written as CSV and picture."""

    SLOW_S = 10  # what takes longer is not repeated

    def __init__(self, name, rows, sides, options):
        self.name, self.sides, self.options = name, sides, options
        self.rows = [row for row in rows if options.only in row.name]
        self.results = {}  # by the row's name and the side's, a Series
        self.failed = False

    def in_turn(self, session, name, measure, **more):
        """The series of those that did not fail; reports the others."""
        found = session.in_turn(f"{self.name}, {name}", self.sides, self.options.runs, measure,
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
            answers = []

            def measure(side, row=row):
                value, rss_kb, *answer = row.measure(side)
                return Run({"value": value, "answer": answer}, rss_kb / 1000)

            def accept(_, run, row=row, answers=answers):
                answers.append(run.values["answer"])
                if answers[-1] != answers[0]:
                    raise RunFailed(f"{row.name}: another result than before: {answers.pop()[0]}")

            self.results[row.name] = self.in_turn(
                session, row.name, measure, accept=accept,
                enough=lambda run, row=row: row.unit == "s" and run.values["value"] > self.SLOW_S,
                measured=[digest_of_file(path) for path in row.measured])
            self.print_row(row)
        self.write()

    def print_row(self, row):
        print(f"{row.name} [{row.unit}]")
        its = self.results[row.name]
        for name in self.sides:
            if name not in its:
                print(f"  {name:12} no result")
                continue
            values = values_of(its[name])
            ratio = self.ratio(row, its.get(GLIBC), its[name])
            print(f"  {name:12} {value_of(its[name]):12.5g}  ({min(values):.5g} to "
                  f"{max(values):.5g})  {rss_mb_of(its[name]):9.1f} MB"
                  + (f"  {ratio:7.2f} x glibc" if ratio else ""))
        sys.stdout.flush()

    @staticmethod
    def ratio(row, base, series):
        """How many times as good the series is; 0 if that has no meaning."""
        if base is None or series is None or not value_of(base) or not value_of(series):
            return 0
        ratio = value_of(base) / value_of(series)
        return 1 / ratio if row.higher_is_better else ratio

    def write(self):
        """The CSV; a table of medians, with the peak resident set in MB in parentheses; a picture."""
        csv_path, table_path, picture_path = (
            os.path.join(self.options.out, self.name + suffix) for suffix in (".csv", ".md", ".png"))
        os.makedirs(self.options.out, exist_ok=True)
        found = [(row, name, series) for row in self.rows
                 for name, series in self.results[row.name].items()]
        tables.write_records(csv_path, [
            {"workload": row.name, "allocator": name, "unit": row.unit, "median": value_of(series),
             "minimum": min(values_of(series)), "maximum": max(values_of(series)),
             "runs": len(series.runs), "peak_rss_kb": rss_mb_of(series) * 1000}
            for row, name, series in found])
        cells = {(row.name, name): f"{value_of(series):.4g} ({rss_mb_of(series):.3g})"
                 for row, name, series in found}
        with open(table_path, "w", encoding="utf-8") as file:
            tables.print_markdown([[self.name, *self.sides]] + [
                [f"{row.name}, {row.unit}", *(cells.get((row.name, name), "-") for name in self.sides)]
                for row in self.rows], file)
        print(f"== {csv_path}\n== {table_path}")
        if found and pictures.draw_panels(picture_path, self.name, "", *self.picture()):
            print(f"== {picture_path}")

    def picture(self):
        """Bars: how many times as fast as glibc, or as the first allocator there is."""
        lines = {}
        for row in self.rows:
            its = self.results[row.name]
            base = its.get(GLIBC, next(iter(its.values()), None))
            for name in self.sides:
                lines.setdefault(name, []).append((row.name, self.ratio(row, base, its.get(name))))
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


def classic(options, allocators):
    rate = ("ops_per_second", "/s", True)
    xmalloc = benchmarks(options, "xmalloc_test", "xmalloc-test", *rate)[1:]  # it has pairs of them
    for row in xmalloc:
        row.name = "xmalloc-test"
    return [Experiment("classic", [
        *benchmarks(options, "larson", "larson", *rate), *xmalloc,
        *benchmarks(options, "malloc_pairs", "pairs", "ns_per_pair", "ns")], allocators, options)]


def tbb(options, allocators):
    return [Experiment("tbb", benchmarks(options, "tbb_doubles", "new double"), allocators, options)]


# --- SWAlloc's experiments: programs that print a line of CSV for each point ---

class Sweep(Experiment):
    """Runs `program` once for each side and turn. A point is named by the column `point`, its value
    is that of the column `value`, in ns. The preloaded allocators, then the arena's policies."""

    ARENAS = ["arena-binned", "arena-tree", "arena-first-fit", "arena-buddy"]

    def __init__(self, name, program, point, value, arguments, allocators, options):
        sides = {side: ("malloc", allocator) for side, allocator in allocators.items()}
        sides.update({side: (side, ()) for side in self.ARENAS if not options.allocators})
        super().__init__(name, [], sides, options)
        self.program = os.path.join(options.build, "bench", program)
        self.point, self.value, self.arguments = point, value, arguments

    def run(self, session):
        if not os.path.exists(self.program):
            print(f"not built: {self.program}", file=sys.stderr)
            return

        def measure(side):
            policy, allocator = side
            result = run([self.program, "--allocator", policy, *self.arguments,
                          *(["--smoke"] if self.options.smoke else [])], allocator)
            return Run({"lines": list(csv.DictReader(result.output.splitlines()))}, 0)

        for label, found in self.in_turn(session, "all points", measure).items():
            for line in (line for run in found.runs for line in run.values["lines"]):
                its = self.results.setdefault(line[self.point], {})
                its.setdefault(label, Series()).runs.append(
                    Run({"value": float(line[self.value])}, float(line.get("rss_mb", 0))))
        self.rows = [Row(point, None, "ns") for point in self.results]
        for row in self.rows:
            self.print_row(row)
        self.write()

    def picture(self):
        lines = {name: [(int(point), value_of(its[name])) for point, its in self.results.items()
                        if name in its] for name in self.sides}
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

        rows.append(Row(name, measure, measured=(trace,)))
    return [Replay("replay", rows, sides, options)]


class Replay(Experiment):
    def write(self):
        super().write()
        for row in self.rows:
            self.draw_course(row.name)

    def draw_course(self, name):
        """Requested, resident and address space over the course of a trace."""
        resident, space = {}, {}
        for label in self.sides:
            path = os.path.join(self.options.out, f"replay_{name}_{label}.csv")
            if not os.path.exists(path):
                continue
            with open(path) as file:
                for line in csv.DictReader(file):
                    x, (requested, its, spaces) = int(line["operation"]), (
                        int(line[f"{what}_bytes"]) / 1e6
                        for what in ("requested", "resident", "address_space"))
                    resident.setdefault(label, []).append((x, its))
                    space.setdefault(label, []).append((x, spaces))
                    if label == next(iter(self.sides)):
                        resident.setdefault("requested", []).append((x, requested))
        path = os.path.join(self.options.out, f"replay_{name}.png")
        # The second is logarithmic: a buddy spreads its blocks over its pool.
        if pictures.draw_panels(path, f"the course of {name}", "", "operations", 2, [
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

        rows.append(Row(name, measure, measured=programs_of(argv[:1])))

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
        rows.append(Row(name, make(), unit, unit == "/s", programs_of(needed)))
    return [Experiment("programs", rows, sides, options)]


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
                for experiment in EXPERIMENTS[name](options, allocators):
                    experiment.run(session)
                    failed = failed or experiment.failed
        session.remove()
    except RunFailed as error:
        sys.exit(f"bench-malloc: {error}")
    return 1 if failed else 0

