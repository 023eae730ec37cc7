#!/usr/bin/env python3
"""gleaner top: its figures beside those of the API, processes of all kinds, and terminals.

usage: top_test.py GLEANER DROPIN CLIENT SHARED STATIC MALLOC
SHARED, STATIC: the client with libgleaner.so and libgleaner.a. MALLOC: libgleaner_malloc.so.
"""

import fcntl
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import unittest

from command import SEED, Client, CommandTest, clean, content, put

GLEANER, DROPIN, CLIENT, SHARED, STATIC, MALLOC = (os.path.abspath(path) for path in sys.argv[1:7])
NOBODY = 65534
LIMIT = 60  # seconds; nothing comes near


class TopTest(CommandTest):
    def client(self, *words, program=CLIENT, library=DROPIN, **variables):
        client = Client(program, *words, environment=clean(library, **variables))
        self.addCleanup(client.close)
        return client

    def top(self, pid, *arguments, status=0, **options):
        result = self.execute(GLEANER, "top", str(pid), *arguments, status=status, **options)
        if status != 0:
            self.assertEqual(result.stdout, "")
            self.assertTrue(result.stderr.startswith("gleaner top: "), result.stderr)
            return result.stderr
        return result.stdout

    def shown(self, client):
        """The command, which shows the client again and again."""
        top = self.enterContext(subprocess.Popen(
            [GLEANER, "top", str(client.pid), "-d", "0.01"], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE))
        self.first_line = top.stdout.readline()
        return top

    def check_ended(self, top, message, status=0):
        """It says so, and nothing more is shown; all that it has shown."""
        shown = top.stdout.read()
        said = top.stderr.read()
        self.assertRegex(said, message)
        self.assertEqual(top.wait(LIMIT), status, said)
        return shown

    def heaps(self, pid):
        document = json.loads(self.top(pid, "--once", "--json"))
        self.assertEqual(document["process"], pid)
        return document["heaps"]

    def heap(self, pid):
        heap, = self.heaps(pid)
        return heap


class Figures(TopTest):
    def test_they_are_those_of_the_api(self):
        client = self.client("work", "tell", "wait", GC_MARKERS="2")
        heap = self.heap(client.pid)
        for name, value in client.said.items():
            self.assertEqual(heap[name], value, name)
        self.assertEqual(heap["file"], DROPIN)
        self.assertEqual(heap["markers"], 2)
        self.assertEqual(heap["threads"], 1)
        self.assertEqual(heap["causes"]["explicit"], 1)
        self.assertEqual(heap["last"]["cause"], "explicit")
        self.assertGreaterEqual(heap["live_objects"], 2**13 - 1)
        self.assertGreater(heap["freed_since_bytes"], 0)
        self.assertGreater(heap["stalls"]["pause"]["total_ns"], 0)
        self.assertTrue(0 < heap["metadata_bytes"] < 2**30)

    def test_the_frame_has_the_same(self):
        client = self.client("work", "tell", "wait", GLEANER_MODE="stop")
        text = self.top(client.pid, "--once")
        self.assertRegex(text, rf"^gleaner top: process {client.pid} \(gleaner_top_cli\)\n\n"
                               rf"{DROPIN}, Gleaner [\d.]+\nheap +[\d.]+ MB, free ")
        self.assertRegex(text, rf"collections {client.said['collections']}: .*explicit 1\n +stop-p")
        self.assertIn("mode stop-parallel, cycle idle", text)
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()[3:]), text)
        self.assertEqual(self.top(client.pid, "-n", "3", "-d", "0.01").count("\nheap "), 3)

    def test_figures_of_a_collection_belong_together(self):
        for mode in ("stop", "concurrent", "generational"):
            client = self.client("run", GLEANER_MODE=mode, GLEANER_SHORT_PAUSE="0",
                                 GLEANER_COLLECT_EVERY="128k")
            seen = 0
            for _ in range(25):
                heap = self.heap(client.pid)
                self.assertTrue(heap["whole"])
                self.assertEqual(sum(heap["causes"].values()), heap["collections"])
                self.assertEqual(sum(heap["kinds"].values()), heap["collections"])
                self.assertGreaterEqual(heap["collections"], seen)
                seen = heap["collections"]
                if seen == 0:
                    continue
                # What came since the collection is in the heap, but for what came after the reading
                # of its size.
                self.assertLessEqual(heap["allocated_since_bytes"], heap["heap_bytes"] + 2**17)
                self.assertLessEqual(heap["last"]["pause_ns"], heap["longest_pause_ns"])
                self.assertLessEqual(heap["longest_pause_ns"], heap["pause_ns"])
                self.assertLessEqual(heap["last"]["end_ns"], heap["time_ns"])
                self.assertTrue(0 <= heap["paused_share"] <= 1)
                self.assertTrue(0 <= heap["least_utilisation"] <= 1)
            client.close()

    def test_a_process_that_stands_still(self):
        client = self.client("work", "tell", "wait")
        os.kill(client.pid, signal.SIGSTOP)
        self.assertEqual(self.heap(client.pid)["heap_bytes"], client.said["heap_bytes"])


