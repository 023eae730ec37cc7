#!/usr/bin/env python3
"""Writes the parts of a report's page as C++: its style, its script and their licence, with the
hashes that the page's Content-Security-Policy allows.

usage: embed.py OUTPUT --style FILE... --script FILE... --licence FILE
"""

import argparse
import base64
import hashlib
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
    for part in ("style", "script", "licence"):
        parser.add_argument(f"--{part}", nargs="+", required=True)
    arguments = parser.parse_args()
    parts = {"Style": read(arguments.style), "Script": read(arguments.script),
             "Licence": read(arguments.licence)}
    for end in ("</script", "</style"):
        if any(end in parts[name].lower() for name in ("Style", "Script")):
            raise SystemExit(f"embed.py: the page would end at a {end}")
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write('#include "tools/report/report_parts.h"\n\nnamespace gleaner::tools {\n')
        for name, text in parts.items():
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            file.write(f"\nconst char kReport{name}[] =\n{literal(text)};\n")
            if name != "Licence":
                file.write(f'const char kReport{name}Hash[] = "sha256-{digest}";\n')
        file.write("\n}  // namespace gleaner::tools\n")


main()
