#!/usr/bin/env python3
"""The table of docs/design/invariants.md of what ThreadSanitizer runs: each row names tests of
the preset tsan or says why there are none, tests that exist cover what is not seen, and all tests of
the preset are in it.

usage: sanitizer.py SOURCE_DIR BUILD_DIR
"""

import fnmatch
import pathlib
import re
import sys

from known_tests import KnownTests

SOURCE, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])

tests = KnownTests(SOURCE, BUILD)
under_tsan = {name for name in tests.names if name.startswith("threads.")}
text = (SOURCE / "docs/design/invariants.md").read_text()
section = re.search(r"^## What ThreadSanitizer runs\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]

problems, named, rows = [], set(), 0
for line in section.splitlines():
    if not line.startswith("| ") or line.startswith("| protocol "):
        continue
    rows += 1
    protocol, run_by, unseen, covered_by = (cell.strip() for cell in line[1:-1].split("|"))
    runs = re.findall(r"`([^`]+)`", run_by)
    covers = re.findall(r"`([^`]+)`", covered_by)
    if not runs and not re.match(r"none: \S", run_by):
        problems.append(f"{protocol}: names no test and no reason")
    if unseen and not covers:
        problems.append(f"{protocol}: nothing covers what is not seen")
    for name in runs:
        if name.startswith("threads."):
            named |= set(fnmatch.filter(under_tsan, name))
    problems += [f"{protocol}: there is no test {name}" for name in runs + covers
                 if not tests.has(name)]
problems += [f"{name} is not in the table" for name in sorted(under_tsan - named)]
print(f"{rows} protocols, {len(under_tsan)} tests")
if problems or rows < 10:
    sys.exit("\n".join(problems) or "no table found")
