#!/usr/bin/env python3
"""Measures malloc of Gleaner against the allocators people use, each by LD_PRELOAD.

usage: malloc_experiments.py [--build DIR] [--out DIR] [--runs N] [--only TEXT] EXPERIMENT...

  classic   larson, xmalloc-test, cfrac, espresso, barnes, pairs of malloc and free
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
import hashlib
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field

from picture import pyplot

PEERS = {
    "mimalloc": "libmimalloc.so.2",
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "tbbmalloc": "libtbbmalloc_proxy.so.2",
}
GLIBC = "glibc"
OURS = "gleaner"
COLLECTING = "gleaner-collect"
RUN_TIMEOUT_S = 300


class RunFailed(Exception):
    pass


class TooSlow(Exception):
    """A comparison policy did not get done in time: a result, not a failure."""


@dataclass
class Run:
    output: str
    seconds: float  # of the whole process
    rss_kb: int


def variables(preload):
    """What stands for an allocator, as NAME=VALUE: a library to preload, and variables behind it."""
    library, *more = preload.split()
    return [f"LD_PRELOAD={library}", *more]


def clean_environment(preload="", **more):
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith(("LD_", "GLEANER_", "GC_", "MALLOC_"))}
    if preload:
        environment.update(pair.split("=", 1) for pair in variables(preload))
    environment.update(more)
    return environment


def run(argv, preload="", patience_s=None, **environment):
    """Runs a program to its end. Raises RunFailed, or TooSlow after `patience_s` if that is given.

    time(1) starts it: the peak that the kernel reports of a child of this process would begin with
    this process's own."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors, \
            tempfile.NamedTemporaryFile("r") as figures:
        prefix = ["time", "-q", "-f", "%e %M", "-o", figures.name]
        if preload:
            prefix += ["env", *variables(preload)]
        begin = time.perf_counter()
        process = subprocess.Popen([*prefix, *argv], stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=errors, env=clean_environment(**environment),
                                   start_new_session=True)
        # Popen.wait with a timeout would poll, every 50 ms.
        late = threading.Event()

        def stop():
            late.set()
            os.killpg(process.pid, signal.SIGKILL)

        watch = threading.Timer(patience_s or RUN_TIMEOUT_S, stop)
        watch.start()
        process.wait()
        watch.cancel()
        if late.is_set():
            if patience_s:
                raise TooSlow(f"not done after {patience_s} s")
            raise RunFailed(f"{' '.join(argv)}: not done after {RUN_TIMEOUT_S} s")
        seconds = time.perf_counter() - begin
        output.seek(0)
        text = output.read().decode(errors="replace")
        if process.returncode != 0:
            errors.seek(0)
            raise RunFailed(f"{' '.join(argv)}: status {process.returncode}: "
                            f"{errors.read().decode(errors='replace').strip()[-500:]}")
        return Run(text, seconds, int(figures.read().split()[-1]))


def find_library(soname):
    """What the loader would take, or None."""
    cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    found = re.search(rf"^\s+{re.escape(soname)} .*=> (\S+)$", cache, re.MULTILINE)
    return found[1] if found else None


def find_allocators(ours, chosen):
    """Name to what is preloaded; checked in a process's own map."""
    allocators = {GLIBC: ""}
    for name, soname in PEERS.items():
        path = find_library(soname)
        if path:
            allocators[name] = path
        else:
            print(f"{name} is not installed ({soname})", file=sys.stderr)
    if os.path.exists(ours):
        allocators[OURS] = os.path.abspath(ours)
    else:
        print(f"not built: {ours}", file=sys.stderr)
    for name, path in allocators.items():
        maps = run(["cat", "/proc/self/maps"], path).output
        if path and os.path.realpath(path) not in maps:
            raise RunFailed(f"{path} is not loaded by LD_PRELOAD")
    if chosen:
        unknown = set(chosen) - set(allocators) - {COLLECTING}
        if unknown:
            raise RunFailed(f"no such allocator: {', '.join(sorted(unknown))}")
        allocators = {name: allocators[name] for name in chosen if name != COLLECTING}
    return allocators


