#!/usr/bin/env python3
"""Types every command that the documents tell the reader to type.

usage: commands.py SOURCE_DIR BUILD_DIR

`./dev install` makes the prefix. A command is run as it stands, with the names that stand for
something filled in (SUBSTITUTES), once with and once without each part in brackets; benchmarks
with --smoke. What takes longer than a test may is listed with its reason in NOT_RUN; a line of
either table that no document has is an error, too.
"""

import dataclasses
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from pages import pages

SOURCE, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
HERE = pathlib.Path(__file__).resolve().parent
DOCUMENTS = pages(SOURCE)

# How a line of a code block begins that is for a shell, or for CMake.
COMMAND = re.compile(r"\$ |\./dev\b|(PREFIX/bin/)?gleaner (?!\w+: )|cc |c\+\+ |[A-Z_]+=\S* \S|build/|env |for |"
                     r"mpicc |mpirun |cmake |ctest|ninja|python3 |sudo |apt|git ")
CMAKE = re.compile(r"[a-z_]+\(.*\)")

# Patterns of what stands for something.
SUBSTITUTES = {
    r"PREFIX|<prefix>": "{prefix}",
    r"\bprogram\.c\b": "program.c -o linked",
    r"\bprogram$": "./client",
    r"\bPROGRAM( \[ARGUMENT\.\.\.\])?": "./client",
    r"\blua5\.4 work\.lua\b": "./client",
    r"\blib(jemalloc\.so\.2|tcmalloc_minimal\.so\.4)\b": "{prefix}/lib/gleaner/libgleaner_malloc.so",
    r"\bBYTES\b": "64k",
    r"\bFILE\b": "trace",
    r"\bNAME\b": "tree-fit",
    r"(?<=--threshold )T\b": "4096",
    r"\bTABLE\b": "table.csv",
    r"\bbuild/release/(bench/.+)": "{build}/\\1 --smoke",
    r"\bbuild/release/(examples/.+)": "{build}/\\1",
}

# The beginning of a command, and why it is not run here.
NOT_RUN = {
    "./dev demo": "./dev fresh runs it; takes minutes",
    "./dev build": "the presets are built before this test runs",
    "./dev lint": "CI runs it; takes minutes",
    "cmake --preset asan-ubsan": "as above",
    "cmake --build --preset asan-ubsan": "as above",
    "ctest --preset asan-ubsan": "as above",
    "./dev test": "runs this test",
    "./dev experiment": "measures; the tests bench.experiment* run the same programs",
    "./dev bench": "measures, for hours; the tests bench.* run the same programs",
    "./dev bench-latency": "measures, for hours; the test bench.latency runs the same script",
    "./dev bench-retention": "the test bench.retention runs the same script",
    "./dev tradeoff": "measures, in 450 runs; the test bench.tradeoff runs the same script",
    "gleaner top PID": "it needs a running process; the test tool.top has one",
    "gleaner numa": "it needs a process; the test tool.numa has one",
    "python3 tests/numa/boot.py": "it needs an emulator; the test numa.kernel runs it",
    "for mode in": "measures; the tests bench.hash_table* run the same program",
    }

problems = []
used = set()


@dataclasses.dataclass
class Command:
    place: str  # file:line
    text: str
    comment: str


def code_lines(path):
    """(line number, text) of what is indented by four or stands between fences, lists aside."""
    fence, after_blank, code = False, True, False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("```"):
            fence = line != "```" if not fence else False
            in_shell = line in ("```sh", "```bash", "```console")
            continue
        if fence:
            if in_shell:
                yield number, line
            continue
        code = line.startswith("    ") and (code or after_blank)
        after_blank = not line.strip()
        if code:
            yield number, line[4:]


def commands():
    for path in DOCUMENTS:
        joined = ""
        for number, line in code_lines(path):
            line = joined + (line.strip() if joined else line)
            joined = ""
            if line.endswith("\\"):
                joined = line[:-1]
                continue
            if line.startswith("for ") and not line.endswith("done"):
                joined = line + "\n"
                continue
            text, _, comment = line.partition("  #")
            if COMMAND.match(text) or CMAKE.fullmatch(text.strip()):
                yield Command(f"{path.relative_to(SOURCE)}:{number}",
                              text.removeprefix("$ ").strip(), comment.strip())


def variants(text):
    """The command with each choice of what is in brackets, which may be nested."""
    start = text.find("[")
    if start < 0:
        # none|first|pages
        words = [word.split("|") for word in re.sub(r" \| ", "\0", text).split(" ")]
        return [" ".join(choice).replace("\0", " | ") for choice in itertools.product(*words)]
    depth, end, bars = 0, start, []
    for end in range(start, len(text)):
        depth += {"[": 1, "]": -1}.get(text[end], 0)
        if depth == 1 and text[end] == "|" and text[end - 1] == " ":
            bars.append(end)
        if depth == 0:
            break
    edges = [start, *bars, end]
    choices = [text[a + 1:b].strip() for a, b in zip(edges, edges[1:])]
    tails = variants(text[end + 1:].lstrip())
    heads = [" ".join(filter(None, (text[:start].rstrip(), inner)))
             for choice in ["", *choices] for inner in (variants(choice) if choice else [""])]
    return [f"{head} {tail}".strip() for head in heads for tail in tails]


def fill_in(text, prefix):
    for pattern, value in SUBSTITUTES.items():
        text, count = re.subn(pattern, value.format(prefix=prefix, build=BUILD), text)
        if count:
            used.add(pattern)
    return text


