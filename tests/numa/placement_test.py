#!/usr/bin/env python3
"""Where the library puts memory on machines with several memory nodes: page by page, for each
pattern and each way to ask for it; what full and missing nodes, cpusets and filters of system calls
lead to; the policies of Endo's thesis.

usage: placement_test.py BUILD_DIR CLIENT DROPIN MALLOC GLEANER HWLOC API_TEST
"""

import errno
import itertools
import json
import os
import re
import sys
import unittest

from machine import Node
from on_machine import OnMachine

BUILD, CLIENT, DROPIN, MALLOC, GLEANER, HWLOC, API_TEST = (
    os.path.abspath(path) for path in sys.argv[1:8])
OS_PAGE = 4096
HUGE_PAGE = 512  # OS pages
MB = 1 << 20
ENVIRONMENT = {"LD_LIBRARY_PATH": os.path.dirname(DROPIN)}
# By the name that the library loads it by.
HWLOC_FILE = os.path.join(os.path.dirname(HWLOC), "libhwloc.so.15")
WAYS = ("fresh", "thread", "existing", "mapped", "arena")


class Placed(OnMachine):
    BUILD = BUILD

    def client(self, *words, status=0, **environment):
        finished = self.run_there(CLIENT, *map(str, words), status=status, **environment)
        figures = {name: int(value) for name, value in re.findall(r"(\w+)=(-?\d+)", finished.output)}
        pages = []
        for node, count in re.findall(r"(-?\d+)x(\d+)", finished.output):
            pages += [int(node)] * int(count)
        return figures, pages, finished.errors

    def expect_all_placed(self, figures, way):
        if way in ("existing", "mapped"):
            self.assertEqual(figures["placed"], figures["pages"], figures)
        if way in ("fresh", "existing", "mapped"):
            self.assertEqual((figures["elsewhere"], figures["reduced"], figures["error"]),
                             (0, 0, 0), figures)

    def expect_interleaved(self, way, nodes, size, huge=()):
        figures, pages, _ = self.client(*huge, way, self.words("interleave", nodes), size)
        self.expect_all_placed(figures, way)
        turn = figures["first"] % len(nodes)  # by the page's address
        self.expect_pages(pages, self.in_turn(nodes[turn:] + nodes[:turn], 1, len(pages)), way)
        self.assertGreaterEqual(len(pages), size // OS_PAGE - 1)

    def expect_cyclic(self, way, nodes, block, size, huge=()):
        """`block` in OS pages."""
        figures, pages, _ = self.client(*huge, way, self.words("cyclic", nodes, block * 4), size)
        self.expect_all_placed(figures, way)
        self.expect_pages(pages, self.in_turn(nodes, block, len(pages)), way)
        self.assertGreaterEqual(len(pages), size // OS_PAGE - 1)

    def expect_one(self, way, pattern, node, size):
        figures, pages, _ = self.client(way, f"{pattern}:{node}", size)
        self.expect_all_placed(figures, way)
        self.assertEqual(set(pages), {node}, way)

    def expect_pages(self, pages, expected, what):
        """As assertEqual, which compares long lists for hours."""
        wrong = [page for page, node in enumerate(expected) if pages[page:page + 1] != [node]]
        if wrong or len(pages) != len(expected):
            self.fail(f"{what}: {len(wrong)} of {len(expected)} pages; from {wrong[:1]} on "
                      f"{pages[wrong[0]:][:40] if wrong else len(pages)}")

    @staticmethod
    def words(pattern, nodes, kilobytes=None):
        size = f":{kilobytes}k" if kilobytes else ""
        return f"{pattern}:{','.join(map(str, nodes))}{size}"

    @staticmethod
    def in_turn(nodes, block, count):
        return [nodes[page // block % len(nodes)] for page in range(count)]


class FourNodes(Placed):
    """Without huge pages."""
    NODES = [Node(1, 192)] * 4
    SETTINGS = {"files": [CLIENT, MALLOC, GLEANER, HWLOC_FILE, API_TEST], "environment": ENVIRONMENT,
                "huge_pages": False}

    def test_64_mib(self):
        self.expect_interleaved("fresh", [0, 1, 2, 3], 64 * MB)
        self.expect_cyclic("fresh", [0, 1, 2, 3], 16, 64 * MB)

    def test_each_way(self):
        for way in WAYS:
            self.expect_interleaved(way, [0, 1, 2, 3], 3 * MB + 5000)
            self.expect_interleaved(way, [1, 3], MB)
            self.expect_cyclic(way, [0, 1, 2, 3], 25, 3 * MB + 5000)
            self.expect_cyclic(way, [0, 2], HUGE_PAGE, 4 * MB)
            self.expect_one(way, "bind", 2, 3 * MB)
            self.expect_one(way, "preferred", 3, 3 * MB)

    def test_the_placement_ends_with_the_object(self):
        for placement in ("bind:2", "interleave", "cyclic"):
            figures, pages, _ = self.client("again", placement, 3 * MB)
            self.assertEqual((figures["same"], set(pages)), (1, {0}), placement)

    def test_the_policy_of_the_thread_stays(self):
        self.expect_cyclic("mapped", [0, 1, 2, 3], 25, 3 * MB, ["--policy"])
        self.expect_cyclic("fresh", [2, 3], 25, 3 * MB, ["--policy"])

    def test_first_touch(self):
        _, pages, _ = self.client("touch", 0, 4, 4 * MB)
        self.expect_pages(pages, self.in_turn([0, 1, 2, 3], 256, 1024), "pages")
        _, pages, _ = self.client("touch", 20 * OS_PAGE, 4, 4 * MB)
        self.expect_pages(pages, self.in_turn([0, 1, 2, 3], 20, 1024), "pages")
        # Eight threads share four processors; a thread more than processors changes who is where.
        _, pages, _ = self.client("touch", OS_PAGE, 8, 4 * MB)
        self.expect_pages(pages, self.in_turn([0, 0, 1, 1, 2, 2, 3, 3], 1, 1024), "pages")
        _, pages, _ = self.client("touch", 0, 0, 4 * MB)
        self.expect_pages(pages, self.in_turn([0, 1, 2, 3], 256, 1024), "pages")

    def test_the_heap_by_environment(self):
        # What is freed gets the heap's placement again.
        figures, pages, _ = self.client("again", "bind:2", 3 * MB, GLEANER_NUMA="interleave:1-3")
        turn = figures["first"] % 3
        self.expect_pages(pages, self.in_turn(([1, 2, 3] * 2)[turn:turn + 3], 1, len(pages)), "pages")
        _, pages, errors = self.client("fresh", "local", 3 * MB, GLEANER_NUMA="bind:3")
        self.assertEqual((set(pages), errors), ({0}, ""))

    def test_malloc_by_environment(self):
        for placement, expected in (("interleave:1-3", {1, 2, 3}), ("bind:2", {2}),
                                    ("preferred:1", {1}), ("local", {0})):
            for size in (3 * MB, 40 * MB):
                _, pages, errors = self.client("malloc", size, GLEANER_NUMA=placement,
                                               LD_PRELOAD=MALLOC)
                self.assertEqual((set(pages), errors), (expected, ""), placement)
                share = len(pages) / len(expected)
                self.assertLessEqual(max(abs(pages.count(node) - share) for node in expected), 2)
        _, pages, _ = self.client("malloc", 3 * MB, GLEANER_NUMA="cyclic:0-3:16k",
                                  LD_PRELOAD=MALLOC)
        self.assertEqual(len({sum(1 for _ in run) for _, run in itertools.groupby(pages[8:-8])}), 1)
        self.assertEqual(set(pages), {0, 1, 2, 3})

    def test_wrong_placements(self):
        for text, reason in (("round-robin", "the patterns are"), ("bind", "bind needs nodes"),
                             ("preferred:0,1", "one node"), ("cyclic:0:5", "multiple of 4096"),
                             ("interleave:3-0", "the nodes are"), ("bind:9", "none of these nodes"),
                             ("interleave:0-9", "may use only 0-3"), ("local:1", "no nodes")):
            _, pages, errors = self.client("existing", "local", MB, GLEANER_NUMA=text)
            self.assertRegex(errors, f"^gleaner: GLEANER_NUMA: '{text}': .*{reason}")
        _, _, errors = self.client("fresh", "bind:7", MB, status=1)
        self.assertIn("this process may use none of the nodes", errors)
        figures, pages, _ = self.client("fresh", "cyclic:1,7", MB)
        self.assertEqual((figures["reduced"], set(pages)), (1, {1}))

    def test_mark_bytes_lie_on_all_nodes(self):
        maps = self.run_there(CLIENT, "hold", str(32 * MB)).output
        interleaved = [line for line in maps.splitlines() if " interleave:0-3 " in line]
        by_node = [sum(map(int, re.findall(rf" N{node}=(\d+)", " ".join(interleaved))))
                   for node in range(4)]
        # 32 MB of objects have 2 MB of mark bytes.
        self.assertGreater(sum(by_node), 512, maps)
        self.assertLess(max(by_node), 1.1 * min(by_node), by_node)

    def test_a_heap_that_is_bound_has_its_tables_there(self):
        maps = self.run_there(CLIENT, "hold", str(8 * MB), GLEANER_NUMA="bind:2").output
        self.assertNotIn(" interleave:", maps)
        self.assertIn(" bind:2 ", maps)
        maps = self.run_there(CLIENT, "hold", str(8 * MB), GLEANER_NUMA="bind:1,3").output
        self.assertIn(" interleave:1,3 ", maps)

    def test_markers_keep_to_nodes(self):
        self.client("markers", 100, GC_MARKERS=4)  # ends before or while the topology loads
        planned = json.loads(self.run_there(GLEANER, "topology", "--json", "--markers", "8").output)
        nodes = [marker["node"] for marker in planned["markers"]]
        output = self.run_there(CLIENT, "markers", "2000", GC_MARKERS="8").output
        allowed = re.findall(r"thread\s+(\S+)", output)
        self.assertEqual(allowed[0], "0-3")
        bound = [int(processors) for processors in allowed if processors in "0123"]
        # A node has the processor of its number. Helpers that were not needed are not bound.
        self.assertGreaterEqual(len(bound), 2, output)
        for node in range(4):
            self.assertLessEqual(bound.count(node), nodes.count(node), (bound, nodes))

    def test_the_calls_in_each_mode(self):
        for mode in ({}, {"GLEANER_GENERATIONAL": "2"}, {"GLEANER_CONCURRENT": "1"},
                     {"GLEANER_CONCURRENT": "1", "GLEANER_WRITE_TRACKING": "mprotect"},
                     {"GLEANER_NUMA": "cyclic:all:16k"}, {"GLEANER_NUMA": "interleave"}):
            self.run_there(API_TEST, **mode)

    def test_a_cpuset_without_two_nodes(self):
        script = ("cd /sys/fs/cgroup && echo +cpuset >cgroup.subtree_control && mkdir -p few && "
                  "echo 1-2 >few/cpuset.mems && echo $$ >few/cgroup.procs && exec \"$@\"")
        finished = self.run_there("sh", "-c", script, "sh", CLIENT, "fresh", "interleave:0-3",
                                  str(MB))
        self.assertIn("reduced=1", finished.output)
        self.assertEqual(set(re.findall(r"(-?\d+)x", finished.output)), {"1", "2"})
        finished = self.run_there("sh", "-c", script, "sh", CLIENT, "fresh", "bind:3", str(MB),
                                  status=1)
        self.assertIn("none of the nodes", finished.errors)
        finished = self.run_there("sh", "-c", script, "sh", CLIENT, "touch", "0", "4", str(MB))
        self.assertIn("error=0", finished.output)

    def test_refused_calls(self):
        # Before the library starts: it takes the machine for one with one node.
        figures, pages, errors = self.client("--refuse", "fresh", "interleave", MB,
                                             GLEANER_NUMA="interleave")
        self.assertEqual(set(pages), {0})
        figures, pages, _ = self.client("--refuse-later", "existing", "interleave:1-2", MB)
        # Pages that are there can be moved all the same.
        self.assertEqual((figures["error"], figures["placed"], set(pages)), (1, 256, {1, 2}))


class HugePages(Placed):
    NODES = [Node(1, 192)] * 4
    SETTINGS = {"files": [CLIENT, MALLOC], "environment": ENVIRONMENT}

    def test_64_mib(self):
        self.expect_interleaved("fresh", [0, 1, 2, 3], 64 * MB)
        self.expect_cyclic("fresh", [0, 1, 2, 3], 16, 64 * MB)
        self.expect_cyclic("mapped", [0, 1, 2, 3], HUGE_PAGE, 64 * MB, ["--huge"])

    def test_what_is_huge_already(self):
        for way in ("existing", "mapped"):
            self.expect_interleaved(way, [0, 1, 2, 3], 24 * MB, ["--huge"])
            self.expect_cyclic(way, [0, 1, 3], 100, 24 * MB, ["--huge"])

    def test_malloc_by_environment(self):
        for size in (3 * MB, 64 * MB):
            _, pages, errors = self.client("malloc", size, GLEANER_NUMA="interleave",
                                           LD_PRELOAD=MALLOC)
            by_node = [pages.count(node) for node in range(4)]
            # Whole huge pages take turns.
            self.assertLessEqual(max(by_node) - min(by_node), HUGE_PAGE, by_node)
            self.assertEqual(errors, "")


class Policies(Placed):
    """A thread at a time needs memory. AL keeps all pages with their threads, at four times the
    memory; PS takes what is free, wherever it is; LPS is between them, as k says."""
    NODES = [Node(1, 128)] * 4
    SETTINGS = {"files": [CLIENT], "environment": ENVIRONMENT, "huge_pages": False}
    NEED = 4 * MB

    def relay(self, policy, k=1):
        figures, _, _ = self.client("relay", 4, 12, self.NEED, GLEANER_POLICY=policy, GLEANER_K=k,
                                    GLEANER_INITIAL_HEAP="64m")
        # What the library counts as remote is remote.
        remote = 1 - figures["local"] / figures["items"]
        counted = figures["remote_pages"] / figures["pages_taken"]
        self.assertGreater(counted, remote * 8 / 12 - 0.05)  # 4 of 12 rounds are counted by it alone
        self.assertLess(counted, remote * 8 / 12 + 4 / 12 + 0.05)
        return figures["local"] / figures["items"], figures["heap_bytes"]

    def test_in_the_thesis_s_order(self):
        local, memory = {}, {}
        for name, policy, k in (("al", "al", 1), ("lps4", "lps", 4), ("lps2", "lps", 2),
                                ("lps1", "lps", 1), ("ps", "ps", 1)):
            local[name], memory[name] = self.relay(policy, k)
        order = ("al", "lps4", "lps2", "lps1", "ps")
        for more, less in itertools.pairwise(order):
            self.assertGreaterEqual(local[more] + 0.02, local[less], local)
            self.assertGreaterEqual(memory[more] + MB, memory[less], memory)
        self.assertGreater(local["al"], 0.98)
        self.assertGreater(local["lps4"], 0.98)
        self.assertLess(local["ps"], 0.5)
        self.assertGreater(local["lps2"], local["ps"] + 0.1)
        for k in (1, 2, 4):
            self.assertLessEqual(memory[f"lps{k}"], k * self.NEED + 2 * MB, memory)


class UnevenNodes(Placed):
    """Node 1 has no memory, node 2 no processor, and node 3 little memory."""
    NODES = [Node(2, 192), Node(1, 0), Node(0, 192), Node(0, 64)]
    SETTINGS = {"files": [CLIENT], "environment": ENVIRONMENT, "huge_pages": False,
                "distances": {(0, 1): 30, (1, 2): 15}}

    def test_without_memory(self):
        figures, pages, _ = self.client("fresh", "interleave:0-2", 3 * MB)
        self.assertEqual((figures["reduced"], set(pages)), (1, {0, 2}))
        _, _, errors = self.client("fresh", "bind:1", MB, status=1)
        self.assertIn("none of the nodes", errors)
        figures, _, _ = self.client("relay", 3, 6, 2 * MB)
        self.assertGreater(figures["items"], 0)

    def test_without_processors(self):
        self.expect_one("fresh", "bind", 2, 3 * MB)
        self.expect_cyclic("existing", [0, 2], 16, 3 * MB)
        # Nobody runs there, so nothing is touched there.
        _, pages, _ = self.client("touch", 64 * OS_PAGE, 3, 3 * MB)
        self.assertEqual(set(pages) - {0, 2}, set())

    def test_full(self):
        for placement in ("preferred:3", "cyclic:3"):
            figures, pages, _ = self.client("fresh", placement, 96 * MB)
            self.assertLess(pages.count(3), len(pages))
            self.assertGreater(pages.count(3), 1000)
            if placement == "cyclic:3":
                self.assertGreater(figures["elsewhere"], 1000)
                self.assertEqual(figures["error"], errno.ENOMEM)
                self.assertEqual(figures["pages"], figures["placed"] + figures["elsewhere"])
        figures, pages, _ = self.client("mapped", "preferred:3", 96 * MB)
        self.assertEqual(figures["error"], errno.ENOMEM)
        self.assertGreater(figures["elsewhere"], 1000)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[8:]])