@dataclass
class Series:
    """One workload on one allocator."""
    values: list = field(default_factory=list)
    rss_kb: list = field(default_factory=list)

    @property
    def median(self):
        return statistics.median(self.values)


@dataclass
class Row:
    """A workload: `measure(preload)` gives (value, peak resident KiB). `check` is an answer that
    must be the same on every allocator, if measure gives a third value."""
    name: str
    measure: object
    unit: str = "s"
    higher_is_better: bool = False
    allocators: dict = None  # other sides than the preloaded ones


class Experiment:
    """Rows by allocators, run in turns, printed, and written as CSV and picture."""

    SLOW_S = 10  # what takes longer is not repeated

    def __init__(self, name, rows, allocators, options):
        self.name, self.options = name, options
        self.rows = [row for row in rows if options.only in row.name]
        self.allocators = allocators
        self.results = {}  # (row name, allocator) -> Series
        self.failed = False

    def run(self):
        for row in self.rows:
            sides = list((row.allocators or self.allocators).items())
            answers = {}
            dead = set()
            for turn in range(self.options.runs):
                # Nobody is always the one after a certain other one.
                for name, side in sides[turn % len(sides):] + sides[:turn % len(sides)]:
                    if name in dead:
                        continue
                    try:
                        value, rss_kb, *answer = row.measure(side)
                        if answer and answers.setdefault("all", answer[0]) != answer[0]:
                            raise RunFailed(f"{row.name}: another result than before: {answer[0]}")
                    except (RunFailed, TooSlow) as error:
                        slow = isinstance(error, TooSlow)
                        print(f"{'slow' if slow else 'FAILED'}: {row.name} on {name}: {error}",
                              file=sys.stderr)
                        self.failed = self.failed or not slow
                        dead.add(name)
                        self.results.pop((row.name, name), None)
                        continue
                    series = self.results.setdefault((row.name, name), Series())
                    series.values.append(value)
                    series.rss_kb.append(rss_kb)
                    if row.unit == "s" and value > self.SLOW_S:
                        dead.add(name)  # once is enough
            self.print_row(row, [name for name, _ in sides])
        self.write()

    def print_row(self, row, names):
        base = self.results.get((row.name, GLIBC))
        print(f"{row.name} [{row.unit}]")
        for name in names:
            series = self.results.get((row.name, name))
            if series is None:
                print(f"  {name:12} no result")
                continue
            line = (f"  {name:12} {series.median:12.5g}  ({min(series.values):.5g} to "
                    f"{max(series.values):.5g})  {statistics.median(series.rss_kb) / 1000:9.1f} MB")
            if base is not None and base.median > 0 and series.median > 0:
                ratio = base.median / series.median
                line += f"  {1 / ratio if row.higher_is_better else ratio:7.2f} x glibc"
            print(line)
        sys.stdout.flush()

    def path(self, suffix):
        return os.path.join(self.options.out, self.name + suffix)

    def write(self):
        os.makedirs(self.options.out, exist_ok=True)
        with open(self.path(".csv"), "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["workload", "allocator", "unit", "median", "minimum", "maximum", "runs",
                             "peak_rss_kb"])
            for row in self.rows:
                for name in row.allocators or self.allocators:
                    series = self.results.get((row.name, name))
                    if series:
                        writer.writerow([row.name, name, row.unit, series.median,
                                         min(series.values), max(series.values),
                                         len(series.values), statistics.median(series.rss_kb)])
        print(f"== {self.path('.csv')}")
        self.write_table()
        plot = pyplot()
        if plot is None or not self.results:
            return
        self.draw(plot)

    def write_table(self):
        """As Markdown: medians, and in parentheses the peak resident set in MB."""
        names = list(dict.fromkeys(name for row in self.rows
                                   for name in row.allocators or self.allocators))
        with open(self.path(".md"), "w") as file:
            print(f"| {self.name} | {' | '.join(names)} |", file=file)
            print("|---" * (len(names) + 1) + "|", file=file)
            for row in self.rows:
                cells = [f"{row.name}, {row.unit}"]
                for name in names:
                    series = self.results.get((row.name, name))
                    cells.append(f"{series.median:.4g} ({statistics.median(series.rss_kb) / 1000:.3g})"
                                 if series else "-")
                print(f"| {' | '.join(cells)} |", file=file)
        print(f"== {self.path('.md')}")

    def draw(self, plot):
        """Bars: how many times as fast as glibc, or as the first allocator there is."""
        names = list(dict.fromkeys(name for row in self.rows
                                   for name in row.allocators or self.allocators))
        figure, axes = plot.subplots(figsize=(max(7, 1.3 * len(self.rows) + 2), 4.5))
        width = 0.85 / len(names)
        for i, name in enumerate(names):
            heights = []
            for row in self.rows:
                series = self.results.get((row.name, name))
                base = self.results.get((row.name, GLIBC)) or next(
                    (self.results[row.name, other] for other in names
                     if (row.name, other) in self.results), None)
                if series is None or base is None or not series.median or not base.median:
                    heights.append(0)
                    continue
                ratio = base.median / series.median
                heights.append(1 / ratio if row.higher_is_better else ratio)
            axes.bar([x + i * width for x in range(len(self.rows))], heights, width, label=name)
        axes.set_xticks([x + 0.42 for x in range(len(self.rows))])
        axes.set_xticklabels([row.name for row in self.rows], rotation=20, ha="right")
        axes.axhline(1, color="black", linewidth=0.5)
        axes.set_ylabel("times as fast as glibc")
        axes.legend(fontsize="small")
        self.save(plot, figure)

    def save(self, plot, figure):
        figure.tight_layout()
        figure.savefig(self.path(".png"), dpi=120)
        plot.close(figure)
        print(f"== {self.path('.png')}")


