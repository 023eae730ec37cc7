#!/usr/bin/env python3
"""gleaner numa, and programs on their own copy of their text, on the machine as it is. Several nodes:
tests/numa/report_test.py.

usage: numa_test.py GLEANER DROPIN CLIENT REFUSE MALLOC
"""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from command import Client, CommandTest, clean, content

GLEANER, DROPIN, CLIENT, REFUSE, MALLOC = (os.path.abspath(path) for path in sys.argv[1:6])
NOBODY = 65534
LIMIT = 60  # seconds; nothing comes near
PAGE = os.sysconf("SC_PAGE_SIZE")
GROUPS = ["heap", "C heap", "stacks", "text", "read-only", "data", "file", "shared", "code", "other"]
ENVIRONMENT = clean(DROPIN)


class NumaTest(CommandTest):
    def gleaner(self, *arguments, **options):
        return self.execute(GLEANER, *arguments, **{"env": ENVIRONMENT, **options})

    def numa(self, pid, *arguments):
        return self.gleaner("numa", str(pid), *arguments)

    def client(self, *words, command=(CLIENT,)):
        client = Client(*command, *words, environment=ENVIRONMENT)
        self.addCleanup(client.close)
        # Nothing changes any more once it waits in read(0, ...).
        while not re.match(r"\d+ 0x0 ", content(f"/proc/{client.pid}/syscall")):
            time.sleep(0.001)
        return client

    def document(self, pid, *arguments):
        return json.loads(self.numa(pid, "--json", *arguments).stdout)

    def failure(self, *arguments):
        result = self.gleaner("numa", *arguments, status=1)
        self.assertEqual(result.stdout, "")
        return result.stderr


def parts(document, group):
    return {part["name"]: sum(part["bytes"].values()) for part in document["parts"]
            if part["group"] == group}


class Figures(NumaTest):
    def test_parts(self):
        client = self.client()
        document = self.document(client.pid)
        self.assertEqual(document["process"], client.pid)
        self.assertTrue(document["numa_maps"])
        heap = parts(document, "heap")
        self.assertGreaterEqual(heap["small objects"], 4 << 20)
        self.assertGreaterEqual(heap["small pointer-free objects"], 500 * 1000)
        self.assertGreaterEqual(heap["small uncollectable objects"], PAGE)
        for name, size in (("large objects", 6 << 20), ("large pointer-free objects", 9 << 20)):
            self.assertTrue(size <= heap[name] <= size + (1 << 20), heap)
        for name in ("mark bytes", "page descriptors", "free pages"):
            self.assertIn(name, heap)
        large = {object_["address"]: object_ for object_ in document["large_objects"]}
        for name, size in (("large", 6 << 20), ("pointer_free", 9 << 20)):
            object_ = large[client.said[name]]
            self.assertGreaterEqual(object_["object_bytes"], size)
            self.assertGreaterEqual(sum(object_["bytes"].values()), size)
            self.assertEqual(object_["pointer_free"], name == "pointer_free")
        self.assertGreaterEqual(parts(document, "data")[CLIENT], 3 << 20)
        self.assertGreaterEqual(sum(parts(document, "shared").values()), 5 << 20)
        for group in ("text", "read-only", "data"):
            self.assertIn(DROPIN, parts(document, group))
        self.assertGreaterEqual(sum(parts(document, "stacks").values()), 3 * PAGE)

    def test_their_sum_is_that_of_numa_maps(self):
        client = self.client()
        document = self.document(client.pid)
        sums = {}
        for line in content(f"/proc/{client.pid}/numa_maps").splitlines():
            page = int(re.search(r"kernelpagesize_kB=(\d+)|$", line)[1] or 4) << 10
            for node, pages in re.findall(r" N(\d+)=(\d+)", line):
                sums[node] = sums.get(node, 0) + int(pages) * page
        self.assertEqual(document["bytes"], sums)
        of_parts = {}
        for part in document["parts"]:
            self.assertIn(part["group"], GROUPS)
            for node, size in part["bytes"].items():
                of_parts[node] = of_parts.get(node, 0) + size
        self.assertEqual(of_parts, sums)

    def test_the_table_has_the_same(self):
        client = self.client()
        table = self.numa(client.pid).stdout
        self.assertRegex(table, rf"\Agleaner numa: process {client.pid} \(\S+\), policy \S+\n\npart ")
        for row in (r"heap +small objects +4\.\d MB +100\.0 %", r"large +0x[0-9a-f]+, pointer-free ",
                    r"all +\d+\.\d MB"):
            self.assertRegex(table, rf"(?m)^{row}")
        self.assertLessEqual(max(map(len, table.splitlines())), 100)
        self.assertNotIn("more  ", self.numa(client.pid, "--all").stdout)

    def test_a_process_without_gleaner_and_the_malloc(self):
        for command in ((sys.executable,), (GLEANER, "run", "--malloc", sys.executable)):
            python = self.client("-c", "x = [bytes([i]) * 200000 for i in range(100)]\n"
                                 "print('waiting', flush=True)\ninput()", command=command)
            document = self.document(python.pid)
            self.assertGreater(sum(document["bytes"].values()), 1 << 20)
            self.assertTrue(parts(document, "text"))
        heap = parts(document, "heap")
        self.assertEqual(set(heap) - {"free pages"},
                         {"small blocks", "large blocks", "mark bytes", "page descriptors"})
        self.assertGreater(heap["small blocks"], 1 << 20)
        self.assertGreaterEqual(heap["large blocks"], 18 << 20)

    def test_many_mappings(self):
        client = self.client("mappings", "30000")
        begin = time.monotonic()
        document = self.document(client.pid)
        print(f"30,000 mappings: {time.monotonic() - begin:.2f} s")
        self.assertGreaterEqual(parts(document, "other")[""], 29000 * PAGE)


