#!/usr/bin/env python3
"""gleaner run: what the program sees, what the figures say, what is refused.

usage: run_test.py GLEANER DROPIN CLIENT MALLOC
"""

import os
import pty
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import unittest

from command import CommandTest, clean, content, put

GLEANER, DROPIN, CLIENT, MALLOC = (os.path.abspath(path) for path in sys.argv[1:5])
ALLOCATED = 64 * 2**20 / 1e6  # by the client, MB
EARLY_MB = 3  # a program: what a thread has not reported yet, or counts in advance, a run at a time


def figure(result, name):
    found = re.search(rf"^gleaner: {name} +([\d.]+)", result.stderr, re.MULTILINE)
    assert found, f"no {name} in: {result.stderr}"
    return float(found[1])


class RunTest(CommandTest):
    def run_it(self, *arguments, tool=GLEANER, **options):
        return self.execute(tool, "run", *arguments, **options)

    def waiting(self, *options):
        """The command with a client that waits."""
        process = subprocess.Popen([GLEANER, "run", *options, CLIENT, "wait"], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), "waiting\n")
        return process


class WithoutFigures(RunTest):
    def test_exit_status_and_streams_are_the_programs(self):
        result = self.run_it("sh", "-c", "cat; echo to stderr >&2; exit 7", status=7, stdin=None,
                             input="to stdout\n")
        self.assertEqual((result.stdout, result.stderr), ("to stdout\n", "to stderr\n"))

    def test_options_after_the_program_are_its_own(self):
        self.assertEqual(self.run_it("echo", "--stats", "--", "--help").stdout, "--stats -- --help\n")
        self.assertEqual(self.run_it("--", "echo", "--stats").stdout, "--stats\n")

    def test_the_rest_of_the_loader_path_is_kept(self):
        folder = os.path.dirname(DROPIN)
        for before, after in ((None, ""), ("", ""), ("/a:/b", ":/a:/b")):
            more = {} if before is None else {"LD_LIBRARY_PATH": before}
            result = self.run_it("sh", "-c", "echo $LD_LIBRARY_PATH", env=clean(**more))
            self.assertEqual(result.stdout, folder + after + "\n")

    def test_the_program_has_the_drop_in(self):
        process = self.waiting()
        self.assertIn(os.path.realpath(DROPIN), content(f"/proc/{process.pid}/maps"))
        process.kill()
        process.communicate()

    def test_a_signal_ends_it_as_it_ends_the_program(self):
        self.run_it(CLIENT, "crash", status=-signal.SIGSEGV)


class Malloc(RunTest):
    def test_the_library_is_preloaded_and_the_rest_kept(self):
        for before, after in ((None, ""), ("", ""), ("libm.so.6", ":libm.so.6")):
            more = {} if before is None else {"LD_PRELOAD": before}
            result = self.run_it("--malloc", "sh", "-c", "echo $LD_PRELOAD; cat /proc/self/maps; exit 7",
                                 status=7, env=clean(**more))
            self.assertEqual(result.stdout.split("\n")[0], MALLOC + after)
            self.assertIn(os.path.realpath(MALLOC), result.stdout.split("\n", 1)[1])
            self.assertEqual(result.stderr, "")

    def test_figures_are_for_the_collector(self):
        result = self.run_it("--malloc", "--stats", "true", status=125)
        self.assertIn("--collect", result.stderr)
        result = self.run_it("--collect", "true", status=125)
        self.assertIn("--malloc", result.stderr)

    def test_outputs_are_written_or_refused_by_name(self):
        program = [sys.executable, "-c", "print('done')"]
        for options in ([], ["--leaks"], ["--collect"]):
            for name in ("TRACE", "PROFILE", "SNAPSHOT"):
                path = self.path(name)
                result = self.run_it("--malloc", *options, *program,
                                     env=clean(**{"GLEANER_" + name: path}))
                self.assertEqual(result.stdout, "done\n")
                is_written = os.path.exists(path) and os.path.getsize(path) != 0
                is_refused = "GLEANER_" + name in result.stderr or path in result.stderr
                self.assertNotEqual(is_written, is_refused, (options, name, result.stderr))
                if name == "PROFILE" or options == ["--collect"]:
                    self.assertTrue(is_written, (options, name, result.stderr))
                if os.path.exists(path):
                    os.remove(path)

    def test_a_profile_shows_what_grows(self):
        """What malloc has given out and nobody has freed, also where nothing is collected."""
        code = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