class Runner:
    def __init__(self, folder):
        self.folder = folder
        self.prefix = folder / "prefix"
        # Nothing of the caller's decides what is found; the tool is typed with and without PREFIX.
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith(("GLEANER_", "GC_", "LD_", "CMAKE_", "PKG_"))}
        # Open MPI runs nothing for root unless it is told to.
        self.environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.environment["PATH"] = f"{self.prefix}/bin:{self.environment['PATH']}"

    def run(self, command, text, **variables):
        """The result of the command; what it printed is looked at by `check`."""
        result = subprocess.run(["sh", "-c", text], cwd=self.folder, capture_output=True, text=True,
                                env={**self.environment, **variables})
        if result.returncode != 0:
            problems.append(f"{command.place}: {text}: status {result.returncode}\n"
                            f"{(result.stdout + result.stderr)[-2000:]}")
        return result

    def expect(self, command, text, found, what):
        if not found:
            problems.append(f"{command.place}: {text}: {what}")

    def check(self, command, text, result):
        """That the command has done what the documents say of it."""
        if result.returncode != 0:
            return
        words = text.split()
        output = result.stdout + result.stderr
        if "./client" in words and "client: ok" not in output and "replay" not in words:
            self.expect(command, text, False, f"the program has not run:\n{output}")
        if "--leaks" in words or "GLEANER_LEAKS=1" in words:
            self.expect(command, text, re.search(r"has lost \d+ bytes", output), "no leak report")
        if "--stats" in words:
            self.expect(command, text, re.search(r"^gleaner: collections +[1-9]", output, re.M),
                        f"no figures:\n{output}")
        if "record" in words:
            self.expect(command, text, re.search(r"\d events of 1 threads", output),
                        f"nothing was recorded:\n{output}")
        if "replay" in words:
            self.expect(command, text, re.search(r"^operations? ", output, re.M) or result.stdout,
                        "nothing was printed")

    def type(self, command):
        if command.text.startswith("./dev install"):
            return  # done, as the first command of all
        if CMAKE.fullmatch(command.text):
            return  # all of them together: use_cmake
        variables = dict(re.findall(r"^([A-Z_]+)=(\S+)$", fill_in(command.comment, self.prefix)))
        if command.text.startswith(("cc ", "c++ ")):
            text = fill_in(command.text, self.prefix)
            self.run(command, "rm -f linked; " + text, **variables)
            return self.run_linked(command, text)
        texts = [command.text]
        if re.match(r"LD_\w+=\S+ \S", command.comment):
            texts.append(command.comment)  # the same in other words
        for text in texts:
            for variant in variants(fill_in(text, self.prefix)):
                self.check(command, variant, self.run(command, variant, **variables))

    def run_linked(self, command, text):
        """The README's program, with the loader told where PREFIX/lib is."""
        is_static = " -static " in text
        result = self.run(command, "./linked" if is_static else "ldd ./linked && ./linked",
                          LD_LIBRARY_PATH=f"{self.prefix}/lib")
        if ".a" not in text:
            self.expect(command, text, f"=> {self.prefix}/lib/libgleaner.so" in result.stdout,
                        f"not linked with libgleaner:\n{result.stdout}")

    def use_cmake(self, lines):
        """A project with the documented lines, each in the forms that its comment gives."""
        package = [command for command in lines if command.text.startswith("find_package")]
        links = [command for command in lines if command.text.startswith("target_link_libraries")]
        assert len(package) == 1 and len(links) == 1, lines
        variables = dict(re.findall(r"([A-Z_]+)=(\S+)", fill_in(package[0].comment, self.prefix)))
        other = re.fullmatch(r"or (\S+)", links[0].comment)[1]
        text = f"cmake_minimum_required(VERSION 3.16)\nproject(use LANGUAGES C)\n{package[0].text}\n"
        for name, line in (("shared", links[0].text),
                           ("static", re.sub(r"Gleaner::\w+", other, links[0].text))):
            text += f"add_executable({name} program.c)\n" + line.replace("(program", f"({name}") + "\n"
        (self.folder / "CMakeLists.txt").write_text(text)
        self.run(package[0], "cmake -G Ninja -B use >use.log && cmake --build use >>use.log || { cat use.log; exit 1; }",
                 **variables)
        self.run(links[0], "use/shared && use/static")


def program_of_readme():
    found = re.findall(r"^```c\n(.*?)^```$", DOCUMENTS[0].read_text(), re.M | re.S)
    assert len(found) == 1, "README.md has one program"
    return found[0]


def main():
    found = list(commands())
    helped = subprocess.run([SOURCE / "dev", "help"], check=True, capture_output=True, text=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        runner = Runner(folder)
        install = next(c for c in found if c.text.startswith("./dev install"))
        # From where the user is, with a relative prefix.
        runner.run(install, install.text.replace("./dev", str(SOURCE / "dev")).replace("PREFIX", "prefix"))
        (folder / "program.c").write_text(program_of_readme())
        runner.run(install, f"cc -O1 {HERE}/client.c -o client -I/usr/include -lgc")
        if problems:
            sys.exit("\n".join(problems))
        for command in found:
            if command.text.startswith("./dev"):
                name = command.text.split()[1]
                if not re.search(rf"^  {name}\b", helped, re.M):
                    problems.append(f"{command.place}: `./dev help` has no {name}")
            reasons = [beginning for beginning in NOT_RUN if command.text.startswith(beginning)]
            if reasons:
                used.update(reasons)
                first_line = command.text.splitlines()[0]
                print(f"{command.place}: not run: {first_line}: {NOT_RUN[max(reasons, key=len)]}")
                continue
            print(f"{command.place}: {command.text}", flush=True)
            runner.type(command)
        runner.use_cmake([c for c in found if CMAKE.fullmatch(c.text)])
    for name in [*SUBSTITUTES, *NOT_RUN]:
        if name not in used:
            problems.append(f"no document has: {name}")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
