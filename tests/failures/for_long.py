#!/usr/bin/env python3
"""Runs each test that runs under_failures.py for as long as it is told to, from a seed of its own.

usage: for_long.py --build FOLDER --seconds N [--tests REGEX]

The tests are those that ctest has of that name, `failures.*`.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--tests", default=r"^failures\.")
    arguments = parser.parse_args()
    listing = subprocess.run(["ctest", "--test-dir", arguments.build, "--show-only=json-v1", "-R",
                              arguments.tests], check=True, capture_output=True, text=True).stdout
    tests = {test["name"]: test["command"] for test in json.loads(listing)["tests"]}
    if not tests:
        sys.exit(f"no test of that name in {arguments.build}: {arguments.tests}")
    failed = []
    for name, command in tests.items():
        options = command.index("--")
        seed = random.randrange(100_000)
        print(f"== failures: {name}", flush=True)
        run = [*command[:options], "--seed", str(seed), "--seconds", str(arguments.seconds),
               *command[options:]]
        if subprocess.run(run, cwd=arguments.build).returncode != 0:
            failed.append(f"{name}, seed {seed}")
    if failed:
        sys.exit("== failures: found by\n" + "\n".join(failed))
    print(f"== failures: no finding in {len(tests)} tests of {arguments.seconds} s")


if __name__ == "__main__":
    main()
