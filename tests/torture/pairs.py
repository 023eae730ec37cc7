"""Prints rows of settings in which each value of a setting meets each value of every other.

A row is as in matrix.cmake: name|objects|environment. The rows are made greedily, each the best of
some random ones, and are the same each time; they are numbered in each mode.
"""
import itertools
import random

CYCLES = "GLEANER_CONCURRENT=1 GLEANER_SHORT_PAUSE=0"
# Setting: its values. The mode names the row.
SETTINGS = {
    "mode": ["GLEANER_MODE=stop", "GLEANER_MODE=stop GLEANER_CONCURRENT_SWEEP=1",
             "GLEANER_AUTO_AFTER=0 GLEANER_PAUSE_GOAL=0.1", CYCLES, "GLEANER_GENERATIONAL=2",
             f"GLEANER_GENERATIONAL=2 {CYCLES} GC_FULL_FREQUENCY=2"],
    "markers": ["GLEANER_MARKERS=1", "GLEANER_MARKERS=2", "GLEANER_MARKERS=4"],
    "schedule": ["", "GLEANER_MARK_BALANCE=0", "GLEANER_MARK_SPLIT=0", "GLEANER_TERMINATION=counter"],
    "tracking": ["", "GLEANER_WRITE_TRACKING=mprotect", "GLEANER_WRITE_TRACKING=cards"],
    "policy": ["", "GLEANER_POLICY=al", "GLEANER_POLICY=ps"],
    "often": ["GLEANER_COLLECT_EVERY=128k", "GLEANER_COLLECT_EVERY=1m", "GLEANER_COLLECT_EVERY=4m"],
    "pointers": ["", "GLEANER_ALL_INTERIOR_POINTERS=0", "GLEANER_PAD_OBJECTS=1"],
    "large": ["", "GLEANER_TREE_FIT=tree"],
    "memory": ["", "GLEANER_HUGE_PAGES=0", "GLEANER_RESERVE=128m"],
    "batch": ["", "GLEANER_MARK_BATCH=16"],
    "verify": ["", "GLEANER_MARK_VERIFY=1"],
    "thread": ["", "GLEANER_CYCLE_THREAD=0"],
    "slice": ["", "GLEANER_CYCLE_SLICE=32k"],
}
NAMES = list(SETTINGS)
MODES = ["stop", "sweep_concurrent", "auto", "concurrent", "generational", "generational_concurrent"]


def pairs_of(row):
    """The pairs of (setting, value) in a row, which has the index of a value for each setting."""
    return {((i, row[i]), (j, row[j])) for i, j in itertools.combinations(range(len(row)), 2)}


def all_pairs():
    pairs = set()
    for i, j in itertools.combinations(range(len(NAMES)), 2):
        for a in range(len(SETTINGS[NAMES[i]])):
            for b in range(len(SETTINGS[NAMES[j]])):
                pairs.add(((i, a), (j, b)))
    return pairs


def make_rows():
    chance = random.Random(1)
    left = all_pairs()
    rows = []
    while left:
        first = chance.choice(sorted(left))
        tries = []
        for _ in range(1000):
            row = [chance.randrange(len(SETTINGS[name])) for name in NAMES]
            for setting, value in first:
                row[setting] = value
            tries.append(row)
        rows.append(max(tries, key=lambda tried: len(pairs_of(tried) & left)))
        left -= pairs_of(rows[-1])
    return sorted(rows)


for mode, rows_of_mode in itertools.groupby(make_rows(), key=lambda made: MODES[made[0]]):
    for number, row in enumerate(rows_of_mode, 1):
        values = [SETTINGS[name][value] for name, value in zip(NAMES, row)]
        print(f"{mode}_{number}|60|{' '.join(filter(None, values))}")
