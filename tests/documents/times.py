#!/usr/bin/env python3
"""Every time that is a constant in gc/, alloc/ and platform/ is in the table "Times that are not
measured" of docs/design/policy.md, with its value and why no machine makes it wrong; and the table
has no others.

usage: times.py SOURCE_DIR
"""

import pathlib
import re
import sys

SOURCE = pathlib.Path(sys.argv[1]).resolve()
PAGE = "docs/design/policy.md"
HEADING = "## Times that are not measured"
CONSTANT = re.compile(r"\bconstexpr\s+[\w:]+\s+(k\w*?(?:Ns|NsPer)(?:[A-Z]\w*)?)\s*=\s*([\d'.]+)")
MIN_ARGUMENT = 20  # letters


def constants():
    """(file, name): value."""
    found = {}
    for layer in ("gc", "alloc", "platform"):
        for path in sorted((SOURCE / layer).rglob("*")):
            if path.suffix in (".h", ".cc"):
                name = str(path.relative_to(SOURCE))
                for match in CONSTANT.finditer(path.read_text()):
                    found[name, match[1]] = match[2].replace("'", "")
    return found


def rows():
    """The same of the table, and what is wrong with it."""
    text = (SOURCE / PAGE).read_text()
    section = text[text.index(HEADING) + len(HEADING):].partition("\n## ")[0]
    found, problems = {}, []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        match = re.fullmatch(r"`(k\w+)` in `([^`]+)`", cells[0])
        if not match:
            continue
        if len(cells) != 3 or len(cells[2]) < MIN_ARGUMENT:
            problems.append(f"{PAGE}: {match[1]}: no value and argument")
            continue
        found[match[2], match[1]] = cells[1].replace(",", "")
    return found, problems


code = constants()
table, problems = rows()
for key in sorted(code.keys() | table.keys()):
    file, name = key
    if key not in table:
        problems.append(f"{file}: {name} is not in the table of {PAGE}")
    elif key not in code:
        problems.append(f"{PAGE}: there is no {name} in {file}")
    elif code[key] != table[key]:
        problems.append(f"{PAGE}: {name} is {table[key]}, in {file} {code[key]}")
print(f"{len(code)} times")
if problems or len(code) < 5:
    sys.exit("\n".join(problems) or "no times found")
