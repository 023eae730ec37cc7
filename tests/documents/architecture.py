#!/usr/bin/env python3
"""docs/architecture.md lists what there is: every header of the layers in its map, every function of
the calls upwards, every rank of a lock.

usage: architecture.py SOURCE_DIR
"""

import fnmatch
import pathlib
import re
import sys

SOURCE = pathlib.Path(sys.argv[1]).resolve()
FOLDERS = ("platform", "alloc", "gc", "runtime", "malloc", "record", "tools")
TEXT = (SOURCE / "docs/architecture.md").read_text()

problems = []


def section(title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)[1]


# The first column: `gc/roots.h`, `scan.h`: a name without a folder is in that of the one before.
patterns = []
for row in re.findall(r"^\| (`[^|]*) \|", section("Rooms"), re.M):
    folder = ""
    for name in re.findall(r"`([^`]+)`", row):
        folder, _, name = name.rpartition("/") if "/" in name else (folder, "", name)
        patterns.append(f"{folder}/{name}" if name else f"{folder}/*")

headers = [str(path.relative_to(SOURCE)) for folder in FOLDERS
           for path in sorted((SOURCE / folder).rglob("*.h"))]
problems += [f"the map has no {header}" for header in headers
             if header != "runtime/api/api.h"
             and not any(fnmatch.fnmatch(header, pattern) for pattern in patterns)]
for pattern in patterns:
    if not any(path.is_file() for path in SOURCE.glob(pattern)):
        problems.append(f"the map has {pattern}, which is not there")

for file, struct in (("alloc/hooks.h", "Hooks"), ("gc/world.h", "World")):
    body = re.search(rf"^struct {struct} {{\n(.*?)^}};", (SOURCE / file).read_text(), re.M | re.S)[1]
    functions = re.findall(r"^  [^/\n]*?\(\*(?:\(\*)?(\w+)\)", body, re.M)
    assert len(functions) >= 3, (struct, functions)
    problems += [f"no {name} of {struct}" for name in functions
                 if f"`{name}`" not in section("Calls upwards")]

ranks = re.findall(r"^  (k\w+) = (\d+),", re.search(
    r"^enum class LockRank.*?^};", (SOURCE / "platform/lock.h").read_text(), re.M | re.S)[0], re.M)
documented = [(name, rank) for rank, name in
              re.findall(r"^\| (\d+) \| `(k\w+)` \|", section("Locks"), re.M)]
if ranks != documented:
    problems.append(f"ranks of locks: {set(ranks) ^ set(documented)}")

print(f"{len(headers)} headers, {len(patterns)} names in the map, {len(ranks)} ranks")
if problems:
    sys.exit("\n".join(problems))
