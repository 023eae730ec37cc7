#!/usr/bin/env python3
"""Shows Gleaner beside Debian's libgc: one benchmark on both, then an unmodified program on both.

usage: demo.py --bh PROGRAM --ours DIR --theirs DIR    (the DIRs hold a libgc.so.1 each)
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

PAGE = pathlib.Path(__file__).with_name("page.html")
PAGE_YEARS = 150
PAGE_FIRST_YEAR = 1701
RUNS = 3

# What a line about a collection looks like, on either library.
STATS_LINE = re.compile(r"\b(gc|collection|cycle) ?#?\d+", re.IGNORECASE)


class Run:
    """One finished program: what it wrote, how long it took, the most memory it had."""

    def __init__(self, command, library_dir, **environment):
        env = {**os.environ, "LD_LIBRARY_PATH": str(library_dir), **environment}
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            start = time.monotonic()
            child = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            _, status, usage = os.wait4(child.pid, 0)
            self.seconds = time.monotonic() - start
            child.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            err.seek(0)
            self.output = out.read()
            self.errors = err.read().decode(errors="replace")
        self.peak_mib = usage.ru_maxrss / 1024
        if child.returncode != 0:
            sys.exit(f"{command[0]} on {library_dir} ended with {child.returncode}\n{self.errors[-2000:]}")


def table(heads, rows):
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    for row in [heads, *rows]:
        print("  " + row[0].ljust(widths[0]),
              *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:])), sep="   ")


def alternate(args, command, **environment):
    """A few runs on each library in turn; the run of median time on libgc, and on Gleaner."""
    pairs = [[Run(command, library, **environment) for library in (args.theirs, args.ours)]
             for _ in range(RUNS)]
    return [sorted(side, key=lambda run: run.seconds)[RUNS // 2] for side in zip(*pairs)]


def large_page():
    head, rest = PAGE.read_text().split("<!-- repeat -->")
    section, tail = rest.split("<!-- /repeat -->")
    years = range(PAGE_FIRST_YEAR, PAGE_FIRST_YEAR + PAGE_YEARS)
    return head + "".join(section.replace("@N@", str(year)) for year in years) + tail


def show_benchmark(args):
    cpus = len(os.sched_getaffinity(0))
    print(f"\n1. bh --lists, Barnes-Hut with interaction lists: one binary on both libraries, {cpus} CPUs,"
          f" median of {RUNS} runs\n")
    values = [dict(re.findall(r"(\w+)=(\S+)", run.output.decode()))
              for run in alternate(args, [args.bh, "--lists", "--threads", str(cpus)])]

    def row(name, key, form, unit=1.0):
        libgc, gleaner = (float(side[key]) / unit for side in values)
        ratio = f"{gleaner / libgc:.2f}x" if libgc else ""
        return [name, form.format(libgc), form.format(gleaner), ratio]

    table(["", "libgc", "Gleaner", "ratio"],
          [row("time", "seconds", "{:.2f} s"),
           row("collections", "collections", "{:.0f}"),
           row("mean pause", "pause_mean_ms", "{:.2f} ms"),
           row("longest pause", "pause_max_ms", "{:.2f} ms"),
           row("peak memory", "peak_rss_kb", "{:.0f} MiB", 1024)])


def show_w3m(args):
    with tempfile.TemporaryDirectory() as home:
        page = pathlib.Path(home, "almanac.html")
        page.write_text(large_page())
        command = ["w3m", "-dump", "-cols", "100", "-T", "text/html", str(page)]
        print(f"\n2. Debian's own w3m, unmodified, renders a page of {page.stat().st_size // 1024} KiB,"
              f" median of {RUNS} runs\n")
        theirs, ours = alternate(args, command, HOME=home)
        traced = Run(command, args.ours, HOME=home, GC_PRINT_STATS="1")

    table(["", "libgc", "Gleaner"],
          [["time", f"{theirs.seconds:.2f} s", f"{ours.seconds:.2f} s"],
           ["peak memory", f"{theirs.peak_mib:.0f} MiB", f"{ours.peak_mib:.0f} MiB"],
           ["output", f"{len(theirs.output)} bytes", f"{len(ours.output)} bytes"]])

    collections = [line for line in traced.errors.splitlines() if STATS_LINE.search(line)]
    print(f"\n  GC_PRINT_STATS=1 LD_LIBRARY_PATH={os.path.relpath(args.ours)} w3m -dump ...\n"
          f"  tells of {len(collections)} collections; the last ones:")
    for line in collections[-3:]:
        print("    " + line)

    if not collections:
        sys.exit("demo: w3m on Gleaner never collected")
    if not theirs.output == ours.output == traced.output:
        sys.exit("demo: the two renderings differ")
    print("\n  The two renderings are equal, byte for byte.")


def main():
    parser = argparse.ArgumentParser()
    for name in ("--bh", "--ours", "--theirs"):
        parser.add_argument(name, required=True, type=lambda text: str(pathlib.Path(text).resolve()))
    args = parser.parse_args()
    show_benchmark(args)
    show_w3m(args)


if __name__ == "__main__":
    main()
