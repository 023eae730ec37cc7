#!/usr/bin/env python3
"""docs/reference/statistics.md has a table for each structure of figures of gleaner.h, with a row for
each field, in the order of the header.

usage: statistics.py SOURCE_DIR BUILD_DIR
"""

import pathlib
import re
import sys

SOURCE = pathlib.Path(sys.argv[1]).resolve()
PAGE = "docs/reference/statistics.md"
# Structures that the program fills in.
INPUTS = {"gleaner_arena_options", "gleaner_placement"}

header = (SOURCE / "include/gleaner/gleaner.h").read_text()
document = (SOURCE / PAGE).read_text()

structures = {}
for name, body in re.findall(r"^struct (gleaner_\w+) \{\n(.*?)^\};", header, re.M | re.S):
    if name not in INPUTS:
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        structures[name] = re.findall(r"(\w+)(?:\[\d+\])?;", body)
tables = {name: re.findall(r"^\| `(\w+)` \|", body, re.M) for name, body in
          re.findall(r"^## `(gleaner_\w+)`\n(.*?)(?=^## |\Z)", document, re.M | re.S)}
functions = set(re.findall(r"`(gleaner_get_\w+|gleaner_\w+_get_\w+)`", document))

problems = [f"{PAGE} has no {name}" for name in structures if name not in tables]
problems += [f"gleaner.h has no struct {name}" for name in tables if name not in structures]
problems += [f"{name}: gleaner.h has {structures[name]}, {PAGE} {tables[name]}"
             for name in structures if name in tables and structures[name] != tables[name]]
problems += [f"gleaner.h has no {name}" for name in sorted(functions)
             if not re.search(rf"\b{name}\(", header)]
print(f"{len(structures)} structures, {sum(map(len, structures.values()))} fields")
if problems or len(structures) < 5:
    sys.exit("\n".join(problems) or "too few structures were found")
