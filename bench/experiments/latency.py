"""Runs programs in every mode of collection and says how long their threads were held up.

A mode is a name, a library, variables of the environment, and what the program must report for the
mode to be in force. A mode that the library does not have, or knows no option of, is left out after
a short trial. All modes of a workload run in turn, --runs times. A run that fails is a result: the
cell says how it ended. The exit status is 1 if one of our own runs failed, or if a checksum differs.

Stalls are measured in the program, by looks at the clock: the gap between two operations or
allocations of one thread, and in request_loop the latency of a request from when it was due. So
every library is measured alike.
"""

import argparse
import os
import re
import statistics
import sys
from dataclasses import dataclass, field

from . import machine, pictures, tables
from .running import (OURS, THEIRS, RunFailed, Side, add_places, check_places, environment_of,
                      parse_values, run_once, run_program)
from .session import Session


@dataclass
class Mode:
    name: str
    library: str
    environment: dict = field(default_factory=dict)
    flags: list = field(default_factory=list)  # for the program
    expected: dict = field(default_factory=dict)  # of what the program reports
    programs: tuple = ()  # that know the flags; empty: all

    def fits(self, workload):
        return not self.programs or workload.command[0] in self.programs


INCREMENTAL = {"GC_ENABLE_INCREMENTAL": "1"}
ON = {"incremental": "1"}
OFF = {"incremental": "0"}
# libgc's incremental mode is expected to be anything: how it ends is a result.
MODES = [
    Mode("libgc stop", THEIRS, expected=OFF),
    Mode("libgc incremental", THEIRS, INCREMENTAL),
    Mode("auto", OURS, expected=OFF),
    Mode("stop-parallel", OURS, {"GLEANER_MODE": "stop"}, expected=OFF),
    Mode("concurrent, userfaultfd", OURS,
         {**INCREMENTAL, "GLEANER_WRITE_TRACKING": "userfaultfd"}, expected=ON),
    Mode("concurrent, soft-dirty", OURS,
         {**INCREMENTAL, "GLEANER_WRITE_TRACKING": "soft-dirty"}, expected=ON),
    Mode("concurrent, mprotect", OURS,
         {**INCREMENTAL, "GLEANER_WRITE_TRACKING": "mprotect"}, expected=ON),
    # Programs have to say what they write, with a flag that makes them do so.
    Mode("concurrent, explicit barrier", OURS,
         {**INCREMENTAL, "GLEANER_WRITE_TRACKING": "cards"}, ["--barrier"], ON,
         programs=("hash_table",)),
    Mode("generational", OURS, {**INCREMENTAL, "GLEANER_GENERATIONAL": "1"}, expected=ON),
]
BASE = "stop-parallel"  # run times are given as multiples of this mode's
RUN_TIMEOUT_S = 900


@dataclass
class Workload:
    name: str
    command: list
    live_mb: int = 0
    stall: str = "gap"  # prefix of the durations it reports

    def needs_mb(self):
        """What the hungriest mode may need."""
        return RESIDENT_PER_LIVE * self.live_mb


# The hash table of 4 GB, built and not collected since, peaks at 5.3 GB on libgc and 5.1 on ours; the
# rest is room to allocate in until a collection ends.
RESIDENT_PER_LIVE = 3


