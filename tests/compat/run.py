#!/usr/bin/env python3
"""Runs Debian's clients of libgc alternately on Debian's libgc and on Gleaner and compares them.

Every client runs unmodified; LD_LIBRARY_PATH alone chooses the library. Each workload of clients.py
runs first under the loader's debugging output, which must name the intended libgc.so.1 and no other,
then once in each --mode on Gleaner, then --runs times on each side, turn by turn. All runs of a
workload, on both sides, must give the same exit status, standard output, standard error and output
files, byte by byte, but for what the workload's `normalise` names. Lazily bound clients also run
once with LD_BIND_NOW=1 on Gleaner.

Times, of the clock and of the processors, and peak resident sets are medians. With --floor each turn
has a third run, on Gleaner with collection off, and the table says what the collections of both
libraries take beyond it. The exit status is 1 if a workload failed, else 77 if
nothing was installed that could have run, else 0; a slow or big client is no failure.
"""

import argparse
import difflib
import glob
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from clients import CLIENTS

HERE = os.path.dirname(os.path.abspath(__file__))
LIBGC = "libgc"
GLEANER = "gleaner"
FLOOR = "floor"  # Gleaner that never collects.
SHOWN_LINES = 20
SKIPPED = 77
# Modes, and the environments that ask for them, whatever a collection would take, and whether it pays
# or not: else short runs have none.
CONCURRENT = {"GC_ENABLE_INCREMENTAL": "1", "GLEANER_SHORT_PAUSE": "0"}
MODES = {
    "concurrent": CONCURRENT,
    "mprotect": {**CONCURRENT, "GLEANER_WRITE_TRACKING": "mprotect"},
    "generational": {"GLEANER_GENERATIONAL": "2"},
}
CLEAR = "\r\033[K"  # of a terminal: the line that shows what is running


class RunFailed(Exception):
    pass


@dataclass
class Run:
    seconds: float
    processor: float  # Seconds.
    rss_mb: float
    outcome: dict  # What must be equal: name -> bytes.
    collections: int = 0
    concurrent: int = 0  # Of these, those that marked concurrently.
    minor: int = 0  # Of these, those of young objects alone.


