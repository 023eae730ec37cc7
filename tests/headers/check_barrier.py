#!/usr/bin/env python3
"""Compiles stores with the barrier of gleaner.h and gleaner.hpp and looks at the machine code: no call, no
jump, and no more than so many instructions, the return not counted.

usage: check_barrier.py COMPILER INCLUDE_DIR    e.g. g++ include/gleaner
"""

import os
import re
import subprocess
import sys
import tempfile

C = """
#include "gleaner.h"
struct node { struct node *next; };
void store_c(struct node **slot, struct node *value) { GLEANER_STORE(slot, value); }
"""
CPLUSPLUS = """
#include "gleaner.hpp"
struct Node { gc::ptr<Node> next; };
extern "C" void store_ptr(Node *node, Node *value) { node->next = value; }
extern "C" void store_null(Node *node) { node->next = nullptr; }
extern "C" void store_element(gc::array<Node *> &nodes, Node *value) { nodes[3] = value; }
extern "C" Node *load(Node *node) { return node->next; }
"""
# With the address of the elements to load, and the offset to add.
MAX = {"store_c": 6, "store_ptr": 6, "store_null": 1, "store_element": 8, "load": 1}
# The collector's words are reached by way of the global offset table in a shared library.
MAX_IN_LIBRARY = {name: most + 2 if most > 1 else most for name, most in MAX.items()}
NO_WORK = re.compile(r"(ret|nop|endbr64|cs nopw|data16|xchg +%ax,%ax)")


def functions(compiler, language, source, flags, include, directory):
    """name -> instructions of each function."""
    path = os.path.join(directory, "barrier.o")
    subprocess.run([compiler, "-O2", "-fcf-protection=none", *flags, "-x", language, "-I", include, "-c", "-",
                    "-o", path], input=source, text=True, check=True)
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], text=True, check=True,
                             stdout=subprocess.PIPE).stdout
    found = {}
    for line in listing.splitlines():
        if head := re.match(r"[0-9a-f]+ <(\w+)>:", line):
            found[head[1]] = code = []
        elif instruction := re.match(r"\s+[0-9a-f]+:\s+(.*\S)", line):
            if not NO_WORK.match(instruction[1]):
                code.append(instruction[1])
    return found


def findings(compiler, include, directory):
    # Clang does by default what GCC does in shared libraries only.
    direct = ["-fdirect-access-external-data"] if "clang" in os.path.basename(compiler) else []
    for flags, limits in (["-fPIE", *direct], MAX), (["-fPIC"], MAX_IN_LIBRARY):
        code = functions(compiler, "c", C, [*flags, "-std=c89"], include, directory)
        code |= functions(compiler, "c++", CPLUSPLUS, [*flags, "-std=c++11"], include, directory)
        for name, most in limits.items():
            if not 0 < len(code[name]) <= most:
                yield name, flags, f"{len(code[name])} instructions, not {most}", code[name]
            for instruction in code[name]:
                if re.match(r"call|j", instruction):
                    yield name, flags, f"has a {instruction.split()[0]}", code[name]
            # The card after the store: the other way round it could be taken away before the store is seen.
            stores = [i for i in code[name] if re.match(r"mov\w? .*,[-\w]*\(", i)]
            if name.startswith("store") and name != "store_null" and (
                    len(stores) != 2 or not stores[1].startswith("movb") or "$0x1," not in stores[1]):
                yield name, flags, "does not store the value, and then the card", code[name]


def main():
    compiler, include = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        found = list(findings(compiler, include, directory))
    for name, flags, what, code in found:
        print(f"{name} with {' '.join(flags)}: {what}")
        print("".join(f"    {instruction}\n" for instruction in code))
    print(f"{len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