def make_workloads(options):
    """With --quick they take minutes and need less than 2 GB."""
    quick = options.quick or options.smoke
    workloads = []

    def add(name, command, operations=None, **more):
        """On 1 and 2 threads; `operations` says how many each of so many threads is to do."""
        for threads in (1, 2):
            argv = command + ["--threads", str(threads)]
            if operations:
                argv += ["--operations", str(operations(threads))]
            if threads == 1:  # as in compare: the mode of libgc that suits these better
                argv.append("--wake-markers")
            workloads.append(Workload(f"{name}, {threads} mutator{'s' if threads > 1 else ''}",
                                      argv, **more))

    least = 3_000_000 if quick else 12_000_000
    for megabytes in options.megabytes or ((100, 400) if quick else (100, 1000, 4000)):
        # A quarter of the operations insert 308 bytes on average: nearly the live data once over.
        add(f"hash table, {megabytes} MB",
            ["hash_table", "--gaps", "--megabytes", str(megabytes)],
            lambda threads, size=megabytes: max(least, 12_000 * size // threads),
            live_mb=megabytes)
    add("stable heap, 400 MB",
        ["stable_heap", "--gaps"] + (["--operations", "1000000"] if quick else []), live_mb=400)
    add("request loop, 400 MB", ["request_loop", "--seconds", "5" if quick else "20"],
        live_mb=400, stall="request")
    add("GCBench", ["gcbench", "--gaps"])
    add("binary trees", ["binary_trees", "--gaps"])
    add("BH-pt", ["bh", "--variant", "pt", "--gaps"] + (["--steps", "5"] if quick else []))
    return workloads


def available_mb():
    with open("/proc/meminfo", encoding="ascii") as file:
        kilobytes = re.search(r"MemAvailable: +(\d+) kB", file.read())[1]
    return int(kilobytes) // 1000


def sizes(text):
    numbers = list(dict.fromkeys(int(word) for word in text.split(",")))
    if not all(1 <= number <= 1 << 20 for number in numbers):
        raise ValueError
    return numbers


class NotSupported(RunFailed):
    pass


def side_of(mode, command):
    return Side(mode.name, command + mode.flags, mode.library, mode.environment)


def check_mode(mode, values):
    for key, value in mode.expected.items():
        if values.get(key) != value:
            raise NotSupported(f"the program reports {key}={values.get(key, '(nothing)')}")


def try_mode(mode, options):
    """Raises NotSupported if the library does not have the mode or knows not all of its variables,
    or the programs not all of its flags."""
    if mode.library == THEIRS:
        return  # whatever becomes of it is a result
    side = side_of(mode, ["hash_table"])
    trial = run_program([os.path.join(options.bin, "hash_table"), "--smoke", *mode.flags],
                        environment_of(side, options), RUN_TIMEOUT_S)
    unknown = re.search(r"GLEANER_[A-Z_]+|not expected: \S+", trial.errors)
    if unknown:
        raise NotSupported(f"there was a complaint of {unknown[0]}")
    if trial.status == 0:
        check_mode(mode, parse_values(trial.output))


def how_it_ended(failure):
    status = re.search(r"exit status (-?\d+)", str(failure))
    if not status:
        return str(failure)
    number = int(status[1])
    if number == -9:
        return "killed, or not done in time"
    return f"signal {-number}" if number < 0 else f"exit status {number}"


class Cell:
    """The runs of one workload in one mode."""

    def __init__(self, workload, series):
        self.prefix = workload.stall
        self.runs = series.runs
        self.failure = how_it_ended(series.failure) if series.failure else None

    def median(self, key):
        values = [float(run.values[key]) for run in self.runs if key in run.values]
        return statistics.median(values) if values else None

    def stall(self, figure):
        """The median of p50_us, p99_us, p999_us or max_ms."""
        return self.median(f"{self.prefix}_{figure}")


HEADER = ["workload", "mode", "run time s", "of stop-parallel", "p50 us", "p99 us", "p99.9 us",
          "longest stall ms", "longest pause ms", "pauses", "peak MB"]


def table_line(workload, mode, cell, stop_parallel):
    if cell.failure or not cell.runs:
        return [workload.name, mode.name, cell.failure or "-"] + ["-"] * (len(HEADER) - 3)
    show = tables.three_digits
    seconds = cell.median("seconds")
    base = stop_parallel.median("seconds") if stop_parallel and stop_parallel.runs else None
    return [workload.name, mode.name, show(seconds), f"{seconds / base:.2f}" if base else "-",
            *(show(cell.stall(figure)) for figure in ("p50_us", "p99_us", "p999_us")),
            show(cell.stall("max_ms")), show(cell.median("pause_max_ms")),
            f"{cell.median('pauses'):.0f}",
            show(statistics.median(run.rss_mb for run in cell.runs))]


def write_csv(path, cells):
    records = []
    for (workload, mode), cell in cells.items():
        for number, run in enumerate(cell.runs):
            records.append({"workload": workload, "mode": mode, "run": number,
                            "rss_mb": run.rss_mb, **run.values})
        if cell.failure:
            records.append({"workload": workload, "mode": mode, "failure": cell.failure})
    tables.write_records(path, records)


def draw(path, cells):
    """Draws the longest stalls, on a logarithmic scale."""
    plot = pictures.pyplot()
    if plot is None:
        return
    # As dictionaries, to keep the order and drop repetitions.
    workloads = list(dict.fromkeys(workload for workload, _ in cells))
    modes = list(dict.fromkeys(mode for _, mode in cells))
    figure, axes = plot.subplots(figsize=(10, 1 + 0.5 * len(workloads)))
    height = 0.8 / len(modes)
    for number, mode in enumerate(modes):
        bars = [(row + number * height, cells[workload, mode].stall("max_ms"))
                for row, workload in enumerate(workloads) if (workload, mode) in cells]
        bars = [bar for bar in bars if bar[1] is not None]
        axes.barh([at for at, _ in bars], [ms for _, ms in bars], height, label=mode)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(workloads))], workloads)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("longest stall, or latency of a request, in ms (median of the runs)")
    axes.grid(axis="x", alpha=0.4)
    axes.legend()
    figure.tight_layout()
    pictures.save(plot, figure, path)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_places(parser)
    parser.add_argument("--runs", type=int, help="runs of each mode (3, with --smoke 1)")
    parser.add_argument("--only", metavar="REGEX", type=tables.regex, default="",
                        help="only workloads whose name matches")
    parser.add_argument("--modes", metavar="REGEX", type=tables.regex, default="",
                        help="only modes whose name matches")
    parser.add_argument("--skip", metavar="REGEX", type=tables.regex,
                        help="not those whose 'workload, mode' matches, as in '4000 MB.*libgc inc'")
    parser.add_argument("--megabytes", metavar="N,...", type=sizes,
                        help="live data of the hash tables (100,1000,4000; --quick: 100,400)")
    parser.add_argument("--quick", action="store_true",
                        help="smaller heaps and shorter runs")
    parser.add_argument("--smoke", action="store_true", help="tiny runs; the figures mean nothing")
    parser.add_argument("--csv", metavar="FILE", help="write every run to FILE")
    parser.add_argument("--plot", metavar="FILE", help="draw the longest stalls (PNG, SVG or PDF)")
    parser.add_argument("--list", action="store_true", help="print workloads and modes, and exit")
    options = parser.parse_args(arguments)
    check_places(parser, options)
    if options.runs is None:
        options.runs = 1 if options.smoke else 3
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    return options


