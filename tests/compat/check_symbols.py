#!/usr/bin/env python3
"""Compares the dynamic symbols of our libgc.so.1 with those of Debian's, listed in libgc.symbols.

usage: check_symbols.py LIBRARY LIST

All of the list must be there, functions as functions and data objects with the same sizes, since
programs hold copies of them (copy relocations), each with default visibility and without a version.
What is exported beyond the list must be of the collector's name spaces, or one of the C library's
functions that runtime/process/limits.cc, runtime/start/fork_order.cc and platform/os/filters.cc replace.
"""

import re
import subprocess
import sys

OWN_NAMES = re.compile(r"(?:GC|gleaner)_[a-z0-9_]+$")
REPLACED = {"setrlimit", "setrlimit64", "prlimit", "prlimit64", "mlockall", "prctl", "syscall",
            "__register_atfork"}
TYPES = {"FUNC": "function", "OBJECT": "object"}


def exported(library):
    """name -> (type, size, visibility) of what the library defines."""
    text = subprocess.run(["readelf", "-W", "--dyn-syms", library], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    symbols = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit() or fields[6] == "UND":
            continue
        size, kind, visibility, name = int(fields[2], 0), fields[3], fields[5], fields[7]
        symbols[name] = (TYPES.get(kind, kind), size, visibility)
    return symbols


def listed(path):
    """(type, name, size or None) of every line."""
    with open(path, encoding="ascii") as file:
        for line in file:
            fields = line.split()
            if fields and fields[0] != "#":
                yield fields[0], fields[1], int(fields[2]) if len(fields) > 2 else None


def findings(library, path):
    symbols = exported(library)
    for kind, name, size in listed(path):
        if name not in symbols:
            yield f"{name} is missing"
            continue
        actual_kind, actual_size, visibility = symbols[name]
        if actual_kind != kind:
            yield f"{name} is a {actual_kind}, not a {kind}"
        elif size is not None and actual_size != size:
            yield f"{name} has {actual_size} bytes, not {size}"
        if visibility != "DEFAULT":
            yield f"{name} has {visibility.lower()} visibility"
    for name in sorted(symbols):
        if not OWN_NAMES.match(name) and name not in REPLACED:
            yield f"{name} is exported"


def main():
    library, path = sys.argv[1:]
    found = list(findings(library, path))
    for finding in found:
        print(f"{library}: {finding}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