# --- Programs of our own: one line of key=value pairs ---

class Benchmarks:
    def __init__(self, options):
        self.folder = os.path.join(options.build, "bench")
        self.smoke = options.smoke

    def row(self, name, program, *arguments, metric="seconds", unit="s", higher_is_better=False):
        """None if the program is not built."""
        path = os.path.join(self.folder, program)
        if not os.path.exists(path):
            print(f"not built: {path}", file=sys.stderr)
            return None

        def measure(preload):
            result = run([path, *arguments, *(["--smoke"] if self.smoke else [])], preload)
            values = dict(pair.split("=", 1) for pair in result.output.split())
            answer = [values["checksum"]] if "checksum" in values else []
            return float(values[metric]), int(values["peak_rss_kb"]), *answer

        return Row(name, measure, unit, higher_is_better)


def existing(rows):
    return [row for row in rows if row is not None]


def classic(options, _):
    benchmarks = Benchmarks(options)
    rate = dict(metric="ops_per_second", unit="/s", higher_is_better=True)
    rows = []
    for threads in "1", "2":
        rows.append(benchmarks.row(f"larson, {threads} threads", "larson", "--threads", threads,
                                   **rate))
    rows.append(benchmarks.row("xmalloc-test", "xmalloc_test", "--threads", "2", **rate))
    for name in "cfrac", "espresso", "barnes":
        for threads in "1", "2":
            rows.append(benchmarks.row(f"{name}, {threads} threads", name, "--threads", threads))
    for threads in "1", "2":
        rows.append(benchmarks.row(f"pairs, {threads} threads", "malloc_pairs", "--threads",
                                   threads, metric="ns_per_pair", unit="ns"))
    return existing(rows)


