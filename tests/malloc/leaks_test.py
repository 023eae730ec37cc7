#!/usr/bin/env python3
"""Programs that lose blocks, and what GLEANER_LEAKS says of them.

usage: leaks_test.py LIBRARY GLEANER LEAKS LEAKS_SMALL LEAKS_STRIPPED LEAKS_LSAN PLUGIN GOLDEN
  LEAKS           tests/malloc/leaks.cc, with debug information
  LEAKS_SMALL     the same without frame pointers, optimised
  LEAKS_STRIPPED  the same without symbols
  LEAKS_LSAN      the same with LeakSanitizer
  GOLDEN          the report of the case "mixed", without what changes from machine to machine
"""

import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile

LIBRARY, GLEANER, LEAKS, SMALL, STRIPPED, LSAN, PLUGIN, GOLDEN = sys.argv[1:]
NODE = 48
DONE = 5  # the status of a case

failures = 0


def check(condition, what, output=""):
    global failures
    if condition:
        return
    failures += 1
    print(f"FAILED: {what}\n{output}")


def execute(*command, status, environment=None, **options):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GLEANER_")}
    result = subprocess.run(command, env=kept | (environment or {}), capture_output=True, text=True,
                            timeout=280, **options)
    if status is not None:
        check(result.returncode == status, f"{command}: status {result.returncode}, not {status}",
              result.stdout + result.stderr)
    return result


def run(program, *arguments, preload=LIBRARY, status=DONE, **options):
    environment = {"LD_PRELOAD": preload, "GLEANER_LEAKS": "1"} if preload else {}
    environment |= {k: str(v) for k, v in options.items()}
    return execute(program, *arguments, PLUGIN, status=status, environment=environment)


COUNT = r"(\d+) bytes? in (\d+) blocks?"


def totals(report):
    """Bytes and blocks, direct and indirect."""
    head = re.search(rf"has lost {COUNT}: {COUNT} directly, {COUNT} indirectly", report)
    if head is None:
        return (0, 0, 0, 0)
    numbers = [int(n) for n in head.groups()]
    check(numbers[0] == numbers[2] + numbers[4] and numbers[1] == numbers[3] + numbers[5],
          "the sums do not add up", report)
    for kind, at in (("direct", 2), ("indirect", 4)):
        entries = re.findall(rf"^{kind} leak: {COUNT}", report, re.MULTILINE)
        check([sum(int(e[i]) for e in entries) for i in (0, 1)] == numbers[at:at + 2],
              f"{kind} entries do not add up", report)
    return tuple(numbers[2:])


def entries(report):
    """(kind, bytes, blocks, functions) of each."""
    for part in re.split(r"\n\n", report)[1:]:
        head = re.match(rf"(direct|indirect) leak: {COUNT}", part)
        if head is not None:
            functions = re.findall(r"^    #\d+ (.*)$", part, re.MULTILINE)
            yield head[1], int(head[2]), int(head[3]), functions


