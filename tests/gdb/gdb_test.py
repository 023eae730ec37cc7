#!/usr/bin/env python3
"""tools/gdb/gleaner_gdb.py on a process and on its core file: what it says of client.c's objects.

usage: gdb_test.py SCRIPT GDB CLIENT [MODE [NAME=VALUE...]]
       gdb_test.py SCRIPT GDB CLIENT errors DROPIN

77: gdb cannot look into processes here. Both get the same commands while the process stands still,
so that what gdb says of the core has to be word for word what it says of the process. gdb writes all that
is reserved into a core file, so the client reserves little.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

SCRIPT, GDB, CLIENT = (os.path.abspath(path) for path in sys.argv[1:4])
MODE = sys.argv[4] if len(sys.argv) > 4 else ""
REST = sys.argv[5:]
SKIP = 77
WORD = r"0x[0-9a-f]+"


class Client:
    """The program, at its wait."""

    def __init__(self, *arguments, **environment):
        self.process = subprocess.Popen([CLIENT, *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})
        self.said = {}
        for line in self.process.stdout:
            if line == "ready\n":
                return
            key, value = line.split()
            self.said[key] = int(value, 0)
        raise AssertionError(f"the client ended: {self.process.wait()}")

    def close(self):
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.stdout.close()
        return self.process.wait()


def gdb(target, commands, script=SCRIPT):
    """What each command says, errors included."""
    arguments = [GDB, "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex",
                 "set pagination off", *target, "-x", script]
    for command in commands:
        arguments += ["-ex", "echo \\n<<<\\n", "-ex", command]
    result = subprocess.run(["prlimit", f"--fsize={2**30}", *arguments],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=280)
    head, *parts = result.stdout.split("\n<<<\n")
    if re.search(r"ptrace: Operation not permitted|Could not attach|ptrace: Function not impl", head):
        print("skipped:", head)
        sys.exit(SKIP)
    # gdb tells of the process that it lets go after the last command.
    parts = [re.sub(r"\[Inferior \d+ .* detached\]\n", "", part) for part in parts]
    return parts, head


class Errors(unittest.TestCase):
    def one(self, target, command, script=SCRIPT):
        parts, head = gdb(target, [command], script)
        self.assertEqual(len(parts), 1, head)
        self.assertNotIn("Python Exception", parts[0])
        return parts[0]

    def test_no_process(self):
        self.assertIn("there is no process and no core file", self.one([], "gleaner address 1"))

    def test_not_a_process_with_gleaner(self):
        process = subprocess.Popen(["sleep", "300"])
        try:
            self.assertIn("not a process with Gleaner", self.one(["-p", str(process.pid)],
                                                                  "gleaner address 1"))
        finally:
            process.kill()
            process.wait()

    def test_heap_that_was_not_used(self):
        client = Client("unused")
        self.assertIn("the heap has not been used yet",
                      self.one(["-p", str(client.process.pid)], "gleaner address 1"))
        client.close()

    def test_library_without_symbols(self):
        with tempfile.TemporaryDirectory() as folder:
            stripped = os.path.join(folder, "libgc.so.1")
            shutil.copy(REST[0], stripped)
            subprocess.run(["strip", stripped], check=True)
            client = Client(LD_LIBRARY_PATH=folder)
            said = self.one(["-p", str(client.process.pid)], "gleaner address 1")
            client.close()
        self.assertIn(f"{stripped}: Gleaner without debug information", said)

    def test_fatal_error_says_what_to_type(self):
        process = subprocess.Popen(["prlimit", "--core=0", CLIENT, "fatal"], stderr=subprocess.PIPE,
                                   text=True)
        _, said = process.communicate()
        self.assertEqual(process.returncode, -signal.SIGABRT)
        self.assertIn(f"gleaner: the heap in gdb: gdb -p {process.pid}, or gdb PROGRAM CORE; then: "
                      f"source PREFIX/share/gleaner/{os.path.basename(SCRIPT)}\n", said)

    def test_addresses(self):
        client = Client()
        target = ["-p", str(client.process.pid)]
        (local, none, word, command, beyond), _ = gdb(target, [
            f"gleaner address {client.said['local']:#x}", "gleaner address",
            "gleaner roots no_such_name", "gleaner rots",
            f"gleaner address {client.said['large'] + (32 << 20):#x}"])
        client.close()
        self.assertRegex(local, rf"^{client.said['local']:#x} is not in the heap \({WORD} to {WORD}\)")
        self.assertIn("an address is missing", none)
        self.assertEqual(word.strip(), 'No symbol "no_such_name" in current context.')
        self.assertIn("there is no command rots", command)
        self.assertIn("is reserved for the heap and not in use", beyond)


class Heap(unittest.TestCase):
    """One process, all commands, twice: on it and on its core file."""

    @classmethod
    def setUpClass(cls):
        environment = dict(assignment.split("=", 1) for assignment in REST)
        cls.client = Client(MODE, **environment) if MODE else Client(**environment)
        cls.said = said = cls.client.said
        cls.names = [name for name in ("thread", "global", "stack", "uncollectable", "held", "large",
                                       "freed", "fiber", "young") if name in said]
        commands = {f"address {name}": f"gleaner address {said[name]:#x}" for name in cls.names}
        commands["address inside"] = f"gleaner address {said['large'] + 50000:#x}"
        commands["address next"] = f"gleaner address {said['global'] - 96:#x}"
        commands |= {f"roots {name}": f"gleaner roots {said[name] + 8:#x} -heap"
                     for name in cls.names}
        with tempfile.TemporaryDirectory() as folder:
            core = os.path.join(folder, "core")
            parts, head = gdb(["-p", str(cls.client.process.pid)],
                              [*commands.values(), f"generate-core-file {core}"])
            cls.live = dict(zip(commands, parts))
            assert os.path.exists(core), head + parts[-1]
            # What is reserved, 64 GiB at least, is not in it.
            assert os.path.getsize(core) < 512 << 20, os.path.getsize(core)
            cls.status = cls.client.close()
            parts, cls.core_head = gdb([CLIENT, core], commands.values())
            cls.core = dict(zip(commands, parts))
        for command, output in cls.live.items():
            print(f"--- {command}\n{output}")

    def line(self, command, label):
        found = re.search(rf"^{label} +(.*)$", self.live[command], re.M)
        self.assertIsNotNone(found, self.live[command])
        return found[1]

    def roots(self, name):
        return [line for line in self.live[f"roots {name}"].splitlines()
                if line.startswith(("root:", "heap:"))]

    def test_the_process_went_on(self):
        self.assertEqual(self.status, 0)

    def test_the_core_says_the_same(self):
        self.assertEqual(list(self.core), list(self.live), self.core_head)
        for command, output in self.live.items():
            self.assertEqual(self.core[command], output, command)

    def test_sizes_and_kinds(self):
        for name, kind, size in (("thread", "normal", 320), ("global", "normal", 48),
                                 ("stack", "atomic", 1024), ("uncollectable", "uncollectable", 224),
                                 ("held", "normal", 64), ("large", "normal", 100000),
                                 ("fiber", "normal", 768)):
            self.assertEqual(self.line(f"address {name}", "kind"), kind)
            self.assertEqual(self.line(f"address {name}", "object"),
                             f"{self.said[name]:#x}, {size} bytes: the address is at +0")
        self.assertEqual(self.line("address inside", "object"),
                         f"{self.said['large']:#x}, 100000 bytes: the address is at +50000")
        self.assertIn(" of the pointer-free space: small", self.line("address stack", "page"))
        self.assertIn(" of the scanned space: small", self.line("address global", "page"))
        self.assertRegex(self.line("address inside", "page"), ": tail of the large object of page ")
        self.assertRegex(self.line("address global", "slots"), r"^341 of 48 bytes \(size class 2\): ")

    def test_runs(self):
        if MODE == "":  # the object was the first of its page
            self.assertRegex(self.line("address global", "slots"),
                             ": 1 allocated, 340 in a run, 0 free$")
        self.assertNotIn("\nrun ", self.live["address global"])
        self.assertTrue(self.line("address next", "run").endswith("not handed out yet"))

    def colour(self, name):
        return re.match(r"\d+: (\w+):", self.line(f"address {name}", "mark"))[1]

    def test_colours(self):
        self.assertEqual(self.colour("freed"), "free")
        marking = ("white", "black")
        kept = {"": ("live",), "collected": ("live",), "cycle": marking, "stopped": marking}[MODE]
        if "GLEANER_GENERATIONAL=2" in REST and MODE == "":
            kept = ("young",)
        for name in ("thread", "global", "stack", "uncollectable", "held", "large"):
            self.assertIn(self.colour(name), kept, name)
        if "young" in self.said:
            born = "young" if "GLEANER_GENERATIONAL=2" in REST else "live"
            self.assertEqual(self.colour("young"), "black" if MODE == "cycle" else born)

    def test_heaps(self):
        threads = [self.said["tid"], self.said["thread_tid"]]
        heaps = []
        for name, thread in (("thread", 1), ("global", 0), ("stack", 0), ("uncollectable", 0)):
            heap = re.match(rf"(\d+), of thread {threads[thread]} ", self.line(f"address {name}", "heap"))
            self.assertIsNotNone(heap, self.live[f"address {name}"])
            heaps.append(heap[1])
        self.assertEqual(heaps[1:], heaps[1:2] * 3)
        self.assertNotEqual(*heaps[:2])
        self.assertIn("large objects", self.line("address large", "heap"))
        used, unused, free = re.search(r": (\d+) allocated, (\d+) in a run, (\d+) free$",
                                       self.line("address thread", "slots")).groups()
        self.assertEqual(used, "1")
        if MODE != "cycle":
            self.assertEqual((int(unused), free), (16384 // 320 - 1, "0"))

    def expect_root(self, name, pattern):
        roots = self.roots(name)
        self.assertEqual(len(roots), 1, roots)
        self.assertRegex(roots[0], pattern)

    def test_roots(self):
        said = self.said
        self.expect_root("global", rf"^root: data: {WORD} \(kept_by_global in section \.bss of .*\) "
                                   rf"holds {said['global']:#x}, its base$")
        self.expect_root("held", rf"^root: uncollectable: {said['uncollectable'] + 24:#x} in object "
                                 rf"{said['uncollectable']:#x}, 224 bytes, uncollectable holds ")
        self.expect_root("large", rf"^heap: {said['global'] + 8:#x} in object {said['global']:#x}, 48 "
                                  rf"bytes, normal holds {said['large']:#x}, its base$")
        self.assertTrue([line for line in self.roots("fiber") if re.match(
            rf"root: fresh fiber {WORD}, stack: {WORD} holds {said['fiber']:#x}, its base$", line)],
                        self.live["roots fiber"])
        self.assertIn("root: the object itself is uncollectable", self.live["roots uncollectable"])
        stack = [line for line in self.roots("stack") if f": {said['local']:#x} " in line]
        self.assertEqual(len(stack), 1, self.live["roots stack"])
        self.assertRegex(stack[0], rf"^root: thread {said['tid']} .*, stack: {said['local']:#x} "
                                   r"\(frame \d+, main\) holds ")
        # libgleaner.a has its own words in the program's data: that of the heap's end, for one.
        self.assertTrue(all(f"thread {said['tid']} " in line for line in self.roots("stack")
                            if not re.search(r" \(GC_\w+ in section ", line)))
        self.assertTrue(self.roots("thread"))
        for line in self.roots("thread"):
            self.assertIn(f"root: thread {said['thread_tid']} ", line)


if __name__ == "__main__":
    chosen = Errors if MODE == "errors" else Heap
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(chosen)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
