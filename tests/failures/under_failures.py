#!/usr/bin/env python3
"""Runs a program while system calls of the library fail, and looks how it ends.

usage: under_failures.py [--seed N] [--seeds N | --seconds N] [--rate N]... [--mode SETTINGS]...
                         [--preload LIBRARY]... [--shows REGEX] -- PROGRAM [ARGUMENT]...
       under_failures.py [option]... --each -- PROGRAM...

Each seed is tried with each rate (GLEANER_FAILURES; 100 and 1000) and each mode (variables of the
environment, separated by spaces), in turn. A program ends with status 0, or by a message that
docs/design/reliability.md has: the table there of messages that end a program. With --each the
programs run one after the other, and checks of one may fail after a message of the table of what is
denied there.
At least half of the runs reach their end, with --each at least one: what fails at the start of one
program does so in all. With --shows at least one run of each mode prints a line that matches.

Without --seed one is chosen. What fails is printed as a command that repeats it.
"""

import argparse
import itertools
import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 180  # seconds for a program: more is a hang


def documented(title):
    text = (SOURCE / "docs/design/reliability.md").read_text()
    section = re.search(rf"^#+ {title}\n(.*?)(?=^#|\Z)", text, re.M | re.S)[1]
    messages = re.findall(r"^\| `([^`]+)` \|", section, re.M)
    assert messages, f"docs/design/reliability.md has no table of messages: {title}"
    return messages


ENDS = documented("Messages that end a program")
DENIALS = documented("Messages that deny something")


def environment(seed, rate, mode, preload):
    variables = {"GLEANER_FAILURES": str(rate), "GLEANER_FAILURE_SEED": str(seed)}
    variables.update(setting.split("=", 1) for setting in mode.split())
    if preload:
        variables["LD_PRELOAD"] = ":".join(preload)
    return variables


class Runs:
    def __init__(self, arguments):
        self.arguments = arguments
        self.finished = self.ended = self.denied = 0
        self.failed = []
        self.shown = {mode: not arguments.shows for mode in arguments.mode}

    def run(self, program, seed, rate, mode):
        variables = environment(seed, rate, mode, self.arguments.preload)
        clean = {key: value for key, value in os.environ.items()
                 if not key.startswith(("GLEANER_", "GC_", "LD_PRELOAD"))}
        # A group of its own, with the children that it has forked.
        process = subprocess.Popen(program, env={**clean, **variables},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = process.communicate(timeout=PATIENCE)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGABRT)
            out, err = process.communicate()
            status = "a hang"
        out, err = out.decode(errors="replace"), err.decode(errors="replace")
        if self.arguments.shows and re.search(self.arguments.shows, out, re.M):
            self.shown[mode] = True
        if status == 0:
            self.finished += 1
        elif status in (1, -signal.SIGABRT) and any(f"gleaner: fatal: {end}" in err for end in ENDS):
            self.ended += 1
        elif self.arguments.each and status == 1 and any(
                re.search(rf"^gleaner: .*{re.escape(denial)}", err, re.M) for denial in DENIALS):
            self.denied += 1
        else:
            command = shlex.join([f"{key}={value}" for key, value in variables.items()] +
                                 program)
            self.failed.append(f"status {status}: env {command}")
            print(f"{self.failed[-1]}\n{out[-2000:]}\n{err[-4000:]}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.randrange(100_000))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--rate", type=int, action="append")
    parser.add_argument("--mode", action="append")
    parser.add_argument("--preload", action="append", default=[])
    parser.add_argument("--shows")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    arguments.rate = arguments.rate or [100, 1000]
    arguments.mode = arguments.mode or [""]
    runs = Runs(arguments)
    end = time.monotonic() + (arguments.seconds or 0)
    seed = arguments.seed
    print(f"seed {seed}", flush=True)
    programs = [[program] for program in arguments.program] if arguments.each else [arguments.program]
    while seed < arguments.seed + arguments.seeds or time.monotonic() < end:
        for rate, mode, program in itertools.product(arguments.rate, arguments.mode, programs):
            runs.run(program, seed, rate, mode)
        seed += 1
    print(f"{runs.finished} reached their end, {runs.ended} ended by a message, "
          f"{runs.denied} were denied something, {len(runs.failed)} failed")
    problems = runs.failed
    if runs.finished < (1 if arguments.each else runs.ended):
        problems.append("most have ended early")
    problems += [f"never shown with '{mode}': {arguments.shows}"
                 for mode, shown in runs.shown.items() if not shown]
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