# Case: direct bytes and blocks, indirect bytes and blocks, and the functions of the first stack.
EXPECTED = {
    "none": (0, 0, 0, 0, []),
    "direct": (NODE, 1, 0, 0, ["MakeNode", "Direct", "main"]),
    "indirect": (NODE, 1, 2 * NODE, 2, ["MakeNode", "Indirect", "main"]),
    "cycle": (NODE, 1, 2 * NODE, 2, ["MakeNode", "Cycle", "main"]),
    "self_reference": (NODE, 1, 0, 0, ["MakeNode", "SelfReference", "main"]),
    "shared": (2 * NODE, 2, NODE, 1, ["MakeNode", "Shared", "main"]),
    "interior_root": (0, 0, 0, 0, []),
    "interior_indirect": (NODE, 1, 1000, 1, ["MakeNode", "InteriorIndirect", "main"]),
    "past_the_end": (1024, 1, 0, 0, ["PastTheEnd", "main"]),
    "hidden_pointer": (64, 1, 0, 0, ["HiddenPointer", "main"]),
    "from_mapping": (0, 0, 0, 0, []),
    "cxx_array": (100, 1, 0, 0, ["CxxArray", "main"]),
    "cxx_object": (16, 1, 80, 1, ["CxxObject", "main"]),
    "cxx_vector": (24, 1, 132, 4, ["CxxVector", "main"]),
    "realloc": (400000, 1, 0, 0, ["Realloc", "main"]),
    "sizes": (0 + 1 + 21 + 30 + 50 + 70 + 3000001, 7, 0, 0, ["Sizes", "main"]),
    "ended_threads": (20 * NODE, 20, 20 * NODE, 20, ["MakeNode", "LoseInThread"]),
    "running_threads": (4 * NODE, 4, 4 * NODE, 4, ["MakeNode", "LoseInThread", "Stay"]),
    "thread_specific": (0, 0, 0, 0, []),
    "many_stacks": (4096 * NODE, 4096, 0, 0, ["MakeNode", "AtTheEnd"] + 13 * ["Turn"]),
    "deep_recursion": (NODE, 1, 0, 0, ["MakeNode"] + 29 * ["Recurse"]),
    "aligned": (NODE, 1, 0, 0, ["MakeNode", "AlignedFrame", "Aligned", "main"]),
    "callback": (NODE, 1, 0, 0, ["MakeNode", "CompareAndLose"]),
    "signal": (NODE, 1, 0, 0, ["MakeNode", "OnSignal"]),
    "alternate_stack": (NODE, 1, 0, 0, ["MakeNode", "OnSignal"]),
    "plugin": (64, 1, 32, 1, ["plugin_get", "plugin_lose", "FromPlugin", "main"]),
    "unloaded_plugin": (64, 1, 32, 1, ["plugin_get", "plugin_lose", "FromPlugin", "main"]),
    "plenty": (200000 * NODE, 200000, 0, 0, ["MakeNode", "Plenty", "main"]),
}
# Functions further out, behind frames of the C library's.
FURTHER = {
    "callback": ["qsort", "Callback", "main"],
    "signal": ["Interrupted", "SignalHandler", "main"],
    "alternate_stack": ["Interrupted", "SignalHandler", "main"],
}


def check_case(name, program, with_functions):
    result = run(program, name)
    report = result.stderr
    *expected, functions = EXPECTED[name]
    check(totals(report) == tuple(expected), f"{name}: {totals(report)}, not {expected}", report)
    if expected == [0, 0, 0, 0]:
        check(report == "", f"{name}: a report without leaks", report)
        return
    if not with_functions:
        return
    for kind, _, _, found in entries(report):
        if kind == "direct":
            for i, function in enumerate(functions):
                check(i < len(found) and re.search(function, found[i]) is not None,
                      f"{name}: frame {i} is not {function}", report)
            rest = found[len(functions):]
            for function in FURTHER.get(name, []):
                while rest and re.search(function, rest[0]) is None:
                    rest = rest[1:]
                check(bool(rest), f"{name}: no frame of {function}", report)
            break


def check_cases():
    for name in EXPECTED:
        check_case(name, LEAKS, True)
        check_case(name, SMALL, True)
    for name in ("indirect", "signal", "aligned", "plugin", "deep_recursion"):
        check_case(name, STRIPPED, False)


def check_stacks():
    result = run(LEAKS, "many_stacks")
    check(len(list(entries(result.stderr))) == 4096, "many_stacks: not 4096 entries")
    report = run(LEAKS, "too_many_stacks").stderr
    check(totals(report) == (NODE, 1, 0, 0) and "for which the table had no room" in report,
          "too_many_stacks", report)
    report = run(STRIPPED, "direct").stderr
    check(re.search(r"#0 \(/.*leaks_stripped\+0x[0-9a-f]+\)", report) is not None,
          "stripped: no object and offset", report)


def check_order():
    report = run(LEAKS, "mixed").stderr
    found = [(kind, count) for kind, count, _, _ in entries(report)]
    for kind in ("direct", "indirect"):
        sizes = [count for each, count in found if each == kind]
        check(sizes == sorted(sizes, reverse=True), f"{kind} entries are not in order", report)
    check([kind for kind, _ in found] == sorted(kind for kind, _ in found),
          "direct entries do not come first", report)


def check_oracle():
    """LeakSanitizer's verdict on the same source. It takes all of a cycle for indirect, looks into
    no mapping of the program's."""
    other = {"cycle": (0, 0, 3 * NODE, 3), "from_mapping": (10, 1, 0, 0)}
    # Cases that it is not asked: a block of 0 bytes is one of 1 byte for it, and the pointer
    # that an alternate stack had is one in static data.
    for name in EXPECTED.keys() - {"sizes", "alternate_stack"}:
        result = run(LSAN, name, preload="", status=None,
                     LSAN_OPTIONS="exitcode=0:max_leaks=0:symbolize=0")
        if "has encountered a fatal error" in result.stderr:
            print(f"LeakSanitizer cannot run here: {result.stderr.splitlines()[-1]}")
            return
        found = []
        for kind in ("Direct", "Indirect"):
            leaks = re.findall(rf"{kind} leak of (\d+) byte\(s\) in (\d+) object\(s\)",
                               result.stderr)
            found += [sum(int(b) for b, _ in leaks), sum(int(n) for _, n in leaks)]
        expected = other.get(name, EXPECTED[name][:4])
        check(tuple(found) == tuple(expected), f"LeakSanitizer, {name}: {found}, not {expected}",
              result.stderr)