blocks = (ctypes.c_void_p * 2000)()  # words that a collection sees
for i in range(2000): blocks[i] = libc.malloc(10000)
for i in range(0, 2000, 2): libc.free(blocks[i])
"""
        for options in ([], ["--collect"]):
            path = self.path("profile" + "".join(options))
            result = self.run_it("--malloc", *options, sys.executable, "-c", code,
                                 env=clean(GLEANER_PROFILE=path, GLEANER_PROFILE_BYTES="1"))
            self.assertEqual(result.stderr, "")
            sites = re.findall(r"^(\d+): (\d+) \[(\d+): \d+\] @ 0x", content(path), re.M)
            self.assertIn(("1000", "2000"), [(live, ever) for live, live_bytes, ever in sites
                                             if int(live_bytes) >= 10000 * int(live)], options)

    def test_what_is_lost_is_collected(self):
        code = "import os; print(os.environ.get('GLEANER_COLLECT'))"
        result = self.run_it("--malloc", sys.executable, "-c", code)
        self.assertEqual(result.stdout, "None\n")
        code += """
import ctypes
malloc = ctypes.CDLL(None).malloc
for i in range(100000): malloc(1000)
"""
        result = self.run_it("--malloc", "--collect", "--stats", sys.executable, "-c", code)
        self.assertEqual(result.stdout, "1\n")
        self.assertGreater(figure(result, "collections"), 3)
        self.assertGreater(figure(result, "allocated"), 100)
        self.assertLess(figure(result, "peak memory"), 60)

    def test_refusals_name_the_variable(self):
        result = self.run_it("--malloc", "no-such-program", status=127)
        folder = self.path("a b")
        os.makedirs(folder + "/bin")
        os.makedirs(folder + "/lib/gleaner")
        tool = shutil.copy(GLEANER, folder + "/bin/gleaner")
        result = self.run_it("--malloc", "true", tool=tool, status=125)
        self.assertIn("library is missing", result.stderr)
        shutil.copy(MALLOC, folder + "/lib/gleaner")
        result = self.run_it("--malloc", "true", tool=tool, status=125)
        self.assertIn("no blanks, no colons", result.stderr)


class Figures(RunTest):
    def check(self, result, programs=1):
        allocated = programs * ALLOCATED
        early = programs * EARLY_MB
        self.assertGreaterEqual(figure(result, "collections"), 3)
        self.assertGreater(figure(result, "pauses +total"), 0)
        longest = float(re.search(r"longest ([\d.]+) ms$", result.stderr, re.MULTILINE)[1])
        parts = re.search(r"^gleaner: longest pause (.*)$", result.stderr, re.MULTILINE)[1]
        names, times = zip(*re.findall(r"(\w+) ([\d.]+) ms", parts))
        self.assertEqual(names, ("stop", "roots", "dirty", "mark", "weak", "sweep", "resume"))
        self.assertAlmostEqual(sum(map(float, times)), longest, delta=0.01)
        self.assertGreaterEqual(figure(result, "longest stall of a thread") + 0.001, longest)
        self.assertAlmostEqual(figure(result, "allocated"), allocated, delta=early)
        freed = figure(result, "freed")
        self.assertGreater(freed, allocated / 2)
        self.assertLessEqual(freed, allocated + early)
        self.assertGreater(figure(result, "peak memory"), 1)
        self.assertLess(figure(result, "peak memory"), 60)
        self.assertGreater(figure(result, "wall time"), 0)
        self.assertEqual(result.stdout, "")

    def test_after_exit(self):
        result = self.run_it("--stats", CLIENT, "exit", "3", status=3)
        self.check(result)
        self.assertNotIn("children", result.stderr)

    def modes(self, **options):
        result = self.run_it("--stats", CLIENT, "exit", "3", env=clean(**options), status=3)
        self.check(result)
        return re.findall(r"^gleaner: (?:mode|of these|tracking) +(.*)$", result.stderr, re.MULTILINE)

    def test_modes(self):
        self.assertEqual(self.modes(), ["stop-parallel"])
        # Without the thread that leads the cycles it is the program that makes their steps.
        options = {"GLEANER_WRITE_TRACKING": "mprotect", "GLEANER_SHORT_PAUSE": "0",
                   "GLEANER_CYCLE_THREAD": "0", "GLEANER_COLLECT_EVERY": "8m"}
        mode, counts, tracking = self.modes(GLEANER_CONCURRENT="1", **options)
        self.assertEqual((mode, tracking), ("concurrent", "mprotect"))
        self.assertRegex(counts, "^[1-9][0-9]* concurrent, 0 minor$")
        mode, counts, tracking = self.modes(GLEANER_GENERATIONAL="2", **options)
        self.assertEqual((mode, tracking), ("generational", "mprotect"))
        self.assertRegex(counts, "^0 concurrent, [1-9][0-9]* minor$")
        mode, _, tracking = self.modes(GLEANER_GENERATIONAL="2", GLEANER_CONCURRENT="1")
        self.assertEqual(mode, "concurrent, generational")
        self.assertRegex(tracking, r"^(userfaultfd|mprotect \(userfaultfd: .*\))$")
        mode, tracking = self.modes(GLEANER_CONCURRENT="1", GLEANER_WRITE_TRACKING="soft-dirty")
        self.assertEqual(mode, "stop-parallel")
        self.assertRegex(tracking, r"^none \(soft-dirty: .*\)$")

    def test_a_collecting_malloc_says_that_it_has_no_modes(self):
        result = self.run_it("--malloc", "--collect", "--stats", sys.executable, "-c", "",
                             env=clean(GLEANER_CONCURRENT="1", GLEANER_GENERATIONAL="1"))
        self.assertEqual(re.findall("^gleaner: no .*$", result.stderr, re.MULTILINE),
                         ["gleaner: no concurrent or generational collections: not in a malloc that "
                          "collects"])
        self.assertIn("gleaner: mode         stop-parallel\n", result.stderr)

    def test_after__exit(self):
        result = self.run_it("--stats", CLIENT, "_exit", status=5)
        self.check(result)

    def test_after_a_crash(self):
        result = self.run_it("--stats", CLIENT, "crash", status=-signal.SIGSEGV)
        self.check(result)

    def test_programs_that_a_process_executes_add_up(self):
        result = self.run_it("--stats", CLIENT, "exec", status=6)
        self.check(result, programs=2)

    def test_children_do_not_count(self):
        result = self.run_it("--stats", CLIENT, "child")
        self.check(result)

    def test_scripts(self):
        script = put(self.path("script"), f'#!/bin/sh\nexec "{CLIENT}" exit "$@"\n')
        os.chmod(script, 0o755)
        result = self.run_it("--stats", script, "4", status=4)
        self.check(result)

    def test_signals_reach_the_program(self):
        process = self.waiting("--stats")
        process.terminate()
        result = subprocess.CompletedProcess([], 0, *process.communicate(timeout=280))
        self.assertEqual(process.returncode, 42)
        self.check(result)

    def test_a_signal_that_kills_the_program_kills_the_command(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            kill = f"kill -{number.name[3:]} $$"
            result = self.run_it("--stats", "sh", "-c", kill, status=-number)
            self.assertIn("wall time", result.stderr)

    def test_figures_of_a_program_that_is_killed(self):
        process = self.waiting("--stats")
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
            os.kill(int(children.read()), signal.SIGKILL)
        result = subprocess.CompletedProcess([], 0, *process.communicate(timeout=280))
        self.assertEqual(process.returncode, -signal.SIGKILL)
        self.check(result)

    def test_keys_of_the_terminal_are_the_programs_to_handle(self):
        # A session of its own with a terminal: Ctrl-C reaches both, and once.
        script = 'trap "n=x$n" INT; echo ready; while [ -z "$n" ]; do sleep 0.05; done; ' \
                 'sleep 0.2; echo "caught $n"; exit 4'
        process, terminal = pty.fork()
        if process == 0:
            os.execv(GLEANER, [GLEANER, "run", "--stats", "sh", "-c", script])
        output = b""
        while True:
            try:
                output += os.read(terminal, 1000)
            except OSError:  # the other end is closed
                break
            if b"ready" in output and b"^C" not in output:
                os.write(terminal, b"\x03")
        _, status = os.waitpid(process, 0)
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(status), 4, output)
        self.assertIn(b"caught x\r\n", output)
        self.assertIn(b"wall time", output)

    def test_killing_the_command_kills_the_program(self):
        process = subprocess.Popen([GLEANER, "run", "--stats", "sh", "-c", "echo $$; exec sleep 60"],
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.stdout.readline()
        process.kill()
        # The program has the other end: this is the end of file.
        self.assertEqual(process.communicate(timeout=280)[0], "")

    def test_stopping_the_program_stops_the_command(self):
        process = subprocess.Popen([GLEANER, "run", "--stats", "sh", "-c", "kill -STOP $$; exit 9"],
                                   stderr=subprocess.DEVNULL)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status))
        os.kill(process.pid, signal.SIGCONT)
        _, status = os.waitpid(process.pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 9)

    def test_a_program_that_does_not_use_the_library(self):
        for program in (["true"], [CLIENT, "idle"]):
            result = self.run_it("--stats", *program)
            self.assertIn("has not used the library", result.stderr)
            self.assertIn("wall time", result.stderr)
            self.assertNotIn("collections", result.stderr)

    def test_ignored_signals_stay_ignored(self):
        self.run_it("--stats", "sh", "-c", "kill -HUP $$; kill -CHLD $$; exit 8", status=8,
                    preexec_fn=lambda: [signal.signal(s, signal.SIG_IGN)
                                        for s in (signal.SIGHUP, signal.SIGCHLD)])


class Refusals(RunTest):
    def copy_of_client(self, change):
        data = bytearray(content(CLIENT, "rb"))
        change(data)
        path = put(self.path("program"), data)
        os.chmod(path, 0o755)
        return path

    def refused(self, status, message, *command, **options):
        for flags in ([], ["--stats"]):
            result = self.run_it(*flags, *command, status=status, **options)
            self.assertEqual(result.stdout, "")
            self.assertRegex(result.stderr, message)
            self.assertNotIn("wall time", result.stderr)

    def test_no_program(self):
        self.refused(125, "which program")

    def test_no_such_option(self):
        self.refused(125, "--stat", "--stat", "true")

    def test_no_such_program(self):
        self.refused(127, "no-such-program: no such program", "no-such-program")
        self.refused(127, "no such program", self.folder + "/none")
        self.refused(127, "no such program", "")

    def test_not_executable(self):
        path = put(self.path("file"), "#!/bin/sh\n")
        self.refused(126, "file: not executable", path)
        self.refused(126, "not executable", self.folder)
        self.refused(126, "not executable", "file", env={"PATH": self.folder})

    def test_interpreter_missing(self):
        path = put(self.path("script"), "#! /no/interpreter -x\n")
        os.chmod(path, 0o755)
        self.refused(126, "script: its interpreter /no/interpreter does not exist", path)

    def test_statically_linked(self):
        def drop_loader(data):
            offset, = struct.unpack_from("<Q", data, 32)
            size, count = struct.unpack_from("<HH", data, 54)
            for i in range(count):
                at = offset + i * size
                if struct.unpack_from("<I", data, at)[0] == 3:  # PT_INTERP
                    struct.pack_into("<I", data, at, 0)
        self.refused(125, "statically linked", self.copy_of_client(drop_loader))

    def test_other_machine(self):
        self.refused(125, "another machine",
                     self.copy_of_client(lambda data: struct.pack_into("<H", data, 18, 8)))

    def test_set_user_id(self):
        path = self.copy_of_client(lambda data: None)
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)
            os.chmod(path, 0o4755)
        else:
            path = shutil.which("su")
        self.assertTrue(os.stat(path).st_mode & stat.S_ISUID)
        self.refused(125, "other rights", path)

    @unittest.skipIf(subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0,
                     "no mount name space of its own")
    def test_without_proc(self):
        result = subprocess.run(["unshare", "-m", "sh", "-c", f"umount -l /proc && {GLEANER} run true"],
                                capture_output=True, text=True)
        self.assertNotIn("library is missing", result.stderr)

    def test_library_missing(self):
        os.mkdir(self.folder + "/bin")
        tool = shutil.copy(GLEANER, self.folder + "/bin/gleaner")
        self.refused(125, "library is missing: .*/lib/gleaner/libgc.so.1", "true", tool=tool)

    def test_a_copied_tree_finds_its_own_library(self):
        os.makedirs(self.folder + "/bin")
        os.makedirs(self.folder + "/lib/gleaner")
        tool = shutil.copy(GLEANER, self.folder + "/bin/gleaner")
        shutil.copy(DROPIN, self.folder + "/lib/gleaner/libgc.so.1")
        os.symlink(tool, self.folder + "/link")
        result = self.run_it("sh", "-c", "echo $LD_LIBRARY_PATH", tool=self.folder + "/link",
                             env={"PATH": os.environ["PATH"]})
        self.assertEqual(result.stdout, os.path.realpath(self.folder) + "/lib/gleaner\n")


class CommandLine(CommandTest):
    def test_what_is_wrong_is_named_and_has_one_status(self):
        for arguments, named in (
                ("", "command"), ("frob", "frob"), ("--frob", "--frob"), ("--frob run true", "--frob"),
                ("options --frob", "--frob"), ("options frob", "frob"), ("symbolize frob", "frob"),
                ("run --frob true", "--frob"), ("run --malloc=maybe true", "maybe"), ("run", "program"),
                ("run --leaks true", "--malloc"), ("record -o", "--output"), ("record", "program"),
                ("record --limit much true", "much"), ("record --limit 1 true", "--limit"),
                ("replay", "TRACE"), ("replay one two", "two"), ("replay one --frob", "--frob"),
                ("replay one --allocator frob", "frob"), ("replay one --touch frob", "frob"),
                ("replay one --points 0", "--points")):
            result = self.execute(GLEANER, *arguments.split(), status=125)
            self.assertEqual(result.stdout, "", arguments)
            self.assertRegex(result.stderr, f"^gleaner.*{named}", arguments)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_help_is_no_error(self):
        for arguments in (["--help"], ["run", "--help"], ["record", "--help"], ["replay", "--help"]):
            self.assertEqual(self.execute(GLEANER, *arguments).stderr, "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