def supported_modes(options):
    modes = []
    for mode in MODES:
        if not re.search(options.modes, mode.name):
            continue
        try:
            try_mode(mode, options)
            modes.append(mode)
        except NotSupported as reason:
            print(f"left out: {mode.name}: {reason}", file=sys.stderr)
    return modes


def run_workload(session, workload, modes, options):
    """Runs the modes in turn. Returns their series by name, and what is wrong, in words."""
    by_name = {mode.name: mode for mode in modes}

    def measure(mode):
        run = run_once(side_of(mode, workload.command), options, RUN_TIMEOUT_S)
        check_mode(mode, run.values)
        return run

    series = session.in_turn(workload.name, by_name, options.runs, measure)
    wrong = [f"{workload.name}, {name}: {one.failure}" for name, one in series.items()
             if one.failure and by_name[name].library == OURS]
    checksums = {run.values["checksum"] for one in series.values() for run in one.runs}
    if len(checksums) > 1:
        wrong.append(f"{workload.name}: different checksums {sorted(checksums)}")
    return series, wrong


def main(arguments):
    options = parse_arguments(arguments)
    workloads = [w for w in make_workloads(options) if re.search(options.only, w.name)]
    if options.list:
        for item in (*workloads, *(m for m in MODES if re.search(options.modes, m.name))):
            print(f"{item.name}: {' '.join(getattr(item, 'command', []))}".rstrip(": "))
        return 0
    if options.smoke:  # sizes are the programs' own for --smoke
        for workload in workloads:
            workload.command = [workload.command[0]] + [
                word for word in workload.command[1:] if word == "--gaps"]
            workload.live_mb = 0
        workloads = list({w.command[0]: w for w in workloads}.values())

    others = machine.OtherPrograms()
    modes = supported_modes(options)
    session = Session.of_command("bench-latency", options, arguments)
    cells = {}
    wrong = []
    lines = [HEADER]
    for workload in workloads:
        if workload.needs_mb() > available_mb():
            print(f"left out: {workload.name}: needs up to {workload.needs_mb()} MB, "
                  f"available are {available_mb()}", file=sys.stderr)
            continue
        its_modes = [mode for mode in modes if mode.fits(workload) and not (
            options.skip and re.search(options.skip, f"{workload.name}, {mode.name}"))]
        series, its_wrong = run_workload(session, workload, its_modes, options)
        cells.update({(workload.name, name): Cell(workload, one) for name, one in series.items()})
        wrong += its_wrong
        base = cells.get((workload.name, BASE))
        lines += [table_line(workload, mode, cells[workload.name, mode.name], base)
                  for mode in its_modes]
        if options.csv:  # after each workload: nothing is lost if the rest does not end
            write_csv(options.csv, cells)
    session.remove()
    if not cells:
        sys.exit("nothing is left to run; --list shows workloads and modes")

    tables.print_markdown(lines)
    print(f"\nMedians of {options.runs} run(s), modes in turn, {others.since_began()}.")
    if options.plot:
        draw(options.plot, cells)
    return tables.report_failures(wrong)

