#!/usr/bin/env python3
"""Every cell of the table of hazards in docs/design/reliability.md names a test that exists, or says
that there is none and why; every case of tests/hazards is in it, in the mode of its column.

usage: hazards.py SOURCE_DIR BUILD_DIR
"""

import pathlib
import re
import sys

from known_tests import KnownTests

SOURCE, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
MODES = ["stop", "auto", "concurrent", "generational", "malloc", "collecting"]

tests = KnownTests(SOURCE, BUILD)
problems, named, not_shown = [], set(), 0
PAGE = "docs/design/reliability.md"
text = (SOURCE / PAGE).read_text()
table = text.index("| hazard ")
for number, line in enumerate(text[table:text.index("\n\n", table)].splitlines(),
                              text.count("\n", 0, table) + 1):
    if not line.startswith("| ") or line.startswith("| hazard "):
        continue
    hazard, *cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
    if len(cells) != len(MODES):
        problems.append(f"{PAGE}:{number}: {len(cells)} cells, not {len(MODES)}")
    for mode, cell in zip(MODES, cells):
        place = f"{PAGE}:{number}: {mode}"
        if re.match(r"not shown: \S", cell):
            not_shown += 1
            continue
        names = re.findall(r"`([^`]+)`", cell)
        if not names:
            problems.append(f"{place}: names no test")
        for name in names:
            named.add(name)
            if not tests.has(name):
                problems.append(f"{place}: there is no test {name}")
            if name.startswith("hazards.") and not name.endswith("." + mode):
                problems.append(f"{place}: {name} is of another mode")

cases = re.findall(r'{"(\w+)", Of\w+}', (SOURCE / "tests/hazards/hazards.cc").read_text())
problems += [f"{PAGE}: no hazards.{case}.{mode}" for case in cases for mode in MODES
             if case != "nothing" and f"hazards.{case}.{mode}" not in named]
print(f"{len(cases)} cases, {len(named)} tests named, {not_shown} cells not shown")
if problems or len(cases) < 10:
    sys.exit("\n".join(problems) or "no cases found")
