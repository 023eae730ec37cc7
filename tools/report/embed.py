#!/usr/bin/env python3
"""Writes what is the same in all pages of a report as C++: what stands before a page's content and
behind it. The hashes are those that the page's Content-Security-Policy allows.

usage: embed.py OUTPUT --page FILE --style FILE... --script FILE... --licence FILE
"""

import argparse
import base64
import hashlib
import html
import re


def read(paths):
    text = "\n".join(open(path, encoding="utf-8").read().strip() for path in paths)
    # A browser's tools would ask for the map.
    return re.sub(r"(/\*# sourceMappingURL=[^*]*\*/|^//# sourceMappingURL=.*$)", "", text,
                  flags=re.MULTILINE)


def literal(text):
    """A string of C++, in pieces that every compiler takes."""
    data = text.encode()
    pieces = []
    for begin in range(0, len(data), 100):
        piece = "".join(chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?'
                        else f"\\{byte:03o}" for byte in data[begin:begin + 100])
        pieces.append(f'    "{piece}"')
    return "\n".join(pieces)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    for part in ("page", "style", "script", "licence"):
        parser.add_argument(f"--{part}", nargs="+", required=True)
    arguments = parser.parse_args()
    parts = {"licence": html.escape(read(arguments.licence))}
    for name in ("style", "script"):
        text = parts[name] = read(getattr(arguments, name))
        if re.search("</(script|style)", text, re.IGNORECASE):
            raise SystemExit(f"embed.py: the {name} would end early")
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        parts[f"{name}_hash"] = f"sha256-{digest}"
    halves = [re.sub(r"\{(\w+)\}", lambda place: parts[place.group(1)], half)
              for half in (read(arguments.page) + "\n").split("{content}")]
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write('#include "tools/report/report_blocks.h"\n\nnamespace gleaner::tools {\n')
        for name, text in zip(("Before", "Behind"), halves):
            file.write(f"\nconst char kPage{name}Content[] =\n{literal(text)};\n")
        file.write("\n}  // namespace gleaner::tools\n")


main()
