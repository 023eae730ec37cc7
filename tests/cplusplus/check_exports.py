#!/usr/bin/env python3
"""Checks which names a library exports: the given ones, and no others.

usage: check_exports.py LIBRARY NAME...    NAME as in the symbol table, mangled
"""

import subprocess
import sys


def exports(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    return {line.split()[-1] for line in lines}


def main():
    library, *names = sys.argv[1:]
    actual, expected = exports(library), set(names)
    for name in sorted(expected - actual):
        print(f"{library} does not export {name}")
    for name in sorted(actual - expected):
        print(f"{library} exports {name}")
    return 1 if actual != expected else 0


if __name__ == "__main__":
    sys.exit(main())
