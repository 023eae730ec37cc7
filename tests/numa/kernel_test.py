#!/usr/bin/env python3
"""What other tests on emulated machines stand on: kernels with several memory nodes place pages as
they are told, two sources agree on where pages are, and the library works there.

usage: kernel_test.py BUILD_DIR PROBE DROPIN RELAY THREAD_ENDS
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

BUILD, PROBE, DROPIN, RELAY, THREAD_ENDS = (os.path.abspath(path) for path in sys.argv[1:6])
PAGES = 2048  # of a mapping of the probe
HUGE_PAGE = 512
ON_DROPIN = {"LD_LIBRARY_PATH": os.path.dirname(DROPIN)}


def in_turn(nodes, block):
    """The nodes of pages whose blocks go to the nodes in turn."""
    return [nodes[page // block % len(nodes)] for page in range(PAGES)]


class Probed(OnMachine):
    BUILD = BUILD
    SETTINGS = {"files": [PROBE]}

    def node_files(self, *names):
        return self.read_there(*(f"/sys/devices/system/node/{name}" for name in names))

    def probe(self, pattern, status=0):
        """The node of each page, which move_pages and numa_maps agree on, and the policy; of a
        probe that fails what it says."""
        finished = self.run_there(PROBE, pattern, status=status)
        if status != 0:
            return finished.errors
        runs, _, described = finished.output.removeprefix(f"{pattern}:").partition("|")
        pages = []
        for run in runs.split():
            node, count = run.split("x")
            pages += [int(node)] * int(count)
        self.assertEqual(len(pages), PAGES)
        by_node = {int(node): int(count) for node, count in re.findall(r"N(\d+)=(\d+)", described)}
        self.assertEqual(by_node, {node: pages.count(node) for node in set(pages)}, described)
        return pages, described.split()[0]

    def expect(self, pattern, pages, policy="default"):
        self.assertEqual(self.probe(pattern), (pages, policy), pattern)

    def expect_placed_by_page(self, prefix):
        """Small pages are where they are told, in each pattern."""
        nodes = list(range(len(self.NODES)))
        several = ",".join(map(str, nodes))
        policy = f"interleave:0-{nodes[-1]}"
        pages, described = self.probe(f"{prefix}interleave:{several}")
        self.assertEqual(described, policy)
        self.assertEqual(pages, in_turn(nodes[pages[0]:] + nodes[:pages[0]], 1))
        for block in (1, 16, 100, HUGE_PAGE):
            self.expect(f"{prefix}cyclic:{several}:{block}", in_turn(nodes, block))
        self.expect(f"{prefix}cyclic:1,0:64", in_turn([1, 0], 64))

    def expect_first_touch(self, prefix):
        first = 0
        for number, node in enumerate(self.NODES):
            for processor in range(first, first + node.processors):
                self.expect(f"{prefix}touch:{processor}", [number] * PAGES)
            self.expect(f"{prefix}bind:{number}", [number] * PAGES, f"bind:{number}")
            first += node.processors


class TwoNodes(Probed):
    NODES = [Node(2, 256), Node(2, 256)]
    SETTINGS = {"files": [PROBE, RELAY, THREAD_ENDS], "environment": ON_DROPIN,
                "distances": {(0, 1): 21}}

    def test_nodes(self):
        self.assertEqual(self.node_files("online", "has_cpu", "has_memory"), ["0-1"] * 3)
        self.assertEqual(self.node_files("node0/distance", "node1/distance"), ["10 21", "21 10"])
        self.assertEqual(self.node_files("node0/cpulist", "node1/cpulist"), ["0-1", "2-3"])

    def test_first_touch(self):
        for prefix in ("", "small+"):
            self.expect_first_touch(prefix)

    def test_small_pages(self):
        self.expect_placed_by_page("small+")

    def test_huge_pages_stay_whole(self):
        for pattern in ("interleave:0,1", "cyclic:0,1:100"):
            pages, _ = self.probe(pattern)
            for begin in range(0, PAGES, HUGE_PAGE):
                self.assertEqual(len(set(pages[begin:begin + HUGE_PAGE])), 1, (pattern, pages))
        self.expect(f"cyclic:0,1:{HUGE_PAGE}", in_turn([0, 1], HUGE_PAGE))

    def test_the_library(self):
        self.run_there(THREAD_ENDS)  # fails by itself if something is wrong
        here = subprocess.run([RELAY, "--smoke"], env=ON_DROPIN, capture_output=True, text=True,
                              check=True).stdout
        there = self.run_there(RELAY, "--smoke").output
        for key in ("checksum", "lib"):
            value = re.search(rf"\b{key}=(\S+)", there)[1]
            self.assertEqual(value, re.search(rf"\b{key}=(\S+)", here)[1])
        self.assertEqual(value, DROPIN)


class FourNodes(Probed):
    NODES = [Node(1, 128)] * 4
    SETTINGS = {**Probed.SETTINGS, "huge_pages": False}

    def test_nodes(self):
        self.assertEqual(self.node_files("online", "has_cpu", "has_memory"), ["0-3"] * 3)
        self.assertEqual(self.node_files("node3/distance", "node2/cpulist"), ["20 20 20 10", "2"])

    def test_first_touch(self):
        self.expect_first_touch("")

    def test_small_pages(self):
        self.expect_placed_by_page("")


class LackingNodes(Probed):
    """Node 1 has no memory, and its nearest is node 2, which has no processor."""
    NODES = [Node(2, 192), Node(1, 0), Node(0, 192)]
    SETTINGS = {**Probed.SETTINGS, "distances": {(0, 1): 30, (1, 2): 15}}

    def test_nodes(self):
        self.assertEqual(self.node_files("online", "has_cpu", "has_memory"), ["0-2", "0-1", "0,2"])
        self.assertEqual(self.node_files("node1/distance"), ["30 10 15"])

    def test_without_processors(self):
        self.expect("bind:2", [2] * PAGES, "bind:2")
        self.expect("cyclic:0,2:512", in_turn([0, 2], 512))

    def test_without_memory(self):
        self.expect("touch:0", [0] * PAGES)
        self.expect("touch:2", [2] * PAGES)
        self.assertIn("No such device", self.probe("cyclic:0,1:16", status=1))
        self.assertIn("Invalid argument", self.probe("bind:1", status=1))
        # The mask is reduced without a word.
        self.expect("interleave:0,1", [0] * PAGES, "interleave:0")


class Commands(OnMachine):
    BUILD = BUILD

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

    def test_that_end_the_machine(self):
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
