#!/usr/bin/env python3
"""Compiles every public header by itself, and all of them together, in one language standard, without
a warning: in the first and the last standard of a language with each of GC_THREADS, GC_DEBUG and
GC_NO_THREAD_REDIRECTS on and off, in those between with none and with all of them; GLEANER_INLINE_MALLOC is
on where GC_THREADS is.

usage: check_headers.py COMPILER STANDARD INCLUDE_DIR    e.g. gcc c89 include/gleaner
"""

import concurrent.futures
import itertools
import os
import pathlib
import subprocess
import sys

# Without GC_THREADS there is nothing to redirect.
THREADS = [[], ["GC_THREADS", "GLEANER_INLINE_MALLOC"],
           ["GC_THREADS", "GLEANER_INLINE_MALLOC", "GC_NO_THREAD_REDIRECTS"]]
DEBUG = [[], ["GC_DEBUG"]]
MACROS = [threads + debug for threads, debug in itertools.product(THREADS, DEBUG)]
BETWEEN = {"c99", "c11", "c17", "c++14", "c++17", "c++20"}
CPLUSPLUS_ONLY = {"gc_cpp.h", "gc_allocator.h"}
CPLUSPLUS_11 = {"gleaner.hpp"}
# Redefines malloc and its like: no header may follow.
LAST = "leak_detector.h"
FLAGS = ["-fsyntax-only", "-O1", "-pedantic", "-Wall", "-Wextra", "-Wundef", "-Werror"]


def headers(directory, standard):
    cplusplus = "++" in standard
    unfit = set() if cplusplus else set(CPLUSPLUS_ONLY)
    if not cplusplus or standard == "c++98":
        unfit |= CPLUSPLUS_11
    found = [path.relative_to(directory).as_posix() for path in sorted(directory.rglob("*.h*"))
             if path.name not in unfit]
    return sorted(found, key=lambda name: name.endswith(LAST))


def compile_error(command, includes, macros):
    source = "".join(f"#include <{name}>\n" for name in includes)
    # ISO C asks for a declaration in every file.
    source += "extern int something;\n"
    run = subprocess.run(command + [f"-D{macro}" for macro in macros] + ["-"], input=source,
                         text=True, capture_output=True)
    if run.returncode == 0:
        return None
    return f"{' '.join(includes)} with {' '.join(macros) or 'no macro'}:\n{run.stderr}"


def main():
    compiler, standard, directory = sys.argv[1:]
    cplusplus = "++" in standard
    command = [compiler, f"-std={standard}", "-x", "c++" if cplusplus else "c", *FLAGS,
               "-I", directory]
    names = headers(pathlib.Path(directory), standard)
    if not names:
        sys.exit(f"no headers in {directory}")
    jobs = list(itertools.product([[name] for name in names] + [names],
                                  [MACROS[0], MACROS[-1]] if standard in BETWEEN else MACROS))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = list(filter(None, pool.map(lambda job: compile_error(command, *job), jobs)))
    for error in errors:
        print(error)
    print(f"{len(jobs)} compilations of {len(names)} headers, {len(errors)} failed")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