class Machine:
    """Runs commands in a scratch directory whose path is the same for both sides."""

    def __init__(self, options, scratch):
        self.measure = os.path.abspath(options.measure)
        self.ours_set = dict(pair.split("=", 1) for pair in options.set)
        ours = os.path.abspath(options.ours)
        self.libraries = {LIBGC: os.path.abspath(options.theirs), GLEANER: ours, FLOOR: ours}
        self.timeout = options.timeout
        self.scratch = scratch
        self.run_directory = os.path.join(scratch, "run")
        self.prepared = os.path.join(scratch, "prepared")

    def environment(self, library, extra):
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith(("GC_", "LD_", "GLEANER_", "LC_", "GUILE_", "ECL",
                                              "GLIBC_TUNABLES", "MALLOC_"))}
        environment.update(LANG="C.UTF-8", LC_ALL="C.UTF-8", TZ="UTC", TERM="dumb",
                           HOME=self.run_directory, LD_LIBRARY_PATH=self.libraries[library])
        environment.pop("DISPLAY", None)
        if library == GLEANER:
            environment.update(self.ours_set)
        if library == FLOOR:
            environment["GC_DONT_GC"] = "1"
        environment.update(extra)
        return environment

    def expand(self, words, client):
        names = {"input": os.path.join(HERE, client.name.split(":")[0]), "prepared": self.prepared}
        return [word.format(**names) for word in words]

    def prepare(self, client):
        """Makes what the workload needs, on Debian's libgc."""
        shutil.rmtree(self.prepared, ignore_errors=True)
        os.mkdir(self.prepared)
        for command in client.prepare:
            self.execute(client, command, LIBGC, self.prepared, {}, check=True)

    def execute(self, client, command, library, directory, extra, check=False):
        """One command; returns (seconds, processor, rss_mb, status, stdout, stderr)."""
        result = os.path.join(self.scratch, "result")
        argv = self.expand(command, client)
        environment = self.environment(library, {**client.environment, **extra})
        with open(os.path.join(self.scratch, "stdout"), "w+b") as out, \
                open(os.path.join(self.scratch, "stderr"), "w+b") as err:
            # An output of its own, not a pipe: who reads late must not slow the client down.
            process = subprocess.Popen([self.measure, result] + argv, env=environment, cwd=directory,
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       start_new_session=True)
            try:
                process.wait(self.timeout)
            except subprocess.TimeoutExpired:
                raise RunFailed(f"on {library}: still running after {self.timeout} s") from None
            finally:
                # Whatever the client left behind ends with it.
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
            out.seek(0)
            err.seek(0)
            output, errors = out.read(), err.read()
        with open(result, encoding="ascii") as file:
            seconds, processor, rss_kb, status = file.read().split()
        if check and status != "0":
            raise RunFailed(f"{' '.join(argv)}: exit status {status}\n{errors.decode(errors='replace')}")
        return float(seconds), float(processor), int(rss_kb) / 1000, status, output, errors

    def run(self, client, library, extra):
        shutil.rmtree(self.run_directory, ignore_errors=True)
        os.mkdir(self.run_directory)
        seconds, processor, rss_mb, status, output, errors = self.execute(
            client, client.command, library, self.run_directory, extra)
        outcome = {"exit status": status.encode(), "standard output": output,
                   "standard error": errors}
        for name in client.outputs:
            path = os.path.join(self.run_directory, name)
            if not os.path.exists(path):
                raise RunFailed(f"on {library}: no {name} was written; exit status {status}\n"
                                + errors.decode(errors="replace")[-2000:])
            with open(path, "rb") as file:
                outcome[name] = file.read()
        for name in outcome:
            for pattern, replacement in client.normalise:
                outcome[name] = re.sub(pattern, replacement, outcome[name], flags=re.MULTILINE)
        return Run(seconds, processor, rss_mb, outcome)

    def observed_run(self, client, library, more={}):
        """A run that also checks which library was loaded, and counts its collections."""
        notes = os.path.join(self.scratch, "notes")
        shutil.rmtree(notes, ignore_errors=True)
        os.mkdir(notes)
        run = self.run(client, library, {
            "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": os.path.join(notes, "ld"),
            "GC_PRINT_STATS": "1", "GC_LOG_FILE": os.path.join(notes, "gc.log"), **more})
        loaded = set()
        for path in glob.glob(os.path.join(notes, "ld.*")):
            with open(path, encoding="utf-8", errors="replace") as file:
                loaded.update(re.findall(r"calling init: (\S*/libgc\.so\.1\S*)", file.read()))
        wanted = os.path.join(self.libraries[library], "libgc.so.1")
        if {os.path.realpath(path) for path in loaded} != {os.path.realpath(wanted)}:
            raise RunFailed(f"on {library}: loaded {sorted(loaded) or 'no libgc.so.1'}, not {wanted}")
        log = os.path.join(notes, "gc.log")
        if os.path.exists(log):
            with open(log, encoding="utf-8", errors="replace") as file:
                text = file.read()
            run.collections = len(re.findall(r"^(?:Complete collection took|gleaner: gc \d+ )", text,
                                             re.MULTILINE))
            run.concurrent = len(re.findall(r"^gleaner: gc .*, (?:concurrent|overrun)$",
                                            text, re.MULTILINE))
            run.minor = len(re.findall("^gleaner: gc .*, minor$", text, re.MULTILINE))
        return run


def difference(expected, actual, what):
    a, b = (text.decode(errors="replace").splitlines() for text in (expected, actual))
    lines = list(difflib.unified_diff(a, b, f"{what}, libgc", f"{what}, then", lineterm="", n=1))
    more = [f"... {len(lines) - SHOWN_LINES} more lines"] if len(lines) > SHOWN_LINES else []
    return "\n".join([line[:200] for line in lines[:SHOWN_LINES]] + more)


