#!/usr/bin/env python3
"""What other tests on emulated machines stand on: machines have the nodes that they are to have, what
commands print and how they end arrives, and the library works there.

usage: kernel_test.py BUILD_DIR DROPIN RELAY THREAD_ENDS
"""

import os
import re
import subprocess
import sys
import unittest

from machine import Node
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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
