#!/usr/bin/env python3
"""gleaner topology: on machines that hwloc describes, and on this one.

usage: topology_test.py GLEANER MALLOC TORTURE
"""

import json
import os
import sys
import unittest

import command

GLEANER, MALLOC, TORTURE = (os.path.abspath(path) for path in sys.argv[1:4])


def file_of_lstopo(place):
    """As lstopo writes it, of a machine of two nodes in two objects with two processors each."""
    def tag(kind, index, processors, nodes, end=""):
        sets = {"": processors, "complete_": processors}
        if kind == "Machine":
            sets["allowed_"] = processors
        return (f'<object type="{kind}" os_index="{index}" '
                + "".join(f'{prefix}cpuset="{cpus:#x}" {prefix}nodeset="{nodes:#x}" '
                          for prefix, cpus in sets.items())
                + f'gp_index="{next(numbers)}" depth="{depth}" cache_size="1048576" cache_linesize="64" '
                'cache_associativity="0" cache_type="0" kind="0" subkind="0" '
                f'local_memory="1073741824"{end}>\n')

    numbers = iter(range(1, 100))
    depth = place[1] if place.endswith("Cache") else 0
    text = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'
    text += '<topology version="2.0">\n' + tag("Machine", 0, 15, 3)
    for node in range(2):
        text += tag(place, node, 3 << 2 * node, 1 << node)
        text += tag("NUMANode", node, 3 << 2 * node, 1 << node, "/")
        for processor in (2 * node, 2 * node + 1):
            text += tag("PU", processor, 1 << processor, 1 << node, "/")
        text += "</object>\n"
    return text + "</object>\n</topology>\n"


class TopologyTest(command.CommandTest):
    def topology(self, *arguments, status=0, **environment):
        result = self.execute(GLEANER, "topology", *arguments, status=status,
                              env={**os.environ, **environment})
        return result.stdout if status == 0 else result.stderr

    def described(self, *arguments, **environment):
        return json.loads(self.topology("--json", *arguments, **environment))

    def loads_hwloc(self, *program, **environment):
        """Whether a program loads libhwloc, or looks for it, in its life."""
        self.execute(*program, env={**os.environ, **environment, "LD_DEBUG": "libs,files",
                                    "LD_DEBUG_OUTPUT": self.path("loader")})
        said = ""
        for path in map(self.path, self.files()):
            said += command.content(path)
            os.remove(path)
        self.assertIn("libc.so.6", said, "the loader has said nothing")
        return "hwloc" in said

    def test_programs_on_one_node_do_not_load_hwloc(self):
        self.assertTrue(self.loads_hwloc(GLEANER, "topology"))
        if self.described()["memory_nodes"] != [0]:
            self.skipTest("this machine has several nodes")
        self.assertFalse(self.loads_hwloc(TORTURE, "--seed", "1", "--seconds", "1", "--threads",
                                          "4", "--nodes", "3000", GC_MARKERS="4",
                                          GLEANER_MODE="stop"))
        self.assertFalse(self.loads_hwloc("ls", "/", LD_PRELOAD=MALLOC))
        self.assertFalse(self.loads_hwloc("ls", "/", LD_PRELOAD=MALLOC, GLEANER_COLLECT="1",
                                          GLEANER_NUMA="interleave"))

    def test_another_machine(self):
        found = self.described("--markers", "8", HWLOC_SYNTHETIC="node:4 core:8 pu:1")
        self.assertEqual((found["source"], found["is_this_machine"], found["problem"]),
                         ("hwloc", False, None))
        self.assertEqual(found["memory_nodes"], [0, 1, 2, 3])
        self.assertEqual(found["processors"], list(range(32)))
        self.assertEqual(found["nodes"][1], {"node": 1, "processors": list(range(8, 16)),
                                             "distances": [20, 10, 20, 20]})
        self.assertEqual([marker["node"] for marker in found["markers"]],
                         [None, 0, 1, 1, 2, 2, 3, 3])
        for number, marker in enumerate(found["markers"]):
            self.assertEqual(sorted(marker["victims"]), [n for n in range(8) if n != number])
        self.assertEqual(found["markers"][5]["victims"], [4, 0, 1, 2, 3, 6, 7])
        # Each begins with another one, at its own node and elsewhere.
        victims = [marker["victims"] for marker in found["markers"]]
        self.assertEqual([victims[n][0] for n in range(2, 8)], [3, 2, 5, 4, 7, 6])
        self.assertEqual([victims[n][1] for n in range(2, 8)], [5, 6, 7, 0, 1, 2])

    def test_as_many_markers_as_the_library_starts(self):
        self.assertEqual(len(self.described(HWLOC_SYNTHETIC="node:2 pu:3")["markers"]), 6)
        self.assertEqual(len(self.described(HWLOC_SYNTHETIC="node:8 pu:32")["markers"]), 64)
        here = self.described()
        self.assertLessEqual(len(here["markers"]), len(here["processors"]))

    def test_this_machine(self):
        found = self.described()
        self.assertTrue(found["is_this_machine"])
        self.assertEqual(found["has_several_nodes"], len(found["memory_nodes"]) > 1)
        self.assertEqual(set(found["processors"]), os.sched_getaffinity(0))
        self.assertEqual([p for node in found["nodes"] for p in node["processors"]],
                         found["processors"])

    def test_affinity(self):
        here = self.described()
        one = here["processors"][-1]
        result = self.execute("taskset", "-c", str(one), GLEANER, "topology", "--json")
        found = json.loads(result.stdout)
        self.assertEqual(found["processors"], [one])
        self.assertEqual(found["machine_processors"], here["machine_processors"])
        self.assertEqual(len(found["markers"]), 1)

    def test_files_of_lstopo(self):
        for place in ("Package", "Die", "Group", "L3Cache", "L2Cache", "L1Cache", "Core"):
            file = command.put(self.path("machine.xml"), file_of_lstopo(place))
            found = self.described(HWLOC_XMLFILE=file)
            self.assertFalse(found["is_this_machine"], place)
            self.assertEqual([node["processors"] for node in found["nodes"]], [[0, 1], [2, 3]],
                             place)

    def test_a_description_that_is_wrong(self):
        self.assertTrue(self.described(HWLOC_SYNTHETIC="nonsense:2")["is_this_machine"])

    def test_for_people(self):
        text = self.topology("--markers", "3", HWLOC_SYNTHETIC="node:2 pu:2")
        self.assertEqual(text, """\
memory nodes of a machine that is not this one, by hwloc

  node  memory       processors            distances
     0  yes          0-1                    10  20
     1  yes          2-3                    20  10

marker  node      looks for work at
     0  any       1 2
     1  0         0 2
     2  1         1 0
""")

    def test_wrong_use(self):
        self.assertIn("--markers", self.topology("--markers", "0", status=125))
        self.assertIn("65", self.topology("--markers", "65", status=125))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
