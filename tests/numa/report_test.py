#!/usr/bin/env python3
"""gleaner numa on machines with two nodes: its figures are those of numa_maps and numastat, and
numactl --membind, which leaves text on the wrong node, is explained and mended in both ways.

usage: report_test.py BUILD_DIR GLEANER DROPIN LOCAL_TEXT CLIENT REFUSE
"""

import errno
import json
import os
import re
import shutil
import sys
import unittest

from machine import Node
from on_machine import OnMachine

BUILD, GLEANER, DROPIN, LOCAL_TEXT, CLIENT, REFUSE = (os.path.abspath(path)
                                                      for path in sys.argv[1:7])
NUMACTL, NUMASTAT, SETPRIV = (shutil.which(name) or name
                              for name in ("numactl", "numastat", "setpriv"))
USER = 1000
AS_USER = [SETPRIV, f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
BOUND = [NUMACTL, "--membind=1"]
FILES = [GLEANER, DROPIN, LOCAL_TEXT, CLIENT, REFUSE, NUMACTL, NUMASTAT, SETPRIV]

# Starts the client by $START with its input open, runs "$@" with its process number in place of
# PID, and ends it.
WITH_CLIENT = """
mkdir -p /tmp/client
chmod 777 /tmp/client
cd /tmp/client
rm -f in out
mkfifo in
$START <in >out &
pid=$!
exec 4>in
# It waits in read(0, ...): nothing changes any more.
until grep -q waiting out && grep -q '^0 0x0 ' /proc/$pid/syscall; do sleep 0.05; done
for word; do
  shift
  case $word in PID) word=$pid;; /proc/PID/*) word=/proc/$pid/${word#/proc/PID/};; esac
  set -- "$@" "$word"
done
"$@"
status=$?
cat /proc/$pid/numa_maps >maps 2>/dev/null
exec 4>&-
wait $pid
exit $status
"""


def sum_of_numa_maps(text, which=lambda line: True):
    sums = {}
    for line in filter(which, text.splitlines()):
        page = int(re.search(r"kernelpagesize_kB=(\d+)|$", line)[1] or 4) << 10
        for node, pages in re.findall(r" N(\d+)=(\d+)", line):
            sums[node] = sums.get(node, 0) + int(pages) * page
    return sums


class Report(OnMachine):
    BUILD = BUILD
    NODES = [Node(2, 256), Node(2, 256)]
    SETTINGS = {"files": FILES, "environment": {"LD_LIBRARY_PATH": os.path.dirname(DROPIN)}}

    def with_client(self, start, *command, status=0):
        return self.run_there("sh", "-c", WITH_CLIENT, "sh", *command, status=status,
                              START=" ".join(start))

    def report(self, start, *options, status=0, tool=()):
        """The document of a client that runs by `start`, and numa_maps behind it."""
        finished = self.with_client(start, *tool, GLEANER, "numa", "--json", *options, "PID",
                                    status=status)
        return json.loads(finished.output), "\n".join(self.read_there("/tmp/client/maps"))

    def sums(self, document, group, *names):
        """Of the parts of a group, and of the names if some are given."""
        sums = {}
        for part in document["parts"]:
            if part["group"] == group and (not names or part["name"] in names):
                for node, size in part["bytes"].items():
                    sums[node] = sums.get(node, 0) + size
        return sums

    def text_of(self, document):
        """The node of the text and the read-only data of the program and its libraries, which is to
        be one; None if they are on several."""
        nodes = {node for group in ("text", "read-only") for node in self.sums(document, group)}
        return nodes.pop() if len(nodes) == 1 else None

    # --- Figures ---

    def test_they_are_those_of_numa_maps(self):
        for start in ([CLIENT], [*BOUND, CLIENT], [NUMACTL, "--interleave=all", CLIENT],
                      [NUMACTL, "--preferred=1", CLIENT], ["taskset", "4", CLIENT]):
            document, maps = self.report(start)
            self.assertEqual(document["bytes"], sum_of_numa_maps(maps), start)
            of_parts = {}
            for part in document["parts"]:
                for node, size in part["bytes"].items():
                    of_parts[node] = of_parts.get(node, 0) + size
            self.assertEqual(of_parts, document["bytes"], start)
            self.assertEqual(self.sums(document, "C heap"),
                             sum_of_numa_maps(maps, lambda line: " heap" in line))
            # Text has no pages of the process itself; data has.
            self.assertEqual(
                {node: self.sums(document, "text", DROPIN).get(node, 0) +
                       self.sums(document, "read-only", DROPIN).get(node, 0) for node in "01"},
                {node: sum_of_numa_maps(maps, lambda line: f"file={DROPIN}" in line and
                                        "anon=" not in line).get(node, 0) for node in "01"})

    def test_they_are_those_of_numastat(self):
        finished = self.with_client(
            [NUMACTL, "--interleave=all", CLIENT], "sh", "-c", f"{GLEANER} numa --json $0; "
            f"{NUMASTAT} -p $0", "PID")
        line, _, table = finished.output.partition("\n")
        total = re.search(r"(?m)^Total +([\d.]+) +([\d.]+) +[\d.]+$", table)
        for node in (0, 1):
            self.assertAlmostEqual(json.loads(line)["bytes"][str(node)] / 2**20,
                                   float(total[node + 1]), delta=0.0051)

    def test_the_heap_of_several_nodes(self):
        document, maps = self.report([NUMACTL, "--interleave=all", CLIENT])
        for name, size in (("large objects", 6 << 20), ("large pointer-free objects", 9 << 20),
                           ("small objects", 4 << 20)):
            by_node = self.sums(document, "heap", name)
            self.assertGreaterEqual(sum(by_node.values()), size)
            self.assertGreater(min(by_node["0"], by_node["1"]), size / 4)
        for object_ in document["large_objects"]:
            self.assertEqual(set(object_["bytes"]), {"0", "1"})
        self.assertEqual(document["elsewhere"], {})
        self.assertEqual(document["policy"], "interleave:0-1")

    # --- The case of numactl --membind ---

    def test_text_is_where_the_file_was_read(self):
        document, maps = self.report([*BOUND, CLIENT])
        self.assertEqual(document["policy"], "bind:1")
        self.assertEqual(self.text_of(document), "0")
        for group in ("heap", "C heap", "stacks"):
            self.assertEqual(set(self.sums(document, group)), {"1"})
        self.assertEqual(set(document["elsewhere"]), {"0"})
        finding = document["findings"][0]
        for words in ("Pages of files are elsewhere, though the process is bound to node 1",
                      f"on node 0 of the text of {DROPIN}", "page cache",
                      "mbind with MPOL_MF_MOVE returns 0", "gleaner numa --fix",
                      "gleaner run --local-text PROGRAM", "drop_caches"):
            self.assertIn(words, finding)
        table = self.with_client([*BOUND, CLIENT], GLEANER, "numa", "PID").output
        self.assertRegex(table, r"(?m)^text +\S*libgc.so.1 +\S+ kB +100.0 % +-  bind:1 +\S+ kB$")
        self.assertRegex(table, r"(?m)^heap +small objects +\S+ MB +- +100.0 %  bind:1 +-$")

    def test_without_the_privilege_shared_pages_stay(self):
        document, maps = self.report([*AS_USER, *BOUND, CLIENT], "--fix", tool=AS_USER, status=1)
        self.assertEqual(document["moved"]["own_pages_only"], True)
        self.assertGreater(document["moved"]["stayed"]["EACCES"], 0)  # the tool has libc, too
        # A page that no other process has may be moved: the client's own text.
        self.assertEqual(set(self.sums(document["before"], "text", CLIENT)), {"0"})
        self.assertEqual(set(self.sums(document["after"], "text", CLIENT)), {"1"})
        libc = {part["name"] for part in document["after"]["parts"]
                if part["group"] == "text" and "libc.so" in part["name"]}
        self.assertIn("0", self.sums(document["after"], "text", *libc))
        finished = self.with_client([*AS_USER, *BOUND, CLIENT], *AS_USER, GLEANER, "numa", "--fix",
                                    "PID", status=1)
        self.assertRegex(finished.output, r"(?s)stay: other processes have them, too, and to move "
                         r"these takes\s+CAP_SYS_NICE")
        self.bring_files_back()

    def test_with_the_privilege_they_are_moved(self):
        document, maps = self.report([*AS_USER, *BOUND, CLIENT], "--fix")
        self.assertEqual(self.text_of(document["before"]), "0")
        self.assertGreater(document["moved"]["pages"], 0)
        self.assertEqual(document["moved"]["stayed"], {})
        self.assertEqual(self.text_of(document["after"]), "1")
        self.assertEqual(document["after"]["elsewhere"], {})
        self.assertEqual(sum_of_numa_maps(maps, lambda line: "file=" in line).keys(), {"1"})
        # They stay there for the next one.
        document, maps = self.report([*BOUND, CLIENT])
        self.assertEqual(set(self.sums(document, "text", CLIENT, DROPIN)), {"1"})
        self.bring_files_back()

    def test_a_copy_of_the_text_needs_no_privilege(self):
        start = [*AS_USER, *BOUND, GLEANER, "run", "--local-text", CLIENT]
        document, maps = self.report(start, tool=AS_USER)
        self.assertEqual(self.text_of(document), "1")
        for group in ("text", "read-only"):
            names = {part["name"] for part in document["parts"] if part["group"] == group}
            self.assertIn(f"{DROPIN} (copy)", names)
            self.assertTrue(all(name.endswith(" (copy)") for name in names), names)
        # What numa_maps says: no page of a file is executable, and the rest is data that nobody
        # has written.
        self.assertLess(sum_of_numa_maps(maps).get("0", 0), 256 << 10)
        self.assertGreaterEqual(sum_of_numa_maps(maps)["1"], 20 << 20)

    def test_a_program_before_and_after(self):
        finished = self.run_there(*AS_USER, *BOUND, GLEANER, "numa", "--fix", "--", CLIENT)
        self.assertRegex(finished.errors, r"(?m)^gleaner:   in memory before: node 0: \d+ pages$")
        self.assertRegex(finished.errors, r"(?m)^gleaner:   after: node 1: \d+ pages$")
        self.assertRegex(finished.errors, r"(?m)^text +\S*libgc\.so\.1 \(copy\) +\S+ kB +- +100.0 %")

    def bring_files_back(self):
        """To node 0, where they are at the machine's start, for the next test."""
        document, maps = self.report([NUMACTL, "--membind=0", CLIENT], "--fix")
        self.assertEqual(self.text_of(document["after"]), "0")

    # --- Other cases ---

    def test_the_panel_of_a_run(self):
        self.run_there(*BOUND, CLIENT, GLEANER_TRACE="/tmp/run.trace")
        self.run_there(GLEANER, "report", "-o", "/tmp/run.html", "/tmp/run.trace")
        page = "\n".join(self.read_there("/tmp/run.html"))
        found = re.search('<script type="application/json" id="content">(.*?)</script>', page, re.S)
        sections = json.loads(found[1].replace("\u00a0", " "))["sections"]
        bars, = (block["bars"] for section in sections for block in section["blocks"]
                 if "Memory of the process by memory node" in json.dumps(block))
        self.assertEqual([row["label"] for row in bars["rows"]], ["0", "1"])
        node_0, node_1 = (row["cells"] for row in bars["rows"])
        self.assertEqual(node_0[0], "0 B")  # the heap
        self.assertRegex(node_1[0], r"2\d.\d MB")
        self.assertRegex(node_0[1], r"MB")  # text is on node 0

    def test_the_node_of_its_processors(self):
        document, maps = self.report(["taskset", "4", CLIENT])
        self.assertEqual(document["policy"], "default")
        self.assertEqual(document["processors_node"], 1)
        self.assertEqual(set(document["elsewhere"]), {"0"})
        self.assertIn("allowed processors of node 1 alone", document["findings"][0])
        document, maps = self.report([CLIENT])
        self.assertNotIn("processors_node", document)
        self.assertEqual(document["elsewhere"], {})
        output = self.with_client([CLIENT], GLEANER, "numa", "--fix", "PID").output
        self.assertIn("the process is bound to no node", output)

    def test_nodes_that_its_cpuset_does_not_have(self):
        group = "/sys/fs/cgroup/few"
        self.run_there("sh", "-c", f"echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control; "
                       f"mkdir {group}; echo 0 >{group}/cpuset.mems")
        finished = self.run_there(
            "sh", "-c", f"echo $$ >{group}/cgroup.procs; exec {GLEANER} numa --json -- {CLIENT}")
        document = json.loads(finished.errors)
        self.assertEqual(document["allowed_nodes"], [0])
        self.assertIn("Its cpuset allows memory of node 0 alone", "\n".join(document["findings"]))
        self.assertIn("reduced to these without an error", "\n".join(document["findings"]))

    def test_calls_that_are_refused(self):
        for error, words in ((errno.ENOSYS, "not implemented"), (errno.EPERM, "not permitted")):
            refused = [REFUSE, "move_pages", str(error)]
            document, maps = self.report([NUMACTL, "--interleave=all", CLIENT], tool=refused)
            self.assertEqual(document["bytes"], sum_of_numa_maps(maps))
            self.assertGreater(sum(self.sums(document, "heap", "of unknown use").values()), 15 << 20)
            self.assertIn(words, "\n".join(document["findings"]))
            document, maps = self.report([*BOUND, CLIENT], "--fix", tool=refused, status=1)
            self.assertEqual(document["moved"]["error"], error)
            self.assertEqual(document["before"]["bytes"], document["after"]["bytes"])

    def test_a_kernel_without_numa_maps(self):
        finished = self.with_client(
            [CLIENT], "sh", "-c", f"mount --bind /dev/null /proc/$0/numa_maps && {GLEANER} numa "
            "--json $0; umount /proc/$0/numa_maps", "PID")
        document = json.loads(finished.output)
        self.assertFalse(document["numa_maps"])
        self.assertGreater(document["bytes"]["0"], 20 << 20)
        self.assertIn("There is no /proc/PID/numa_maps", "\n".join(document["findings"]))
        self.assertGreaterEqual(sum(self.sums(document, "heap", "large objects").values()), 6 << 20)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
