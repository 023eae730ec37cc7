#!/usr/bin/env python3
"""The links of the documents lead somewhere: to a file that is there, and to a heading of it.

usage: links.py SOURCE_DIR BUILD_DIR
"""

import pathlib
import re
import sys

from pages import pages

SOURCE = pathlib.Path(sys.argv[1]).resolve()
DOCUMENTS = pages(SOURCE)


def prose(path):
    """The text without code blocks."""
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)


def anchors(path):
    """As GitHub names headings: small letters, digits, - and _; blanks become -."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", prose(path), re.M):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = 0
        while (name := slug if number == 0 else f"{slug}-{number}") in found:
            number += 1
        found.add(name)
    return found


problems, seen = [], 0
for document in DOCUMENTS:
    for target in re.findall(r"\]\(([^()\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(document))):
        if re.match(r"\w+:", target):
            continue
        seen += 1
        file, _, anchor = target.partition("#")
        path = (document.parent / file).resolve() if file else document
        if not path.exists():
            problems.append(f"{document.relative_to(SOURCE)}: there is no {target}")
        elif anchor and path.suffix == ".md" and anchor not in anchors(path):
            problems.append(f"{document.relative_to(SOURCE)}: no heading {target}")
for document in DOCUMENTS[1:]:
    if not any(document.name in prose(other) for other in DOCUMENTS if other != document):
        problems.append(f"nothing leads to {document.relative_to(SOURCE)}")
print(f"{seen} links")
if problems or seen == 0:
    sys.exit("\n".join(problems) or "no links found")
