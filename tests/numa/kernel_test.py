#!/usr/bin/env python3
"""What other tests on emulated machines stand on: machines have the nodes that they are to have, what
commands print and how they end arrives, and the library works there.

usage: kernel_test.py BUILD_DIR DROPIN RELAY THREAD_ENDS
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from initramfs import MissingFile
from machine import Machine, MachineFailed, Node
from on_machine import OnMachine

BUILD, DROPIN, RELAY, THREAD_ENDS = (os.path.abspath(path) for path in sys.argv[1:5])
ON_DROPIN = {"LD_LIBRARY_PATH": os.path.dirname(DROPIN)}


class TwoNodes(OnMachine):
    BUILD = BUILD
    NODES = [Node(2, 256), Node(2, 256)]
    SETTINGS = {"files": [RELAY, THREAD_ENDS], "environment": ON_DROPIN, "distances": {(0, 1): 21}}

    def node_files(self, *names):
        return self.read_there(*(f"/sys/devices/system/node/{name}" for name in names))

    def test_nodes(self):
        self.assertEqual(self.node_files("online", "has_cpu", "has_memory"), ["0-1"] * 3)
        self.assertEqual(self.node_files("node0/distance", "node1/distance"), ["10 21", "21 10"])
        self.assertEqual(self.node_files("node0/cpulist", "node1/cpulist"), ["0-1", "2-3"])

    def test_the_library(self):
        self.run_there(THREAD_ENDS)  # fails by itself if something is wrong
        here = subprocess.run([RELAY, "--smoke"], env=ON_DROPIN, capture_output=True, text=True,
                              check=True).stdout
        there = self.run_there(RELAY, "--smoke").output
        for key in ("checksum", "lib"):
            value = re.search(rf"\b{key}=(\S+)", there)[1]
            self.assertEqual(value, re.search(rf"\b{key}=(\S+)", here)[1])
        self.assertEqual(value, DROPIN)

    def test_output_and_status(self):
        finished = self.run_there("sh", "-c", r"printf 'a\r\n\0b'; printf c >&2; exit 7", status=7)
        self.assertEqual((finished.output, finished.errors), ("a\r\n\0b", "c"))
        text = "it's $HOME\r\n\n\tü" + 10000 * "x"
        finished = self.run_there("sh", "-c", "# two lines\nprintf %s \"$VARIABLE\"", VARIABLE=text)
        self.assertEqual(finished.output, text)
        many = "".join(f"{number}\n" for number in range(1, 5001))
        self.assertEqual(self.run_there("seq", "5000").output, many)
        self.run_there("sh", "-c", "kill -SEGV $$", status=128 + 11)
        self.run_there("no-such-program", status=127)

    def test_what_ends_the_machine(self):
        """Last, by its name."""
        with self.assertRaisesRegex(MachineFailed, "(?s)it has ended.*Kernel panic"):
            self.machine.run(["sh", "-c", "echo c >/proc/sysrq-trigger"])
        with self.assertRaisesRegex(MachineFailed, "it has ended"):
            self.machine.run(["true"])


class ByHand(unittest.TestCase):
    def test_a_command(self):
        finished = subprocess.run(
            [sys.executable, "-B", os.path.join(os.path.dirname(__file__), "boot.py"), "--build",
             BUILD, "--node", "1:64", "--node", "0:64", "--distance", "0-1:40", "--set", "A=b c",
             "--no-huge-pages", "sh", "-c", "cat /sys/devices/system/node/node0/distance; "
             "grep -o '.never.' /sys/kernel/mm/transparent_hugepage/enabled; echo $A >&2; exit 3"],
            capture_output=True, text=True)
        self.assertEqual((finished.stdout, finished.stderr, finished.returncode),
                         ("10 40\n[never]\n", "b c\n", 3))


class Failures(unittest.TestCase):
    def boot(self, nodes=(Node(1, 96),), **settings):
        with Machine(nodes, BUILD, **settings):
            pass

    def test_time_is_limited(self):
        with self.assertRaisesRegex(MachineFailed, "no answer within 0.1 s"):
            self.boot(boot_seconds=0.1)

    def test_machines_that_cannot_be(self):
        with self.assertRaisesRegex(MachineFailed, r"(?s)exit status 1\n.*end of qemu:.*distance"):
            self.boot([Node(1, 96), Node(1, 96)], distances={(0, 1): 5})
        with self.assertRaisesRegex(ValueError, "nodes without processors come last"):
            self.boot([Node(0, 96), Node(1, 96)])

    def test_what_is_missing(self):
        with self.assertRaisesRegex(MissingFile, "/no/such/file: No such file"):
            self.boot(files=["/no/such/file"])
        with open(RELAY, "rb") as relay, tempfile.NamedTemporaryFile() as file:
            file.write(relay.read().replace(b"libgc.so.1", b"libno.so.1"))
            file.flush()
            with self.assertRaisesRegex(MissingFile, "does not find libno.so.1"):
                self.boot(files=[file.name])
        with unittest.mock.patch.dict(os.environ, PATH="/nowhere"):
            with self.assertRaisesRegex(MachineFailed, "no qemu-system-x86_64: install"):
                self.boot()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
