#!/usr/bin/env python3
"""`gleaner topology` on machines with several memory nodes: hwloc and the kernel's files tell the
same, and what the process may not use is left out.

usage: topology_test.py BUILD_DIR GLEANER LIBHWLOC
"""

import json
import os
import sys
import unittest

from machine import Node
from on_machine import OnMachine

BUILD, GLEANER, LIBHWLOC = (os.path.abspath(path) for path in sys.argv[1:4])
# The name by which it is loaded.
LIBHWLOC = os.path.join(os.path.dirname(os.path.realpath(LIBHWLOC)), "libhwloc.so.15")
GROUP = "/sys/fs/cgroup/test"


class Topology(OnMachine):
    BUILD = BUILD
    FILES = [GLEANER, LIBHWLOC]

    def topology(self, before=""):
        """What the command says after the shell's command, by hwloc, and without it by the kernel.
        Both must agree."""
        command = f"{before}\nexec {GLEANER} topology --json"
        by_hwloc = json.loads(self.run_there("sh", "-ec", command).output)
        self.run_there("mv", LIBHWLOC, f"{LIBHWLOC}.away")
        by_kernel = json.loads(self.run_there("sh", "-ec", command).output)
        self.run_there("mv", f"{LIBHWLOC}.away", LIBHWLOC)
        self.assertEqual((by_hwloc["source"], by_hwloc["problem"]), ("hwloc", None))
        self.assertEqual((by_kernel["source"], by_kernel["problem"]),
                         ("kernel", "libhwloc cannot be loaded"))
        self.assertEqual({**by_kernel, "source": "hwloc", "problem": None}, by_hwloc)
        self.assertTrue(by_hwloc["is_this_machine"])
        return by_hwloc

    def in_group(self, **limits):
        """The same in a control group with these limits."""
        files = " ".join(f"echo '{value}' >{GROUP}/{name.replace('_', '.')};"
                         for name, value in limits.items())
        return self.topology(f"echo +cpuset +cpu >/sys/fs/cgroup/cgroup.subtree_control\n"
                             f"mkdir -p {GROUP}; {files} echo $$ >{GROUP}/cgroup.procs")

    def tearDown(self):
        self.run_there("sh", "-c", f"test ! -d {GROUP} || rmdir {GROUP}")

    def expect(self, found, **expected):
        self.assertEqual({key: found[key] for key in expected}, expected)

    def expect_nodes(self, found, *nodes):
        """Each node's processors and distances."""
        self.assertEqual(found["nodes"], [
            {"node": number, "processors": processors, "distances": distances}
            for number, (processors, distances) in enumerate(nodes)])


class TwoNodes(Topology):
    NODES = [Node(2, 128), Node(2, 128)]
    SETTINGS = {"files": Topology.FILES, "distances": {(0, 1): 21}}

    def test_all(self):
        found = self.topology()
        self.expect(found, has_several_nodes=True, memory_nodes=[0, 1], processors=[0, 1, 2, 3],
                    quota_processors=None)
        self.expect_nodes(found, ([0, 1], [10, 21]), ([2, 3], [21, 10]))
        self.assertEqual([marker["node"] for marker in found["markers"]], [None, 0, 1, 1])
        self.assertEqual(found["markers"][2]["victims"], [3, 0, 1])

    def test_affinity(self):
        found = self.topology("taskset -p 0xe $$ >/dev/null")
        self.expect(found, memory_nodes=[0, 1], processors=[1, 2, 3],
                    machine_processors=[0, 1, 2, 3])
        self.expect_nodes(found, ([1], [10, 21]), ([2, 3], [21, 10]))
        self.assertEqual([marker["node"] for marker in found["markers"]], [None, 1, 1])

    def test_memory_of_a_node_is_not_allowed(self):
        found = self.in_group(cpuset_mems="0")
        self.expect(found, has_several_nodes=False, memory_nodes=[0], machine_memory_nodes=[0, 1])
        self.expect_nodes(found, ([0, 1], [10, 21]), ([2, 3], [21, 10]))

    def test_a_node_is_not_allowed(self):
        found = self.in_group(cpuset_mems="1", cpuset_cpus="2-3")
        self.expect(found, has_several_nodes=False, memory_nodes=[1], processors=[2, 3])
        self.expect_nodes(found, ([], [10, 21]), ([2, 3], [21, 10]))
        self.assertEqual([marker["node"] for marker in found["markers"]], [None, None])

    def test_a_quota(self):
        found = self.in_group(cpu_max="150000 100000")
        self.expect(found, processors=[0, 1, 2, 3], quota_processors=2)
        self.assertEqual([marker["node"] for marker in found["markers"]], [None, 1])

    def test_for_people(self):
        finished = self.run_there("taskset", "0x7", GLEANER, "topology")
        self.assertIn("memory nodes of this machine, by hwloc\n", finished.output)
        self.assertIn("     1  yes          2                      21  10\n", finished.output)
        self.assertIn("not allowed, by affinity or a control group: processors 3\n",
                      finished.output)

    def test_without_the_kernels_files(self):
        """As in a name space that does not have them."""
        finished = self.run_there("sh", "-ec", f"umount /sys/fs/cgroup; umount /sys\n"
                                  f"{GLEANER} topology --json; mv {LIBHWLOC} {LIBHWLOC}.away\n"
                                  f"{GLEANER} topology --json; mv {LIBHWLOC}.away {LIBHWLOC}\n"
                                  "mount -t sysfs none /sys; mount -t cgroup2 none /sys/fs/cgroup")
        by_hwloc, by_kernel = (json.loads(part + "}\n")
                               for part in finished.output.split("\n}\n")[:2])
        for found in (by_hwloc, by_kernel):
            self.assertEqual({marker["node"] for marker in found["markers"]}, {None})
        self.expect(by_kernel, memory_nodes=[0, 1], problem="libhwloc cannot be loaded; "
                    "the kernel's files do not tell of nodes")


class FourNodes(Topology):
    NODES = [Node(1, 96)] * 4
    SETTINGS = {"files": Topology.FILES,
                "distances": {(0, 1): 16, (2, 3): 16, (0, 3): 25, (1, 2): 25}}

    def test_all(self):
        found = self.topology()
        self.expect(found, memory_nodes=[0, 1, 2, 3])
        self.expect_nodes(found, ([0], [10, 16, 20, 25]), ([1], [16, 10, 25, 20]),
                          ([2], [20, 25, 10, 16]), ([3], [25, 20, 16, 10]))
        self.assertEqual(found["markers"][3], {"node": 3, "victims": [2, 0, 1]})


class LackingNodes(Topology):
    """Node 1 has no memory, and node 2 has no processor."""
    NODES = [Node(2, 128), Node(1, 0), Node(0, 128)]
    SETTINGS = {"files": Topology.FILES, "distances": {(0, 1): 30, (1, 2): 15}}

    def test_all(self):
        found = self.topology()
        self.expect(found, has_several_nodes=True, memory_nodes=[0, 2],
                    machine_memory_nodes=[0, 2], processors=[0, 1, 2])
        self.expect_nodes(found, ([0, 1], [10, 30, 20]), ([2], [30, 10, 15]), ([], [20, 15, 10]))
        self.assertEqual([marker["node"] for marker in found["markers"]], [None, 0, 1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
