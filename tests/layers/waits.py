#!/usr/bin/env python3
"""Checks that no test takes to a fixed sleep, or to a clock, unseen.

Each file of tests/ that has some stands in waits.txt with their number and with the reason, a line
`path: number: reason`. A sleep on the line of its loop, `while (CONDITION) usleep(100);`, waits for
a state and does not count, unless the condition is none or looks at a counter alone.

usage: waits.py ROOT
"""

import io
import pathlib
import re
import sys
import tokenize

LIST = "tests/layers/waits.txt"

SLEEP = re.compile(r"\b(?:usleep|sleep|nanosleep|clock_nanosleep|thrd_sleep|sleep_for|sleep_until|"
                   r"sleep_ms|SleepNs|FutexSleep)\s*\(|^\s*sleep\s+[\d.$]", re.MULTILINE)
CLOCK = re.compile(r"\b(?:clock_gettime|gettimeofday|timespec_get|NowNs|CoarseNowNs|ProcessorNs|"
                   r"ThreadNs|clock|perf_counter(?:_ns)?|time\.(?:time|monotonic)(?:_ns)?)\s*\(|"
                   r"(?<!\.)\btime\s*\(\s*(?:NULL|nullptr|0|&)|"
                   r"\b(?:steady|system|high_resolution)_clock::now\b|(?<![-\w.])date\s+\+")
WHILE = re.compile(r"\bwhile \((.*)")
FOR = re.compile(r"\bfor \([^;]*;([^;]*);")
# Of a loop: none, a constant, or a counter and its limit.
NO_STATE = re.compile(r"\s*(?:1|true|True)?\s*|\s*\w+\s*(?:<|>|<=|>=)\s*[\w']+\s*")

C_BLANK = re.compile(r"""//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])'|"(?:\\.|[^"\\\n])*\"""", re.DOTALL)


def code_of(path):
    """Without comments and strings; lines keep their numbers."""
    text = path.read_text()
    if path.suffix == ".sh":
        return re.sub(r"(?m)(^|\s)#.*", r"\1", text)
    if path.suffix != ".py":
        return C_BLANK.sub(lambda match: "\n" * match[0].count("\n"), text)
    lines = text.split("\n")
    blank = (tokenize.COMMENT, tokenize.STRING)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in blank:
            (first, begin), (last, end) = token.start, token.end
            for number in range(first - 1, last):
                line = lines[number]
                left = line[:begin] if number == first - 1 else ""
                right = line[end:] if number == last - 1 else ""
                lines[number] = left + " " * (len(line) - len(left) - len(right)) + right
    return "\n".join(lines)


def waits_for_state(line):
    """A loop whose condition is on the line that sleeps."""
    found = FOR.search(line)
    if not found:
        found = WHILE.search(line)
        if not found:
            return False
        depth = 1
        for i, letter in enumerate(found[1]):
            depth += {"(": 1, ")": -1}.get(letter, 0)
            if depth == 0:
                return not NO_STATE.fullmatch(found[1][:i])
        return False
    return not NO_STATE.fullmatch(found[1])


def waits(path):
    """The lines, from 1, once for each sleep and each look at a clock."""
    for number, line in enumerate(code_of(path).split("\n"), 1):
        if not waits_for_state(line):
            yield from (number for _ in SLEEP.finditer(line))
        yield from (number for _ in CLOCK.finditer(line))


def listed(root):
    """By path: the number; and what is wrong with the list itself."""
    numbers, wrong = {}, []
    file = root / LIST
    for at, line in enumerate(file.read_text().splitlines() if file.exists() else [], 1):
        entry = re.fullmatch(r"(tests/\S+): (\d+): \S.*\.", line)
        if not entry or entry[1] in numbers:
            wrong.append(f"{LIST}:{at}: is not `path: number: reason.` of another path: {line}")
        else:
            numbers[entry[1]] = int(entry[2])
    return numbers, wrong


def violations(root):
    numbers, wrong = listed(root)
    yield from wrong
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix not in (".c", ".cc", ".h", ".py", ".sh"):
            continue
        name = path.relative_to(root).as_posix()
        expected = numbers.pop(name, 0)
        found = list(waits(path))
        if len(found) == expected:
            continue
        yield f"{name}: has {len(found)} fixed sleeps and looks at a clock, and {expected} in {LIST}"
        lines = path.read_text().split("\n")
        yield from (f"{name}:{number}: {lines[number - 1].strip()}" for number in sorted(set(found)))
    yield from (f"{LIST}: {name} is not there" for name in numbers)


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    found = list(violations(root))
    for violation in found:
        print(violation)
    if found:
        print("A test waits for a state (CONTRIBUTING.md). Where there is none, say why in the list.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
