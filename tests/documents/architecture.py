#!/usr/bin/env python3
"""docs/architecture.md lists what there is: every header of the layers in its map, and every source
that has none, every function of the calls upwards, every rank of a lock, which docs/invariants.md
lists, too. Each of its six paths names at most three files of code to open first.

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
# A source stands with the header of its name.
sources = [str(path.relative_to(SOURCE)) for folder in FOLDERS
           for path in sorted((SOURCE / folder).rglob("*.cc")) if not path.with_suffix(".h").exists()]
problems += [f"the map has no {name}" for name in headers + sources
             if name != "runtime/api/api.h"
             and not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
for pattern in patterns:
    if not any(path.is_file() for path in SOURCE.glob(pattern)):
        problems.append(f"the map has {pattern}, which is not there")

for file, struct in (("alloc/hooks.h", "Hooks"), ("gc/world.h", "World")):
    body = re.search(rf"^struct {struct} {{\n(.*?)^}};", (SOURCE / file).read_text(), re.M | re.S)[1]
    functions = re.findall(r"^  [^/\n]*?\(\*(?:\(\*)?(\w+)\)", body, re.M)
    assert len(functions) >= 3, (struct, functions)
    listed = set(re.findall(r"`([a-z_]+)`", re.search(
        rf"^\* `\w+::{struct}`(.*?)(?=^\* |^$)", section("Calls upwards"), re.M | re.S)[1]))
    listed -= {"g_hooks", "g_poll_bytes"}
    problems += [f"{struct}: {sorted(listed ^ set(functions))} in one of {file} and the calls upwards"
                 for _ in range(listed != set(functions))]

ranks = re.findall(r"^  (k\w+) = (\d+),", re.search(
    r"^enum class LockRank.*?^};", (SOURCE / "platform/lock.h").read_text(), re.M | re.S)[0], re.M)
documented = [(name, rank) for rank, name in
              re.findall(r"^\| (\d+) \| `(k\w+)` \|", section("Locks"), re.M)]
if ranks != documented:
    problems.append(f"ranks of locks: {set(ranks) ^ set(documented)}")
invariants = re.search(r"^## Lock ranks\n(.*?)(?=^## |\Z)",
                       (SOURCE / "docs/invariants.md").read_text(), re.M | re.S)[1]
in_prose = [(name, rank) for rank, name in re.findall(r"(\d+)\s+`(k\w+)`", invariants)]
if ranks != in_prose:
    problems.append(f"ranks of locks in docs/invariants.md: {set(ranks) ^ set(in_prose)}")

paths = re.split(r"^\*\*(.*?\?)\*\*", section("Six paths"), flags=re.M)
for question, answer in zip(paths[1::2], paths[2::2]):
    answer = re.sub(r"^\|.*$", "", answer, flags=re.M)  # a table is for reference
    files = {name for name in re.findall(r"`([\w/]+\.(?:h|cc|def))`", answer)
             if not name.startswith("malloc/")}
    if not files or len(files) > 3:
        problems.append(f"{question} {len(files)} files: {sorted(files)}")
    problems += [f"{question} there is no {name}" for name in files if not (SOURCE / name).is_file()]
if len(paths) != 13:
    problems.append(f"{len(paths) // 2} paths, not six")

print(f"{len(headers)} headers, {len(sources)} sources, {len(patterns)} names in the map, "
      f"{len(ranks)} ranks")
if problems:
    sys.exit("\n".join(problems))