def compare(expected, actual, where):
    differing = [f"{where}: {name} differs\n{difference(text, actual.outcome[name], name)}"
                 for name, text in expected.outcome.items() if actual.outcome[name] != text]
    if differing:
        raise RunFailed("\n".join(differing))


class Result:
    """The runs of one workload."""

    def __init__(self, client):
        self.client = client
        self.runs = {LIBGC: [], GLEANER: [], FLOOR: []}
        self.collections = {}

    def seconds(self, library):
        return statistics.median(run.seconds for run in self.runs[library])

    def processor(self, library):
        return statistics.median(run.processor for run in self.runs[library])

    def rss(self, library):
        return statistics.median(run.rss_mb for run in self.runs[library])

    def speedup(self):
        return self.seconds(LIBGC) / self.seconds(GLEANER)

    def growth(self):
        return self.rss(GLEANER) / self.rss(LIBGC)

    def cells(self):
        def digits(number):
            return f"{number:.0f}" if number >= 100 else f"{number:.3g}"
        processor = [digits(self.processor(library)) for library in (LIBGC, GLEANER, FLOOR)
                     if self.runs[library]]
        return [self.client.name, self.client.what, digits(self.seconds(LIBGC)),
                digits(self.seconds(GLEANER)), f"{self.speedup():.2f}", " / ".join(processor),
                digits(self.rss(LIBGC)), digits(self.rss(GLEANER)), f"{self.growth():.2f}",
                f"{self.collections[LIBGC]} / {self.collections[GLEANER]}"]


HEADER = ["client", "what it does", "libgc s", "Gleaner s", "libgc / Gleaner", "processor s",
          "libgc MB", "Gleaner MB", "Gleaner / libgc", "collections"]


def test(client, machine, options):
    """All runs of one workload. Raises RunFailed."""
    def show(what):
        if sys.stderr.isatty():
            print(f"{CLEAR}{client.name}: {what}", end="", file=sys.stderr, flush=True)
    result = Result(client)
    show("preparing")
    machine.prepare(client)
    show("on libgc")
    expected = machine.observed_run(client, LIBGC)
    if expected.outcome["exit status"] != str(client.status).encode():
        raise RunFailed(f"on libgc: exit status {expected.outcome['exit status'].decode()}, not "
                        f"{client.status}\n" + expected.outcome["standard error"].decode()[-2000:])
    result.collections[LIBGC] = expected.collections
    show("on Gleaner")
    observed = machine.observed_run(client, GLEANER)
    compare(expected, observed, "on Gleaner")
    result.collections[GLEANER] = observed.collections
    if client.lazily_bound:
        show("bound at once")
        compare(expected, machine.run(client, GLEANER, {"LD_BIND_NOW": "1"}),
                "on Gleaner with LD_BIND_NOW=1")
    # So that clients of all sizes come to some.
    every = {"GLEANER_COLLECT_EVERY":
             client.collect_every or f"{max(256, int(observed.rss_mb * 1000 / 64))}k"}
    for mode in options.mode:
        show(mode)
        observed = machine.observed_run(client, GLEANER, {**MODES[mode], **every})
        compare(expected, observed, f"on Gleaner, {mode}")
        if (observed.minor if mode == "generational" else observed.concurrent) == 0:
            raise RunFailed(f"on Gleaner, {mode}: none of {observed.collections} collections is in "
                            "that mode")
    for number in range(options.runs):
        for library in (LIBGC, GLEANER, FLOOR) if options.floor else (LIBGC, GLEANER):
            show(f"run {number + 1} on {library}")
            run = machine.run(client, library, {})
            if library != FLOOR:  # What collections release cannot be the same.
                compare(expected, run, f"run {number + 1} on {library}")
            result.runs[library].append(run)
    return result


