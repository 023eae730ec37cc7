#!/usr/bin/env python3
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
import csv
import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import compare  # noqa: E402


@dataclass
class Mode:
    name: str
    library: str
    environment: dict = field(default_factory=dict)
    flags: list = field(default_factory=list)  # for the program
    expected: dict = field(default_factory=dict)  # of what the program reports


INCREMENTAL = {"GC_ENABLE_INCREMENTAL": "1"}
BARRIERS = ("userfaultfd", "softdirty", "mprotect", "explicit")


def concurrent(barrier):
    return Mode(f"concurrent, {barrier}", compare.OURS,
                {**INCREMENTAL, "GLEANER_WRITE_TRACKING": barrier}, [], {"incremental": "1"})


MODES = [
    Mode("libgc stop", compare.THEIRS, {}, [], {"incremental": "0"}),
    Mode("libgc incremental", compare.THEIRS, INCREMENTAL),
    Mode("stop-parallel", compare.OURS, {}, [], {"incremental": "0"}),
    *map(concurrent, BARRIERS),
    Mode("generational", compare.OURS, {**INCREMENTAL, "GLEANER_GENERATIONAL": "1"}, [],
         {"incremental": "1"}),
]


@dataclass
class Workload:
    name: str
    command: list
    stall: str = "gap"  # prefix of the durations it reports


def make_workloads(quick):
    """The whole table, or one that takes minutes and needs less than 1 GB."""
    workloads = []
    operations = "3000000" if quick else "12000000"
    for megabytes in (100, 400) if quick else (100, 1000, 4000):
        for threads in (1, 2):
            workloads.append(Workload(
                f"hash table, {megabytes} MB, {threads} mutator{'s' if threads > 1 else ''}",
                ["hash_table", "--gaps", "--megabytes", str(megabytes), "--operations", operations,
                 "--threads", str(threads)]))
    for threads in (1, 2):
        workloads.append(Workload(
            f"request loop, 400 MB, {threads} mutator{'s' if threads > 1 else ''}",
            ["request_loop", "--threads", str(threads), "--seconds", "5" if quick else "20"],
            "request"))
    for name, command in (("GCBench", ["gcbench"]), ("binary trees", ["binary_trees"]),
                          ("BH-pt", ["bh", "--variant", "pt"] +
                           (["--steps", "5"] if quick else []))):
        for threads in (1, 2):
            workloads.append(Workload(
                f"{name}, {threads} mutator{'s' if threads > 1 else ''}",
                command + ["--gaps", "--threads", str(threads)]))
    return workloads


class NotSupported(Exception):
    pass


def side_of(mode, command):
    return compare.Side(mode.name, command + mode.flags, mode.library, mode.environment)


def check_mode(mode, values):
    for key, value in mode.expected.items():
        if values[key] != value:
            raise NotSupported(f"it reports {key}={values[key]}")


def try_mode(mode, options):
    """Raises NotSupported if the library does not have the mode, or not all its options."""
    if mode.library == compare.THEIRS:
        return  # whatever becomes of it is a result
    side = side_of(mode, ["hash_table"])
    environment = {**os.environ, **side.environment, "LD_LIBRARY_PATH": options.ours}
    trial = subprocess.run([os.path.join(options.bin, "hash_table"), "--smoke"], env=environment,
                           capture_output=True, text=True, timeout=compare.RUN_TIMEOUT_S)
    unknown = re.search(r"GLEANER_[A-Z_]+", trial.stderr)
    if unknown:
        raise NotSupported(f"it complains of {unknown[0]}")
    if trial.returncode == 0:
        check_mode(mode, dict(pair.split("=", 1) for pair in trial.stdout.split()))


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

    def __init__(self):
        self.runs = []
        self.failure = None

    def median(self, key):
        values = [float(run.values[key]) for run in self.runs if key in run.values]
        return statistics.median(values) if values else None


HEADER = ["workload", "mode", "run time s", "of stop-parallel", "p50 us", "p99 us", "p99.9 us",
          "longest stall ms", "longest pause ms", "pauses", "peak MB"]


def table_line(workload, mode, cell, stop_parallel):
    if cell.failure or not cell.runs:
        return [workload.name, mode.name, cell.failure or "-"] + ["-"] * (len(HEADER) - 3)
    show = compare.three_digits
    seconds = cell.median("seconds")
    base = stop_parallel.median("seconds") if stop_parallel and stop_parallel.runs else None
    prefix = workload.stall
    return [workload.name, mode.name, show(seconds), f"{seconds / base:.2f}" if base else "-",
            *(show(cell.median(f"{prefix}_{q}_us")) for q in ("p50", "p99", "p999")),
            show(cell.median(f"{prefix}_max_ms")), show(cell.median("pause_max_ms")),
            f"{cell.median('pauses'):.0f}",
            show(statistics.median(run.rss_mb for run in cell.runs))]