def check_ends():
    """How a process may end."""
    for name, status in (("quick_exit", 7), ("exit_in_thread", 7), ("live_at_exit", 0)):
        expected = (0, 0) if name == "live_at_exit" else (NODE, 1)
        result = run(LEAKS, name, status=status)
        check(totals(result.stderr)[:2] == expected, f"{name}: {totals(result.stderr)}",
              result.stderr)
        if expected != (0, 0):
            result = run(LEAKS, name, status=31, GLEANER_LEAKS_EXIT_CODE=31)
    result = run(LEAKS, "underscore_exit", status=7)
    check(result.stderr == "", "_exit reports", result.stderr)
    result = run(LEAKS, "crash", status=-6)
    check("has lost" not in result.stderr, "a crash reports", result.stderr)
    # The program that was executed reports, with what it has lost itself.
    result = run(LEAKS, "exec")
    check(totals(result.stderr)[:2] == (2 * NODE + 100, 3), "exec", result.stderr)
    # The child reports, the parent has nothing to say.
    result = run(LEAKS, "forked_child")
    check(totals(result.stderr)[:2] == (NODE, 1) and result.stderr.count("has lost") == 1,
          "forked_child", result.stderr)
    check(result.stdout.count("done\n") == 2, "forked_child: text is lost", result.stdout)


def check_status():
    result = run(LEAKS, "direct", status=23, GLEANER_LEAKS_EXIT_CODE=23)
    check(result.stdout == "done\n", "text in the program's buffers is lost", result.stdout)
    run(LEAKS, "none", status=DONE, GLEANER_LEAKS_EXIT_CODE=23)


def check_options(folder):
    result = run(LEAKS, "direct", GLEANER_LEAKS="perhaps")
    check('GLEANER_LEAKS' in result.stderr and "perhaps" in result.stderr, "a wrong value",
          result.stderr)
    result = run(LEAKS, "direct", GLEANER_LEAKS_FRAME=3)
    check("GLEANER_LEAKS_FRAME" in result.stderr, "a misspelt option", result.stderr)
    result = run(LEAKS, "deep_recursion", GLEANER_LEAKS_FRAMES=3)
    check([len(f) for _, _, _, f in entries(result.stderr)] == [3], "3 frames", result.stderr)
    result = run(LEAKS, "deep_recursion", GLEANER_LEAKS_FRAMES=128)
    check([len(f) for _, _, _, f in entries(result.stderr)] == [128], "128 frames", result.stderr)
    # By the dynamic symbol table alone: none of the program's own names, one of the plugin's.
    result = run(LEAKS, "plugin", GLEANER_LEAKS_SYMBOLS=0)
    check("#1 plugin_lose (" in result.stderr and "leaks.cc" not in result.stderr, "no symbols",
          result.stderr)
    # A file, with the number of the process; from where the program was started.
    result = run(LEAKS, "mixed", GLEANER_LEAKS_FILE=f"{folder}/report.%p.txt")
    names = os.listdir(folder)
    check(result.stderr == "" and len(names) == 1 and
          re.fullmatch(r"report\.\d+\.txt", names[0]) is not None, f"report files: {names}",
          result.stderr)
    with open(f"{folder}/{names[0]}", encoding="utf-8") as file:
        check(totals(file.read())[:2] == (2 * NODE + 100, 3), "the report in the file")
    result = run(LEAKS, "direct", GLEANER_LEAKS_FILE=f"{folder}/no/such/folder")
    check("cannot write" in result.stderr and totals(result.stderr)[:2] == (NODE, 1),
          "a file that cannot be written", result.stderr)


