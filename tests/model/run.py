#!/usr/bin/env python3
"""Checks the models of the protocols with Spin: every state within their bounds.

usage: run.py CASE [--cc COMPILER] [--spin SPIN]
       run.py --list

A case is a model with flags. One that must hold fails if an assertion is violated in any state, or
if the search is cut short; a seeded mistake fails if no assertion is violated.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MEMORY_MIB = 3000
DEPTH = 100000

CYCLE, GENERATIONAL, STOP = "concurrent_cycle.pml", "generational.pml", "stop.pml"
# Name: model, flags, whether it must hold.
CASES = {
    "cycle": (CYCLE, [], True),
    "cycle_with_cards": (CYCLE, ["CARDS", "OPERATIONS=5"], True),
    "generational": (GENERATIONAL, [], True),
    "stop": (STOP, [], True),
    # No mistakes: the cycle is safe without black allocation, as long as the colour is right after
    # the flip; and with small slots that wait for the end of the cycle.
    "variant.white_while_marking": (CYCLE, ["WHITE_WHILE_MARKING", "OPERATIONS=6"], True),
    "variant.small_slots_wait": (CYCLE, ["SMALL_SLOTS_WAIT", "OPERATIONS=6"], True),
    # Seeded mistakes.
    "finds.clear_after_scan": (CYCLE, ["CLEAR_AFTER_SCAN"], False),
    "finds.white_allocation": (CYCLE, ["WHITE_ALLOCATION"], False),
    "finds.no_last_roots": (CYCLE, ["NO_LAST_ROOTS", "OPERATIONS=5"], False),
    "finds.no_last_fetch": (CYCLE, ["NO_LAST_FETCH", "OPERATIONS=5"], False),
    "finds.new_pages_are_clean": (CYCLE, ["NEW_PAGES_ARE_CLEAN"], False),
    "finds.free_at_once": (CYCLE, ["FREE_AT_ONCE"], False),
    "finds.arm_late": (CYCLE, ["ARM_LATE"], False),
    "finds.allocate_unswept": (CYCLE, ["ALLOCATE_UNSWEPT"], False),
    "finds.runs_stay_hidden": (CYCLE, ["RUNS_STAY_HIDDEN"], False),
    "finds.card_first": (CYCLE, ["CARDS", "CARD_FIRST", "OPERATIONS=5"], False),
    "finds.card_if_clean": (CYCLE, ["CARDS", "CARD_IF_CLEAN", "OPERATIONS=5"], False),
    "finds.value_is_dead": (CYCLE, ["CARDS", "VALUE_IS_DEAD", "OPERATIONS=5"], False),
    "finds.no_remembered": (GENERATIONAL, ["NO_REMEMBERED"], False),
    "finds.late_clear": (GENERATIONAL, ["LATE_CLEAR"], False),
    "finds.same_young": (GENERATIONAL, ["SAME_YOUNG"], False),
    "finds.promoted_unarmed": (GENERATIONAL, ["PROMOTED_UNARMED"], False),
    "finds.old_alone": (GENERATIONAL, ["OLD_ALONE"], False),
    "finds.run_on": (STOP, ["RUN_ON"], False),
    "finds.count_first": (STOP, ["COUNT_FIRST"], False),
    "finds.any_stop": (STOP, ["ANY_STOP"], False),
    "finds.no_signal": (STOP, ["NO_SIGNAL"], False),
}


def run(command, directory):
    result = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, check=False)
    return result.returncode, result.stdout


def figure(pattern, text):
    match = re.search(pattern, text)
    return match[1] if match else None


def check(case, spin, compiler):
    model, flags, must_hold = CASES[case]
    with tempfile.TemporaryDirectory(prefix="gleaner_model_") as directory:
        for command in ([spin, "-a", *(f"-D{flag}" for flag in flags), str(HERE / model)],
                        [compiler, "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MIB}",
                         "-o", "pan", "pan.c"]):
            status, output = run(command, directory)
            if status != 0:
                return f"{' '.join(command)} failed:\n{output}"
        # A blocked end is none here: operations run out. The depth bounds the search's stack only;
        # -b makes it an error to pass it.
        status, output = run(["./pan", "-E", "-b", f"-m{DEPTH}", "-w22"], directory)
        states = figure(r"(\d[\d.e+]*) states, stored", output)
        seconds = figure(r"elapsed time ([\d.]+)", output)
        if states is None or status != 0:
            return f"the search broke off:\n{output}"
        print(f"{case}: {states} states, {seconds} s")
        violated = figure(r"pan:\d+: assertion violated (.*)", output)
        if not must_hold:
            if violated is None:
                return f"the mistake {flags[-1] if len(flags) == 1 else flags} was not found:\n{output}"
            print(f"found: {violated}")
            return None
        if violated is not None:
            _, trail = run(["./pan", "-E", "-r", "-S"], directory)
            return f"violated: {violated}\n{trail[-4000:]}"
        if "Search not completed" in output or not re.search(r"errors: 0\b", output):
            return f"not every state was seen:\n{output}"
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="?", choices=CASES)
    parser.add_argument("--list", action="store_true", help="print the cases, one a line")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--spin", default="spin")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(CASES))
        return 0
    if arguments.case is None:
        parser.error("which case?")
    os.nice(19 - os.nice(0))
    problem = check(arguments.case, arguments.spin, arguments.cc)
    if problem is not None:
        print(f"FAILED {arguments.case}: {problem}", file=sys.stderr)
    return 0 if problem is None else 1


if __name__ == "__main__":
    sys.exit(main())