class Programs(TopTest):
    def test_other_libraries(self):
        for program in (SHARED, STATIC):
            client = self.client("work", "tell", "wait", program=program)
            self.assertEqual(self.heap(client.pid)["heap_bytes"], client.said["heap_bytes"])

    def test_a_static_program_without_symbols(self):
        stripped = self.path("stripped")
        subprocess.run(["strip", "-o", stripped, STATIC], check=True)
        client = self.client("work", "tell", "wait", program=stripped)
        self.assertEqual(self.heap(client.pid)["heap_bytes"], client.said["heap_bytes"])

    def test_a_collecting_malloc_and_another_copy(self):
        client = self.client("work", "wait", LD_PRELOAD=MALLOC, GLEANER_COLLECT="1")
        heaps = self.heaps(client.pid)
        self.assertIn(MALLOC, [heap["file"] for heap in heaps])
        self.assertEqual(self.top(client.pid, "--once").count("\nheap "), len(heaps))

    def test_a_library_that_is_deleted(self):
        library = self.path("libgc.so.1")
        shutil.copy(DROPIN, library)
        client = self.client("work", "tell", "wait", library=library)
        os.remove(library)
        heap = self.heap(client.pid)
        self.assertEqual(heap["heap_bytes"], client.said["heap_bytes"])
        self.assertEqual(heap["file"], library + " (deleted)")

    def test_a_library_with_a_long_path(self):
        folder = self.path("/".join(["f" * 200] * 4))
        os.makedirs(folder)
        library = os.path.join(folder, "libgc.so.1")
        shutil.copy(DROPIN, library)
        client = self.client("work", "wait", library=library)
        self.assertEqual(self.heap(client.pid)["file"], library)
        self.assertIn(f"\n{library}, Gleaner ", self.top(client.pid, "--once"))

    def test_a_library_of_another_version(self):
        library = self.path("libgc.so.1")
        data = content(DROPIN, "rb")
        self.assertIn(b"GLNTOP3", data)
        put(library, data.replace(b"GLNTOP3", b"GLNTOP9"))
        client = self.client("work", "wait", library=library)
        self.assertIn("its Gleaner is of another version", self.top(client.pid, "--once", status=1))

    def test_a_child_of_fork(self):
        client = self.client("work", "fork", "work", "tell", "wait")
        heap = self.heap(client.said["child"])
        self.assertEqual(heap["allocated_bytes"], client.said["allocated_bytes"])
        os.kill(client.said["child"], signal.SIGKILL)

    def test_a_heap_that_is_not_used_yet(self):
        client = self.client("wait", "work", "wait")
        self.assertIn("the collector has not been used yet", self.top(client.pid, "--once", status=1))
        top = self.shown(client)
        self.assertIn("the collector has not been used yet", self.first_line)
        client.go_on()
        self.assertTrue(any(line.startswith("heap ") for line in top.stdout))
        top.send_signal(signal.SIGINT)
        self.check_ended(top, "^$")

    def test_a_malloc_without_a_collector(self):
        """There will never be anything to show."""
        with subprocess.Popen([sys.executable, "-c", "print('ready', flush=True); input()"],
                              env=clean(LD_PRELOAD=MALLOC), text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            for arguments in ([], ["--once"], ["--once", "--json"]):
                self.assertIn("without a collector", self.top(process.pid, *arguments, status=1))
            process.kill()

    def test_a_program_that_executes_another(self):
        for words, status in ((["exec", STATIC, "work", "wait"], 0), (["exec", "/bin/sleep", "9"], 1)):
            client = self.client("work", "wait", *words)
            top = self.shown(client)
            client.process.stdin.write("\n")
            client.process.stdin.flush()
            if status == 0:
                self.assertTrue(any(line.startswith(STATIC + ", ") for line in top.stdout))
                client.process.kill()
            self.check_ended(top, "there is no Gleaner in it" if status else "it has ended", status)
            client.close()

    def test_a_process_whose_first_thread_has_ended(self):
        client = self.client("leave", "work", "tell", "wait", "exec", CLIENT, "work", "wait")
        self.assertEqual(self.heap(client.pid)["heap_bytes"], client.said["heap_bytes"])
        top = self.shown(client)
        client.go_on()
        self.heap(client.pid)
        client.process.kill()
        self.check_ended(top, "it has ended")

    def test_a_process_that_takes_long_to_end(self):
        """Its memory is gone before it is."""
        client = self.client("work", "fill", "wait")
        top = self.shown(client)
        client.process.kill()
        self.assertNotIn("executes another program", self.check_ended(top, "it has ended"))

    def test_a_library_that_is_mapped_as_data_too(self):
        """As a debugger may: the note is there, the pointer is not."""
        client = self.client("work", "map", DROPIN, "tell", "wait")
        self.assertEqual(self.heap(client.pid)["heap_bytes"], client.said["heap_bytes"])

    def test_a_process_that_ends(self):
        client = self.client("work", "wait")
        top = self.shown(client)
        client.go_on()
        client.process.wait()
        self.check_ended(top, r"^gleaner top: process \d+ \(.*\): it has ended\n$")


class Errors(TopTest):
    def test_no_process(self):
        process = subprocess.Popen(["true"])
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self.assertIn("it has ended", self.top(process.pid, status=1))
        process.wait()
        self.assertIn(f"process {process.pid}: there is none", self.top(process.pid, status=1))

    def test_wrong_arguments(self):
        for arguments in (["0"], ["-5"], ["x"], [], ["1", "--json"], ["1", "-d", "0"],
                          ["1", "-n", "0"], ["1", "--once", "-n", "2"]):
            result = self.execute(GLEANER, "top", *arguments, status=125)
            self.assertTrue(result.stderr.startswith("gleaner: "), result.stderr)
            self.assertLess(len(result.stderr), 200, "no number of 300 digits")

    def test_no_gleaner(self):
        with subprocess.Popen(["sleep", "100"]) as process:
            self.assertIn("(sleep): there is no Gleaner in it", self.top(process.pid, status=1))
            process.kill()

    @unittest.skipIf(os.geteuid() != 0, "only root can become somebody else")
    def test_a_process_of_somebody_else(self):
        client = self.client("work", "wait")
        # The command as that user: the folders above it may be root's.
        command = shutil.copy(GLEANER, self.path("gleaner"))
        os.chmod(self.folder, 0o755)
        result = subprocess.run([command, "top", str(client.pid)], capture_output=True, text=True,
                                user=NOBODY, group=NOBODY, extra_groups=[], timeout=LIMIT)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"its memory cannot be read: Permission denied \((it is "
                                        r"another user's|kernel.yama.ptrace_scope is \d)")

    def test_output_that_cannot_be_written(self):
        client = self.client("work", "wait")
        for arguments in (["--once"], ["--once", "--json"], ["-d", "0.01"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run([GLEANER, "top", str(client.pid), *arguments], stdout=full,
                                        stderr=subprocess.PIPE, text=True, timeout=LIMIT)
            self.assertEqual(result.returncode, 1)
            self.assertIn("standard output: No space left on device", result.stderr)

    def test_files_that_are_mapped_and_damaged(self):
        """A process may have anything mapped: heads of 32 bits, of libraries with flipped bits."""
        with open(DROPIN, "rb") as file:
            head = file.read(8192)
        draw = random.Random(SEED)
        for i in range(60):
            data = bytearray(head)
            for _ in range(draw.randrange(1, 20)):
                data[draw.randrange(2048)] = draw.randrange(256)
            if i == 0:
                data = bytearray(b"\x7fELF\x01" + bytes(4096))
            put(self.path(f"{i}"), data)
        program = ("import mmap,os,sys\nmaps=[]\nfor name in os.listdir():\n f=open(name,'rb')\n "
                   "maps.append(mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ))\n"
                   "print('ready',flush=True)\nsys.stdin.read()")
        with subprocess.Popen([sys.executable, "-c", program], cwd=self.folder, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            result = subprocess.run([GLEANER, "top", str(process.pid), "--once"], timeout=LIMIT,
                                    capture_output=True, text=True)
            process.stdin.close()
        self.assertEqual(result.returncode, 1, f"seed {SEED}: {result.stdout}{result.stderr}")
        self.assertRegex(result.stderr, "there is no Gleaner .*: it has 32 bits|cannot be read|"
                                        "not been used|another version")


    def test_a_file_of_many_notes_that_is_mapped_often(self):
        notes, note_bytes, maps = 65535, 65536, 1000
        folder = self.folder
        with open(self.path("notes"), "wb") as file:
            file.write(struct.pack("<4s12BHHIQQQIHHHHHH", b"\x7fELF", 2, *bytes(11), 3, 62, 1, 0, 64,
                                   0, 0, 64, 56, notes, 0, 0, 0))
            file.write(struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, 0, 0, 0))
            file.write(struct.pack("<IIQQQQQQ", 4, 4, 0, 64 + 56 * notes, 0, note_bytes,
                                   note_bytes, 4) * (notes - 1))
            file.write(bytes(note_bytes))
        program = ("import mmap,sys\nmaps=[]\nf=open('notes','rb')\n"
                   f"for i in range({maps}): maps.append(mmap.mmap(f.fileno(),0,prot=1))\n"
                   "print('ready',flush=True)\nsys.stdin.read()")
        with subprocess.Popen([sys.executable, "-c", program], cwd=folder, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            self.assertIn("there is no Gleaner", self.top(process.pid, "--once", status=1))
            process.stdin.close()

    def test_a_pipe_that_does_not_block(self):
        client = self.client("run")
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        with open(read_end, "rb") as reader:
            with subprocess.Popen([GLEANER, "top", str(client.pid), "-d", "0.01", "-n", "150"],
                                  stdout=write_end) as top:
                os.close(write_end)
                select.select([], [], [], 2.5)  # it is full
                self.assertEqual(reader.read().count(b"\nheap "), 150)
                self.assertEqual(top.wait(LIMIT), 0)


class Terminal(TopTest):
    LEAVE = b"\x1b[?25h\x1b[?1049l"

    def setUp(self, delay="100", ignored=(), words=("work", "wait")):
        super().setUp()
        self.running = self.client(*words)
        self.master, slave = pty.openpty()
        self.addCleanup(os.close, self.master)
        self.resize(10, 40)
        self.process = subprocess.Popen([GLEANER, "top", str(self.running.pid), "-d", delay],
                                        stdout=slave, stderr=subprocess.PIPE, start_new_session=True,
                                        preexec_fn=lambda: [signal.signal(each, signal.SIG_IGN)
                                                            for each in ignored])
        self.addCleanup(self.process.stderr.close)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        os.close(slave)
        self.seen = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def drawing(self):
        """The lines of the next drawing."""
        while b"\x1b[H" not in self.seen:
            ready, _, _ = select.select([self.master], [], [], LIMIT)
            self.assertTrue(ready, self.seen)
            self.seen += os.read(self.master, 65536)
        drawn, self.seen = self.seen.split(b"\x1b[H", 1)
        return drawn, [re.sub(rb"\x1b\[[?;\d]*[A-Za-z]|\r", b"", line)
                       for line in drawn.split(b"\n")]

    def rest(self):
        try:
            while data := os.read(self.master, 65536):
                self.seen += data
        except OSError:  # nobody has the other side any more
            pass
        return self.seen

    def left(self):
        """What stays on the terminal."""
        return self.rest().split(self.LEAVE)[-1]

    def test_lines_have_the_width_of_the_window(self):
        drawn, lines = self.drawing()
        self.assertIn(b"\x1b[?1049h\x1b[?25l", drawn)
        self.assertEqual(len(lines), 10)
        self.assertEqual(max(map(len, lines)), 40)
        self.resize(30, 100)
        self.process.send_signal(signal.SIGWINCH)
        drawn, lines = self.drawing()
        self.assertNotIn(b"\x1b[?1049h", drawn)
        self.assertGreater(len(lines), 10)
        self.assertTrue(any(line.startswith(b"stalls ") for line in lines))

    def test_signals_give_the_terminal_back(self):
        for signal_ in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE,
                        signal.SIGUSR1, signal.SIGALRM):
            if signal_ != signal.SIGINT:
                self.setUp()
            self.drawing()
            self.process.send_signal(signal_)
            status = 0 if signal_ == signal.SIGINT else -signal_
            left = self.left()
            self.assertEqual(self.process.wait(LIMIT), status)
            self.assertTrue(left.startswith(b"gleaner top: process "), self.seen)

    def test_signals_at_any_moment(self):
        draw = random.Random(SEED)
        for _ in range(20):
            self.setUp(delay="0.01")
            self.drawing()
            select.select([], [], [], draw.uniform(0, 0.03))
            self.process.send_signal(signal.SIGTERM)
            left = self.left()
            self.assertEqual(self.process.wait(LIMIT), -signal.SIGTERM)
            self.assertTrue(left.startswith(b"gleaner top: process "), f"seed {SEED}: {self.seen}")

    def test_a_terminal_that_takes_no_output(self):
        self.setUp(delay="0.01")
        self.drawing()
        self.resize(60, 300)
        select.select([], [], [], 2)  # nobody reads, until it writes no more
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(LIMIT), -signal.SIGTERM)

    def test_ignored_signals_stay_ignored(self):
        self.setUp(ignored=(signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP))
        for signal_ in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
            self.drawing()
            self.process.send_signal(signal_)
            self.process.send_signal(signal.SIGWINCH)
        self.drawing()
        self.process.send_signal(signal.SIGINT)
        self.rest()
        self.assertEqual(self.process.wait(LIMIT), 0)

    def test_a_stop_gives_it_back_until_the_process_continues(self):
        self.drawing()
        self.process.send_signal(signal.SIGTSTP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        self.seen += os.read(self.master, 65536)
        self.assertTrue(self.seen.endswith(self.LEAVE), self.seen)
        self.process.send_signal(signal.SIGCONT)
        drawn, _ = self.drawing()
        self.assertIn(b"\x1b[?1049h", drawn)

    def test_the_last_frame_stays_when_the_process_ends(self):
        for words in (("work", "wait"), ("work", "fill", "wait")):
            self.setUp(delay="0.01", words=words)
            self.drawing()
            self.running.process.kill()
            left = self.left()
            self.assertIn(b"it has ended", self.process.stderr.read())
            self.assertEqual(self.process.wait(LIMIT), 0)
            self.assertTrue(left.startswith(b"gleaner top: process ") and b"\nheap " in left, left)


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main(argv=sys.argv[:1])