class Processes(NumaTest):
    def test_that_are_not_there(self):
        process = subprocess.Popen(["true"])
        process.wait()
        self.assertIn("there is none of that number", self.failure(str(process.pid)))
        self.assertIn("4194304", self.failure("4194304"))

    def test_one_that_has_ended_and_was_not_waited_for(self):
        process = subprocess.Popen(["true"])
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self.assertIn("it has ended", self.failure(str(process.pid)))
        process.wait()

    def test_a_thread_of_the_kernel(self):
        with open("/proc/2/comm") as file:
            if file.read() != "kthreadd\n":
                self.skipTest("its processes are not shown here")
        self.assertIn("part of the kernel", self.failure("2"))

    def test_anothers(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be somebody else")
        client = self.client()
        os.chmod(self.folder, 0o755)  # nobody may not reach the build's
        tool = shutil.copy(GLEANER, self.folder)
        result = self.execute(tool, "numa", str(client.pid), status=1, user=NOBODY, group=NOBODY,
                              extra_groups=[])
        self.assertEqual(result.stdout, "")
        self.assertIn("its memory cannot be read: Permission denied", result.stderr)

    def test_that_end_while_they_are_read(self):
        for _ in range(20):
            client = self.client("mappings", "2000")
            tool = subprocess.Popen([GLEANER, "numa", "--json", str(client.pid)], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(0.002)
            client.process.kill()
            output, errors = tool.communicate(timeout=LIMIT)
            self.assertIn(tool.returncode, (0, 1), errors)
            if tool.returncode == 0:
                json.loads(output)
            else:
                self.assertRegex(errors, r"\Agleaner numa: process \d+: .*\n\Z")

    def test_a_running_one(self):
        with subprocess.Popen([sys.executable, "-c", "print(1, flush=True)\nwhile True: pass"],
                              stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            self.document(process.pid)
            process.kill()


class Outputs(NumaTest):
    def test_options_that_are_wrong(self):
        for words in ((), ("x",), ("0",), ("-1",), ("99999999999",), ("1", "2"), ("--jsn", "1"),
                      ("--after", "1", "1"), ("--after", "x", "--", "true"), ("--",)):
            result = self.gleaner("numa", *words, status=125)
            self.assertRegex(result.stderr, r"\Agleaner( numa)?: .+\n\Z", words)

    def test_closed_and_full(self):
        client = self.client()
        for redirection, reason in ((">&-", "Bad file"), (">/dev/full", "No space")):
            result = self.execute("sh", "-c", f'"$0" numa {client.pid} {redirection}', GLEANER,
                                  status=1)
            self.assertIn(reason, result.stderr)

    def test_a_file(self):
        client = self.client()
        path = self.path("report")
        self.assertEqual(self.numa(client.pid, "-o", path, "--json").stdout, "")
        self.assertEqual(json.loads(content(path))["process"], client.pid)
        self.assertIn("No such file", self.failure(str(client.pid), "-o", self.path("no/file")))

    def test_nothing_to_fix(self):
        client = self.client()
        document = self.document(client.pid, "--fix")
        self.assertEqual(document["moved"]["pages"], 0)
        self.assertEqual(document["before"]["bytes"], document["after"]["bytes"])
        self.assertIn("Nothing is", self.numa(client.pid, "--fix").stdout)


class Programs(NumaTest):
    def test_report_at_the_end(self):
        result = self.gleaner("numa", "--", "sh", "-c", "echo out; exit 7", status=7)
        self.assertEqual(result.stdout, "out\n")
        self.assertRegex(result.stderr, r"\Agleaner numa: process \d+ \(sh\)")
        result = self.gleaner("numa", "--json", "--", CLIENT, stdin=subprocess.DEVNULL)
        document = json.loads(result.stderr)
        self.assertGreaterEqual(parts(document, "heap")["large objects"], 6 << 20)
        self.gleaner("numa", "--json", "--", CLIENT, "exit")

    def test_ends_by_signals(self):
        for name in ("TERM", "SEGV", "KILL"):
            number = getattr(signal, f"SIG{name}")
            result = self.gleaner("numa", "--", "sh", "-c", f"kill -{name} $$", status=-number)
            if name == "KILL":  # the kernel may not wait for anybody then
                continue
            self.assertIn("gleaner numa: process ", result.stderr)

    def test_signals_and_stops_reach_the_program(self):
        program = ("trap 'echo caught' USR1; kill -USR1 $$; (sleep 0.3; kill -CONT $PPID) & "
                   "kill -STOP $$; wait; echo end")
        result = self.gleaner("numa", "--", "sh", "-c", program)
        self.assertEqual(result.stdout, "caught\nend\n")

    def test_a_program_that_executes_another(self):
        result = self.gleaner("numa", "--json", "--", "sh", "-c", "exec env sleep 0")
        self.assertEqual(json.loads(result.stderr)["name"], "sleep")

    def test_after_a_time(self):
        result = self.gleaner("numa", "--after", "0.2", "--json", "--", "sleep", "0.6")
        self.assertEqual(json.loads(result.stderr)["name"], "sleep")
        result = self.gleaner("numa", "--after", "30", "--", "false", status=1)
        self.assertIn("false had ended before there was something to report", result.stderr)

    def test_that_cannot_be_run(self):
        for after in ((), ("--after", "0")):
            for program, status, reason in (("/no/program", 127, "No such file or directory"),
                                            ("/etc/passwd", 126, "Permission denied")):
                result = self.gleaner("numa", *after, "--", program, status=status)
                self.assertEqual(result.stderr, f"gleaner numa: {program}: {reason}\n")
        result = self.gleaner("numa", "--json", "--after", "0", "--", "sleep", "0.2")
        self.assertEqual(json.loads(result.stderr)["name"], "sleep")

    def test_without_ptrace(self):
        result = self.execute(REFUSE, "ptrace", str(errno.EPERM), GLEANER, "numa", "--", "sh", "-c",
                              "exit 3", status=3)
        self.assertIn("its end cannot be observed: ptrace fails", result.stderr)


class LocalText(NumaTest):
    def test_no_file_has_the_text(self):
        client = self.client(command=(GLEANER, "run", "--local-text", CLIENT))
        document = self.document(client.pid)
        for group in ("text", "read-only"):
            names = parts(document, group)
            self.assertTrue(names)
            for name in names:
                self.assertTrue(name.endswith(" (copy)"), names)
            self.assertIn(f"{DROPIN} (copy)", names)
        self.assertIn("small objects", parts(document, "heap"))  # the note is found in the copy
        self.assertEqual(re.findall("r-xp.*/.*", content(f"/proc/{client.pid}/maps")), [])
        top = json.loads(self.gleaner("top", str(client.pid), "--once", "--json").stdout)
        self.assertEqual(top["heaps"][0]["file"], DROPIN)

    def test_programs_work(self):
        program = "import json, ssl, threading; print(json.dumps([1]))"
        for options in ((), ("--malloc",)):
            result = self.gleaner("run", "--local-text", *options, sys.executable, "-c", program)
            self.assertEqual((result.stdout, result.stderr), ("[1]\n", ""))
        result = self.gleaner("run", "--local-text", "sh", "-c", "ls -d /; kill -TERM $$",
                         status=-signal.SIGTERM)
        self.assertEqual(result.stdout, "/\n")

    def test_before_and_after(self):
        result = self.gleaner("numa", "--fix", "--", "sh", "-c", "ls -d /")
        self.assertRegex(result.stderr, r"(?s)\Agleaner: sh: text and read-only data of \d+ objects, "
                         r"\d+ kB, copied\ngleaner:   in memory before: node 0: \d+ pages\n"
                         r"gleaner:   after: node 0: \d+ pages\ngleaner numa: process \d+ \(sh\)")

    def test_refused(self):
        result = self.execute(REFUSE, "mprotect", str(errno.EACCES), GLEANER, "run", "--local-text",
                              "echo", "a")
        self.assertEqual(result.stdout, "a\n")
        self.assertRegex(result.stderr, r"\Agleaner: local text: that of the program stays where it "
                         r"is: mprotect: Permission denied\n\Z")
        for error in (errno.ENOSYS, errno.EPERM):
            result = self.execute(REFUSE, "move_pages", str(error), GLEANER, "numa", "--fix", "--",
                                  "echo", "a")
            self.assertEqual(result.stdout, "a\n")
            self.assertIn("where it was and is, move_pages does not tell", result.stderr)

    def test_programs_that_load_nothing(self):
        busybox = shutil.which("busybox")
        if busybox:
            for command in (("run", "--local-text"), ("numa", "--fix", "--")):
                result = self.gleaner(*command, busybox, "true", status=125)
                self.assertIn("is statically linked", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
