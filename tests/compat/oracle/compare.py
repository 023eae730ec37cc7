#!/usr/bin/env python3
"""Runs the oracle with two libraries and compares what it prints, line by line.

    compare.py ORACLE OURS THEIRS DIFFERENCES

OURS and THEIRS are the folders of the two libgc.so.1; DIFFERENCES lists the names whose values may
differ, with the reason. A name may end in * for a series. It is an error if anything else differs,
and also if a listed name does not differ any more.
"""
import os
import subprocess
import sys


def ask(oracle, folder):
    """The answers with the library in `folder`: a dict from name to value."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GC_", "GLEANER_"))}
    environment["LD_LIBRARY_PATH"] = folder
    result = subprocess.run([oracle], env=environment, stdout=subprocess.PIPE, text=True,
                            timeout=240, check=False)
    if result.returncode != 0:
        sys.exit(f"{oracle} with {folder}: exit status {result.returncode}")
    answers = {}
    for line in result.stdout.splitlines():
        name, separator, value = line.partition(" = ")
        if not separator or name in answers:
            sys.exit(f"{oracle} with {folder}: unexpected or repeated line: {line}")
        answers[name] = value
    return answers


def read_differences(path):
    """The listed names, each with its reason."""
    listed = {}
    reason = ""
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.rstrip("\n")
            if line.startswith("#"):
                reason = line.lstrip("# ")
            elif line:
                if not reason or line in listed:
                    sys.exit(f"{path}: {line}: without a reason, or listed twice")
                listed[line] = reason
    return listed


def matches(pattern, name):
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def main():
    oracle, ours_folder, theirs_folder, differences = sys.argv[1:]
    ours, theirs = ask(oracle, ours_folder), ask(oracle, theirs_folder)
    listed = read_differences(differences)
    used = set()
    errors = 0
    for name in list(theirs) + [n for n in ours if n not in theirs]:
        if ours.get(name) == theirs.get(name):
            continue
        allowed = [p for p in listed if matches(p, name)]
        used.update(allowed)
        if not allowed:
            errors += 1
            print(f"{name}: {ours.get(name)} on ours, {theirs.get(name)} on theirs")
    for pattern in listed:
        if pattern not in used:
            errors += 1
            print(f"{pattern}: is listed and does not differ")
    print(f"{len(theirs)} answers, {errors} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