def tbb(options, _):
    benchmarks = Benchmarks(options)
    return existing(benchmarks.row(f"new double, {threads} threads", "tbb_doubles", "--threads",
                                   threads) for threads in ("1", "2"))


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
        self.sides = {side: ("malloc", path) for side, path in allocators.items()}
        self.sides.update({side: (side, "") for side in self.ARENAS if chosen})
        self.rss_column = "rss_mb"

    def run(self):
        if not os.path.exists(self.program):
            print(f"not built: {self.program}", file=sys.stderr)
            return
        sides = list(self.sides.items())
        points = {}
        for turn in range(self.options.runs):
            for name, (allocator, preload) in sides[turn % len(sides):] + sides[:turn % len(sides)]:
                try:
                    result = run([self.program, "--allocator", allocator, *self.arguments,
                                  *(["--smoke"] if self.options.smoke else [])], preload)
                except RunFailed as error:
                    print(f"FAILED: {self.name} on {name}: {error}", file=sys.stderr)
                    self.failed = True
                    continue
                for line in csv.DictReader(result.output.splitlines()):
                    point = line[self.point]
                    points[point] = Row(point, None, "ns", allocators=self.sides)
                    series = self.results.setdefault((point, name), Series())
                    series.values.append(float(line[self.value]))
                    series.rss_kb.append(float(line.get(self.rss_column, 0)) * 1000)
        self.rows = list(points.values())
        for row in self.rows:
            self.print_row(row, list(self.sides))
        self.write()

    def draw(self, plot):
        figure, axes = plot.subplots(figsize=(8, 5))
        for name in self.sides:
            points = [(int(row.name), self.results[row.name, name].median) for row in self.rows
                      if (row.name, name) in self.results]
            if points:
                axes.plot(*zip(*points), marker="o", markersize=3, linewidth=1, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel(self.point)
        axes.set_ylabel("ns")
        axes.legend(fontsize="small")
        self.save(plot, figure)


def sizes(options, allocators):
    return [Sweep("sizes", "gleaner_bench_sizes", "bytes", "ns_per_pair",
                  [] if options.smoke else ["--repeats", "1", "--ms", "20"], allocators, options)]


def resident(options, allocators):
    return [Sweep(f"resident_{touch}", "gleaner_bench_resident", "blocks", "ns_per_operation",
                  ["--touch", touch], allocators, options) for touch in ("none", "first", "all")]


# --- Real programs ---

PYTHON_SCRIPT = """
import json, re, collections
words = collections.Counter()
for i in range(30000):
    text = json.dumps({"key%d" % i: [i, str(i) * 3, {"n": i % 7}]})
    words.update(re.findall(r"[a-z]+|[0-9]{2,4}", text))
    if i % 1000 == 0:
        data = [json.loads(text) for _ in range(200)]
print(len(words), sum(words.values()), sorted(words.items())[:5])
"""

LUA_SCRIPT = """
local names = {}
for round = 1, 20 do
  local t = {}
  for i = 1, 20000 do
    t[i] = {id = i, name = "item" .. i .. "/" .. round, parts = {i, i + 1}}
  end
  for i = 1, 20000, 7 do names[#names + 1] = t[i].name:upper():sub(1, 6) end
end
print(#names, names[100], names[#names])
"""

SQL_SCRIPT = """
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120000)
INSERT INTO t SELECT i, 'text' || (i * 7919 % 10007), i / 3.0 FROM n;
CREATE INDEX tb ON t(b);
SELECT count(*), count(DISTINCT b), sum(length(b)) FROM t;
SELECT b, count(*), group_concat(a) FROM t GROUP BY b ORDER BY 2 DESC, 1 LIMIT 5;
UPDATE t SET b = b || upper(b) WHERE a % 3 = 0;
SELECT sum(length(b)), max(b) FROM t;
"""


class Inputs:
    """What the programs work on, made once in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, name, text):
        path = self.path(name)
        if not os.path.exists(path):
            with open(path, "w") as file:
                file.write(text)
        return path

    def python(self):
        return self.file("work.py", PYTHON_SCRIPT)

    def lua(self):
        return self.file("work.lua", LUA_SCRIPT)

    def sql(self):
        return self.file("work.sql", SQL_SCRIPT)

    def c_program(self):
        functions = "".join(
            f"static int f{i}(int x) {{ int s = {i}; for (int j = 0; j < x; j++) "
            f"s = s * 31 + (x ^ j) % ({i} + 3); switch (s & 7) {{ case 0: return s + 1; "
            f"case 1: return s - x; case 2: return s ^ {i}; default: return s; }} }}\n"
            for i in range(600))
        return self.file("work.c", "int printf(const char *, ...);\n" + functions +
                         "int main(void) { int s = 0;\n" +
                         "".join(f"s += f{i}(s & 15);\n" for i in range(600)) +
                         'printf("%d\\n", s); return 0; }\n')

    def cmake_project(self):
        folder = self.path("project")
        if not os.path.isdir(folder):
            os.mkdir(folder)
            lines = ["cmake_minimum_required(VERSION 3.20)", "project(work NONE)",
                     "foreach(i RANGE 1 3000)", '  string(APPEND all "item${i};")',
                     '  set_property(GLOBAL APPEND PROPERTY list "value${i}")', "endforeach()",
                     'list(LENGTH all n)', 'string(REGEX REPLACE "item([0-9]+)" "\\\\1x" b "${all}")',
                     "list(SORT b)"]
            with open(os.path.join(folder, "CMakeLists.txt"), "w") as file:
                file.write("\n".join(lines) + "\n")
        return folder

    def repository(self):
        folder = self.path("repository")
        if os.path.isdir(folder):
            return folder
        os.mkdir(folder)
        identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
                    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
                    "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
                    "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}
        git = ["git", "-C", folder]
        run(["git", "init", "-q", folder])
        for commit in range(60):
            for name in range(12):
                with open(os.path.join(folder, f"file{name}.txt"), "w") as file:
                    file.writelines(f"line {line} {(line * 37 + name) % 91 if line % 17 else commit}\n"
                                    for line in range(700))
            run([*git, "add", "."])
            run([*git, "commit", "-q", "-m", f"commit {commit}"], **identity)
        return folder

    def picture(self):
        path = self.path("noise.v")
        if not os.path.exists(path):
            run(["vips", "gaussnoise", path, "2000", "1500"])
        return path

    def film(self):
        path = self.path("film.y4m")
        if not os.path.exists(path):
            width, height = 320, 240
            with open(path, "wb") as file:
                file.write(b"YUV4MPEG2 W%d H%d F25:1 Ip A1:1 C420jpeg\n" % (width, height))
                for frame in range(50):
                    file.write(b"FRAME\n")
                    file.write(bytes((x * y // 7 + frame * 5) & 255
                                     for y in range(height) for x in range(width)))
                    file.write(bytes([128 + frame % 50]) * (width * height // 2))
        return path

    def compiler(self):
        """The compiler proper, without the driver that starts it."""
        return run(["gcc", "-print-prog-name=cc1"]).output.strip()


def commands(inputs):
    """Name to (argv, environment): programs whose standard output is their result."""
    all_commands = {
        "cc1": lambda: ([inputs.compiler(), "-quiet", "-O2", "-o", "-", inputs.c_program()], {}),
        "python": lambda: (["/usr/bin/python3", inputs.python()],
                           {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "1"}),
        "git": lambda: (["git", "-C", inputs.repository(), "log", "-p", "--stat"],
                        {"GIT_PAGER": "cat"}),
        "cmake": lambda: (["cmake", "-S", inputs.cmake_project(), "-B", inputs.path("project/build"),
                           "-Wno-dev"], {}),
        "vips": lambda: (["vips", "gaussblur", inputs.picture(), inputs.path("blurred.v"), "6"],
                         {"VIPS_CONCURRENCY": "2"}),
        "x264": lambda: (["x264", "--quiet", "--no-progress", "--threads", "2", "-o", os.devnull,
                          inputs.film()], {}),
        "lua": lambda: (["lua5.4", inputs.lua()], {}),
        "sqlite3": lambda: (["sqlite3", "-batch", ":memory:", f".read {inputs.sql()}"], {}),
    }
    return all_commands


def replay(options, allocators):
    """The time of the replay, and how far the resident set grew. The courses of memory of the first
    run of each allocator are drawn together."""
    tool = os.path.join(options.build, "bin/gleaner")
    inputs = Inputs(options.scratch)
    known = re.search(r"--allocator TEXT\s+(.*?); malloc if",
                      run([tool, "replay", "--help"]).output, re.DOTALL)[1]
    policies = [name for name in known.replace("\n", " ").replace(",", " ").split()
                if name != "malloc"]
    sides = {name: ("malloc", path) for name, path in allocators.items()}
    sides.update({name: (name, "") for name in policies})
    os.makedirs(options.out, exist_ok=True)
    rows = []
    for name, make in commands(inputs).items():
        if options.only not in name:
            continue
        try:
            argv, environment = make()
            trace = inputs.path(name + ".trace")
            run([tool, "record", "--no-children", "--limit", "64m", "-o", trace, "--", *argv],
                **environment)
        except (RunFailed, FileNotFoundError) as error:
            print(f"not recorded: {name}: {error}", file=sys.stderr)
            continue
        size = os.path.getsize(trace)

        def measure(side, trace=trace, name=name, size=size):
            policy, preload = side
            label = next(key for key, value in sides.items() if value == side)
            table = os.path.join(options.out, f"replay_{name}_{label}.csv")
            patience_s = None if policy == "malloc" else Experiment.SLOW_S
            result = run([tool, "replay", trace, "--allocator", policy], preload, patience_s)
            if not os.path.exists(table):
                run([tool, "replay", trace, "--allocator", policy, "--csv", table], preload)

            def figure(what):
                return float(re.search(rf"^{what} +([\d.]+)", result.output, re.MULTILINE)[1])

            if label == GLIBC and not hasattr(measure, "told"):
                measure.told = True
                print(f"trace of {name}: {figure('events'):.0f} events, {figure('threads'):.0f} "
                      f"threads, {size / 1e6:.1f} MB, peak requested "
                      f"{figure('peak requested'):.1f} MB")
            return figure("time"), figure("peak resident") * 1000

        for label in sides:
            path = os.path.join(options.out, f"replay_{name}_{label}.csv")
            if os.path.exists(path):
                os.remove(path)
        rows.append(Row(name, measure, allocators=sides))
    return rows


def draw_courses(options, rows):
    """Requested, resident and address space over the course of each trace."""
    plot = pyplot()
    if plot is None:
        return
    for row in rows:
        figure, axes = plot.subplots(1, 2, figsize=(11, 4.5), sharex=True)
        requested = None
        for label in row.allocators:
            path = os.path.join(options.out, f"replay_{row.name}_{label}.csv")
            if not os.path.exists(path):
                continue
            with open(path) as file:
                lines = list(csv.DictReader(file))
            x = [int(line["operation"]) for line in lines]
            for axis, column in zip(axes, ("resident_bytes", "address_space_bytes")):
                axis.plot(x, [int(line[column]) / 1e6 for line in lines], label=label, linewidth=1)
            requested = requested or (x, [int(line["requested_bytes"]) / 1e6 for line in lines])
        for axis, title in zip(axes, ("resident", "address space")):
            if requested:
                axis.plot(*requested, label="requested", color="black", linewidth=1.5)
            axis.set_title(f"{row.name}: {title}, MB")
            axis.set_xlabel("operations")
        axes[1].set_yscale("log")  # a buddy spreads its blocks over its pool
        axes[0].legend(fontsize="small", loc="upper left")
        figure.tight_layout()
        path = os.path.join(options.out, f"replay_{row.name}.png")
        figure.savefig(path, dpi=110)
        plot.close(figure)
        print(f"== {path}")


def as_user(user):
    """A command that becomes the user's, in the same process: signals reach what follows."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def peak_rss_of_tree(pid):
    """The largest peak of a process and its descendants, KiB; 0 if it is gone."""
    total = 0
    try:
        with open(f"/proc/{pid}/status") as file:
            total = int(re.search(r"VmHWM:\s+(\d+)", file.read())[1])
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            for child in file.read().split():
                total = max(total, peak_rss_of_tree(int(child)))
    except (OSError, TypeError):
        pass
    return total


class Server:
    """A server that is stopped at the end, with an allocator preloaded."""

    def __init__(self, argv, preload, port, user=None):
        self.log = tempfile.TemporaryFile()
        if user:
            argv = [*as_user(user), "env", *(variables(preload) if preload else []), *argv]
            preload = ""
        self.process = subprocess.Popen(argv, env=clean_environment(preload), stdout=self.log,
                                        stderr=self.log, stdin=subprocess.DEVNULL)
        self.port = port

    def __enter__(self):
        for _ in range(200):
            if self.process.poll() is not None:
                break
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.05)
        self.__exit__()
        self.log.seek(0)
        raise RunFailed(f"the server did not start: {self.log.read().decode()[-500:]}")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def peak_rss_kb(self):
        return peak_rss_of_tree(self.process.pid)

    def check_ended_well(self, *allowed):
        if self.process.returncode not in (0, *allowed):
            raise RunFailed(f"the server ended with {self.process.returncode}")