def check_suppressions(folder):
    path = f"{folder}/suppressions.txt"

    def suppressed(text, case="mixed", **options):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        result = run(LEAKS, case, GLEANER_LEAKS_SUPPRESSIONS=path, **options)
        return result.stderr

    # By function: what the suppressed block leads to goes with it.
    report = suppressed("# known\n\nleak:Indirect\n")
    check(totals(report) == (NODE + 100, 2, 0, 0), "by function", report)
    check(re.search(rf"^suppressed: {3 * NODE} bytes in 3 blocks$", report, re.MULTILINE) is not None
          and f"    {3 * NODE} bytes in 3 blocks by leak:Indirect\n" in report, "the sum", report)
    # By source file, by object.
    for pattern in ("leaks.cc", "leaks.cc$", "gleaner_malloc_leaks$", "^/*leaks$", "*"):
        report = suppressed(f"leak:{pattern}\n", GLEANER_LEAKS_EXIT_CODE=9)
        check(totals(report) == (0, 0, 0, 0) and f"by leak:{pattern}" in report,
              f"pattern {pattern}", report)
    # No match.
    for pattern in ("^leaks.cc", "direckt", "Direct()$x", "Indir*z"):
        report = suppressed(f"leak:{pattern}\n")
        check(totals(report) == (2 * NODE + 100, 3, 2 * NODE, 2), f"pattern {pattern}", report)
    report = suppressed("leak:Direct()\nrace:foo\nleak:\nno idea\nleak:CxxArr*y\n")
    check(totals(report) == (NODE, 1, 2 * NODE, 2), "lines that are none", report)
    for line in (2, 3, 4):
        check(f"suppressions.txt:{line}: " in report, f"no word of line {line}", report)
    report = run(LEAKS, "direct", GLEANER_LEAKS_SUPPRESSIONS=f"{folder}/none").stderr
    check("cannot read the suppressions" in report and totals(report)[:2] == (NODE, 1),
          "a file that is missing", report)
    # Suppressed and nothing else: the status stays.
    report = suppressed("leak:MakeNode\n", case="direct", GLEANER_LEAKS_EXIT_CODE=9)
    check("suppressed: 48 bytes in 1 block" in report, "all suppressed", report)


def check_with_collection():
    """What a collection frees is in the report, too."""
    for options in {"GLEANER_COLLECT_EVERY": "256k"}, {}:
        report = run(LEAKS, "plenty", GLEANER_COLLECT=1, **options).stderr
        check(totals(report) == (200000 * NODE, 200000, 0, 0), f"collected {options}", report)


def check_tool():
    report = execute(GLEANER, "run", "--malloc", "--leaks", LEAKS, "mixed", status=DONE).stderr
    check(totals(report)[:2] == (2 * NODE + 100, 3), "gleaner run --malloc --leaks", report)
    result = execute(GLEANER, "run", "--leaks", LEAKS, "mixed", status=125)
    check("--malloc" in result.stderr, "--leaks alone", result.stderr)
    for question in ("object /no/such/file\n12\n", "object \n12\n"):
        answer = execute(GLEANER, "symbolize", input=question, status=0).stdout
        check(answer == "\t\n\nend\n", f"symbolize {question!r}", answer)
    for question in ("12\n", "object x\nzz\n"):
        result = execute(GLEANER, "symbolize", input=question, status=2)
        check("gleaner symbolize: not" in result.stderr, f"symbolize {question!r}", result.stderr)


def check_without_command(folder):
    """A library that is alone somewhere."""
    alone = f"{folder}/libgleaner_malloc.so"
    shutil.copy(LIBRARY, alone)
    result = run(LEAKS, "plugin", preload=alone)
    check('no command "gleaner"' in result.stderr and "#1 plugin_lose (" in result.stderr,
          "without the command", result.stderr)


def check_golden():
    report = run(LEAKS, "mixed").stderr
    report = re.sub(r"process \d+", "process N", report)
    report = re.sub(r"/\S*/(?=[^/\s]+)", "", report)
    report = re.sub(r"\+0x[0-9a-f]+", "+0xN", report)
    report = re.sub(r"\.cc:\d+", ".cc:N", report)
    # What is further out than main is the C library's.
    report = re.sub(r"(    #\d+ main .*\n)(    #.*\n)+", r"\1", report)
    with open(GOLDEN, encoding="utf-8") as file:
        golden = file.read()
    check(report == golden, "the report is not the golden one",
          "".join(difflib.unified_diff(golden.splitlines(True), report.splitlines(True))))


def main():
    check_cases()
    for test in (check_stacks, check_order, check_oracle, check_ends, check_status,
                 check_with_collection, check_tool, check_golden):
        test()
    for test in (check_options, check_suppressions, check_without_command):
        with tempfile.TemporaryDirectory() as folder:
            test(folder)
    print(f"{failures} failures" if failures else "all as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