def print_markdown(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
    for number, line in enumerate(lines):
        print("| " + " | ".join(text.ljust(width) for text, width in zip(line, widths)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def write_csv(path, cells):
    names = ["workload", "mode", "run", "failure", "rss_mb"]
    records = []
    for (workload, mode), cell in cells.items():
        for number, run in enumerate(cell.runs):
            records.append({"workload": workload, "mode": mode, "run": number,
                            "rss_mb": run.rss_mb, **run.values})
            names += [name for name in run.values if name not in names]
        if cell.failure:
            records.append({"workload": workload, "mode": mode, "failure": cell.failure})
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(records)


def draw(path, workloads, modes, cells):
    """The longest stalls, on a logarithmic scale."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("no picture: python3-matplotlib is missing", file=sys.stderr)
        return
    figure, axes = plt.subplots(figsize=(10, 1 + 0.5 * len(workloads)))
    height = 0.8 / len(modes)
    for number, mode in enumerate(modes):
        bars = [(row + number * height, cells[w.name, mode.name].median(f"{w.stall}_max_ms"))
                for row, w in enumerate(workloads)]
        bars = [bar for bar in bars if bar[1] is not None]
        axes.barh([at for at, _ in bars], [ms for _, ms in bars], height, label=mode.name)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(workloads))],
                    [w.name for w in workloads])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("longest stall, or latency of a request, in ms (median of the runs)")
    axes.grid(axis="x", alpha=0.4)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", metavar="DIR", required=True,
                        help="the benchmark programs: <build>/bench")
    parser.add_argument("--ours", metavar="DIR",
                        help="directory of our libgc.so.1 (BIN/../lib/gleaner)")
    parser.add_argument("--theirs", metavar="DIR", default="/usr/lib/x86_64-linux-gnu",
                        help="directory of the libgc.so.1 to compare with (%(default)s)")
    parser.add_argument("--runs", type=int, help="runs of each mode (3, with --smoke 1)")
    parser.add_argument("--only", metavar="REGEX", default="",
                        help="only workloads whose name matches")
    parser.add_argument("--modes", metavar="REGEX", default="", help="only modes whose name matches")
    parser.add_argument("--quick", action="store_true",
                        help="smaller heaps and shorter runs; without it 4 GB live, 12 GB resident")
    parser.add_argument("--smoke", action="store_true", help="tiny runs; the figures mean nothing")
    parser.add_argument("--csv", metavar="FILE", help="write every run to FILE")
    parser.add_argument("--plot", metavar="FILE", help="draw the longest stalls (PNG, SVG or PDF)")
    parser.add_argument("--list", action="store_true", help="print workloads and modes, and exit")
    options = parser.parse_args()
    if options.ours is None:
        options.ours = os.path.join(options.bin, "..", "lib", "gleaner")
    for name in ("ours", "theirs"):
        if not os.path.exists(compare.library_file(getattr(options, name))):
            parser.error(f"--{name}: there is no libgc.so.1 in {getattr(options, name)}")
    if options.runs is None:
        options.runs = 1 if options.smoke else 3
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    return options


def main():
    options = parse_arguments()
    workloads = [w for w in make_workloads(options.quick or options.smoke)
                 if re.search(options.only, w.name)]
    wanted = [m for m in MODES if re.search(options.modes, m.name)]
    if not workloads or not wanted:
        sys.exit("nothing matches --only and --modes; --list shows what there is")
    if options.list:
        for item in (*workloads, *wanted):
            print(f"{item.name}: {' '.join(getattr(item, 'command', []))}".rstrip(": "))
        return 0
    if options.smoke:  # sizes are the programs' own for --smoke
        for workload in workloads:
            workload.command = [workload.command[0]] + [
                word for word in workload.command[1:] if word == "--gaps"]
        workloads = list({w.command[0]: w for w in workloads}.values())

    modes = []
    for mode in wanted:
        try:
            try_mode(mode, options)
            modes.append(mode)
        except NotSupported as reason:
            print(f"left out: {mode.name}: {reason}", file=sys.stderr)

    began = time.monotonic()
    machine_before, own_before = compare.busy_seconds()
    cells = {(w.name, m.name): Cell() for w in workloads for m in modes}
    wrong = []
    for workload in workloads:
        checksums = set()
        for number in range(options.runs):
            for mode in modes:
                cell = cells[workload.name, mode.name]
                if cell.failure:
                    continue
                compare.progress(f"{workload.name}, {mode.name}: run {number + 1}")
                try:
                    run = compare.run_once(side_of(mode, workload.command), options)
                    check_mode(mode, run.values)
                    cell.runs.append(run)
                    checksums.add(run.values["checksum"])
                except (compare.RunFailed, NotSupported) as failure:
                    cell.failure = how_it_ended(failure)
                    if mode.library == compare.OURS:
                        wrong.append(f"{workload.name}, {mode.name}: {failure}")
        if len(checksums) > 1:
            wrong.append(f"{workload.name}: different checksums {sorted(checksums)}")
    compare.progress("")

    lines = [HEADER]
    for workload in workloads:
        base = cells.get((workload.name, "stop-parallel"))
        lines += [table_line(workload, mode, cells[workload.name, mode.name], base)
                  for mode in modes]
    print_markdown(lines)
    elapsed = time.monotonic() - began
    machine, own = (after - before for after, before in
                    zip(compare.busy_seconds(), (machine_before, own_before)))
    foreign = max(0, machine - own) / (elapsed * os.cpu_count())
    print(f"\nMedians of {options.runs} run(s), modes in turn, {elapsed:.0f} s; other programs used "
          f"{foreign:.0%} of the machine's {os.cpu_count()} CPUs meanwhile.")
    if options.csv:
        write_csv(options.csv, cells)
    if options.plot:
        draw(options.plot, workloads, modes, cells)
    for line in wrong:
        print(f"FAILED: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