def measure_redis(options):
    requests = "2000" if options.smoke else "100000"

    def measure(preload):
        port = free_port()
        with Server(["redis-server", "--port", str(port), "--save", "", "--appendonly", "no"],
                    preload, port) as server:
            client = ["redis-cli", "-p", str(port)]
            result = run(["redis-benchmark", "-p", str(port), "-q", "-n", requests, "-c", "20", "-P",
                          "8", "-r", "50000", "-d", "100", "-t",
                          "set,get,incr,lpush,lpop,sadd,hset,zadd"])
            run([*client, "set", "key", "x" * 1000])
            if run([*client, "strlen", "key"]).output.strip() != "1000":
                raise RunFailed("redis has lost a value")
            rss = server.peak_rss_kb()
        server.check_ended_well()
        return result.seconds, rss

    return measure


def measure_nginx(options, inputs):
    def measure(preload):
        port = free_port()
        folder = tempfile.mkdtemp(dir=options.scratch)
        page = "".join(f"<p>paragraph {i}</p>\n" for i in range(300))
        with open(os.path.join(folder, "index.html"), "w") as file:
            file.write(page)
        configuration = os.path.join(folder, "nginx.conf")
        with open(configuration, "w") as file:
            file.write(f"""
daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
{'user root;' if os.geteuid() == 0 else ''}
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path {folder}/1; proxy_temp_path {folder}/2;
  fastcgi_temp_path {folder}/3; uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
  server {{ listen 127.0.0.1:{port}; root {folder}; gzip on; gzip_min_length 100; }}
}}
""")
        seconds = "1" if options.smoke else "3"
        with Server(["nginx", "-p", folder, "-c", configuration], preload, port) as server:
            url = f"http://127.0.0.1:{port}/index.html"
            result = run(["wrk", "-t", "1", "-c", "32", "-d", f"{seconds}s", "-H",
                          "Accept-Encoding: gzip", url])
            got = run(["/usr/bin/python3", "-c",
                       f"import urllib.request as u; print(u.urlopen('{url}').read().decode())"])
            rss = server.peak_rss_kb()
        server.check_ended_well()
        if got.output.strip() != page.strip():
            raise RunFailed("nginx served another page")
        if "Non-2xx" in result.output or "Socket errors" in result.output:
            raise RunFailed(result.output)
        return float(re.search(r"Requests/sec:\s+([\d.]+)", result.output)[1]), rss

    return measure