def print_table(results, markdown):
    lines = [HEADER] + [result.cells() for result in results]
    if not markdown:
        lines = [line[:1] + line[2:] for line in lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for number, line in enumerate(lines):
        cells = [cell.ljust(width) for cell, width in zip(line, widths)]
        print("| " + " | ".join(cells) + " |" if markdown else "  ".join(cells).rstrip())
        if markdown and number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    mean = math.exp(statistics.fmean(math.log(result.speedup()) for result in results))
    print(f"\n{len(results)} workloads; libgc / Gleaner by time: geometric mean {mean:.2f}, least "
          f"{min(result.speedup() for result in results):.2f}; Gleaner / libgc by memory: geometric "
          f"mean {math.exp(statistics.fmean(math.log(result.growth()) for result in results)):.2f}, "
          f"most {max(result.growth() for result in results):.2f}.")
    if all(result.runs[FLOOR] for result in results):
        libgc, ours, floor = (sum(result.processor(library) for result in results)
                              for library in (LIBGC, GLEANER, FLOOR))
        print(f"Processor time in all: libgc {libgc:.1f} s, Gleaner {ours:.1f} s, without collection "
              f"{floor:.1f} s; of libgc's collections Gleaner's take "
              f"{(ours - floor) / (libgc - floor):.2f}.")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", metavar="DIR", help="directory of our libgc.so.1")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="environment of the runs on our library; may be repeated")
    parser.add_argument("--mode", action="append", default=[], choices=MODES,
                        help="run once in this mode, too, which must have such collections; may be "
                        "repeated")
    parser.add_argument("--measure", metavar="FILE", help="the program built from measure.c")
    parser.add_argument("--theirs", metavar="DIR", default="/usr/lib/x86_64-linux-gnu",
                        help="directory of the libgc.so.1 to compare with (%(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each side (%(default)s)")
    parser.add_argument("--floor", action="store_true",
                        help="also run each workload on our library with collection off")
    parser.add_argument("--only", metavar="REGEX", default="", help="only clients whose name matches")
    parser.add_argument("--quick", action="store_true", help="only the short workloads")
    parser.add_argument("--timeout", type=float, default=180, metavar="SECONDS",
                        help="a run that takes longer has failed (%(default)s)")
    parser.add_argument("--markdown", action="store_true", help="the table in Markdown")
    parser.add_argument("--list", action="store_true", help="print the clients and exit")
    parser.add_argument("--packages", action="store_true",
                        help="print the Debian packages that the clients need and exit")
    options = parser.parse_args()
    if options.list or options.packages:
        return options
    for name in ("ours", "measure"):
        if not getattr(options, name):
            parser.error(f"--{name} is needed")
    for name in ("ours", "theirs"):
        if not os.path.exists(os.path.join(getattr(options, name), "libgc.so.1")):
            parser.error(f"--{name}: there is no libgc.so.1 in {getattr(options, name)}")
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    return options


def main():
    options = parse_arguments()
    chosen = [client for client in CLIENTS if re.search(options.only, client.name)
              and (client.quick or not options.quick)]
    if not chosen:
        sys.exit(f"no client matches {options.only!r}; --list shows them")
    if options.list:
        for client in chosen:
            print(f"{client.name}: {client.what}")
        return 0
    if options.packages:
        print("\n".join(sorted({package for client in chosen for package in client.packages})))
        return 0

    results, failures, absent = [], [], []
    with tempfile.TemporaryDirectory(prefix="gleaner-compat-") as scratch:
        machine = Machine(options, scratch)
        for client in chosen:
            missing = client.missing()
            if missing:
                absent.append(f"{client.name} ({', '.join(missing)})")
                continue
            try:
                results.append(test(client, machine, options))
                done = results[-1]
                print(f"{CLEAR if sys.stderr.isatty() else ''}{client.name}: equal; "
                      f"{done.speedup():.2f} times as fast, {done.growth():.2f} of the memory",
                      file=sys.stderr, flush=True)
            except RunFailed as failure:
                failures.append(f"{client.name}: {failure}")
                print(f"FAILED: {failures[-1]}\n", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(CLEAR, end="", file=sys.stderr, flush=True)
    if results:
        print_table(results, options.markdown)
    if absent:
        print(f"Not installed: {'; '.join(absent)}.")
    if failures:
        print(f"{len(failures)} FAILED: {', '.join(f.split(': ')[0] for f in failures)}")
        return 1
    return 0 if results else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