def measure_postgres(options):
    binaries = sorted(os.path.join("/usr/lib/postgresql", version, "bin")
                      for version in os.listdir("/usr/lib/postgresql"))[-1]
    user = "postgres" if os.geteuid() == 0 else None
    become = as_user(user) if user else []
    folder = tempfile.mkdtemp(dir=options.scratch)
    os.chmod(options.scratch, 0o711)
    if user:
        shutil.chown(folder, user)
    data = os.path.join(folder, "data")
    run([*become, os.path.join(binaries, "initdb"), "-D", data, "--no-sync", "-A", "trust"])

    def measure(preload):
        port = free_port()
        to_server = ["-h", "127.0.0.1", "-p", str(port)]
        bench = [*become, os.path.join(binaries, "pgbench"), *to_server]
        seconds = "1" if options.smoke else "4"
        with Server([os.path.join(binaries, "postgres"), "-D", data, "-p", str(port), "-k", folder,
                     "-c", "fsync=off"], preload, port, user) as server:
            run([*bench, "-i", "-q", "-s", "2", "postgres"])
            result = run([*bench, "-n", "-S", "-c", "2", "-j", "1", "-T", seconds, "postgres"])
            count = run([*become, os.path.join(binaries, "psql"), *to_server, "-Atc",
                         "select count(*), sum(length(filler)) from pgbench_accounts", "postgres"])
            rss = server.peak_rss_kb()
        server.check_ended_well()
        tps = float(re.search(r"tps = ([\d.]+)", result.output)[1])
        return tps, rss, count.output.strip()

    return measure


def programs(options, allocators):
    inputs = Inputs(options.scratch)
    rows = []
    sides = dict(allocators)
    if OURS in sides and not options.allocators or COLLECTING in options.allocators:
        sides[COLLECTING] = f"{options.ours} GLEANER_COLLECT=1"
    for name, make in commands(inputs).items():
        if options.only not in name:
            continue
        try:
            argv, environment = make()
            run(argv, **environment)
        except (RunFailed, FileNotFoundError) as error:
            print(f"left out: {name}: {error}", file=sys.stderr)
            continue

        def measure(preload, argv=argv, environment=environment, name=name):
            result = run(argv, preload, **environment)
            # cmake tells how long it took.
            answer = "" if name == "cmake" else hashlib.sha1(result.output.encode()).hexdigest()
            return result.seconds, result.rss_kb, answer

        rows.append(Row(name, measure, allocators=sides))

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
        rows.append(Row(name, make(), unit, unit == "/s", sides))
    return rows


EXPERIMENTS = {"classic": classic, "sizes": sizes, "resident": resident, "replay": replay,
               "tbb": tbb, "programs": programs}


def main():
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
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    if options.smoke:
        options.runs = 1
    chosen = list(EXPERIMENTS) if "all" in options.experiments else options.experiments
    failed = False
    try:
        options.ours = os.path.abspath(
            options.ours or os.path.join(options.build, "lib/gleaner/libgleaner_malloc.so"))
        allocators = find_allocators(options.ours, options.allocators)
        for name in chosen:
            print(f"== {name}; load average {os.getloadavg()[0]:.2f}")
            with tempfile.TemporaryDirectory() as options.scratch:
                found = EXPERIMENTS[name](options, allocators)
                if not found or isinstance(found[0], Row):
                    found = [Experiment(name, found, allocators, options)]
                for experiment in found:
                    experiment.run()
                    failed = failed or experiment.failed
                if name == "replay":
                    draw_courses(options, found[0].rows)
    except RunFailed as error:
        sys.exit(f"malloc_experiments.py: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
