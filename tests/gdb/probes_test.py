#!/usr/bin/env python3
"""The static probes of the library: which there are, and what gdb finds when they fire in client.c.

usage: probes_test.py GDB LIBRARY CLIENT EVENTS
EVENTS: observe/trace_events.def. 77: gdb cannot look into processes here.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

GDB, LIBRARY, CLIENT, EVENTS = (os.path.abspath(path) for path in sys.argv[1:5])
SKIP = 77
MAX_ARGUMENTS = 12


def probes():
    """Name, location, semaphore and arguments of each probe."""
    notes = subprocess.run(["readelf", "-W", "-n", LIBRARY], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    return re.findall(r"Provider: gleaner\n\s*Name: (\w+)\n\s*Location: 0x(\w+), Base: \w+, "
                      r"Semaphore: 0x(\w+)\n\s*Arguments: (.*)", notes)


def events():
    """The number of arguments of each event's probe, by its name."""
    with open(EVENTS, encoding="utf-8") as file:
        rows = re.findall(r'^TRACE_EVENT\(\d+, (\w+), "[^"]*", (\w+),\s*((?:"[^"]*"\s*)*)\)',
                          file.read(), re.MULTILINE)
    found = {}
    for name, form, texts in rows:
        arguments = "".join(re.findall('"([^"]*)"', texts))
        count = 1 + (form == "Span") + (arguments.count("|") + 1 if arguments else 0)
        if form != "Note":
            snake_case = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()
            found[snake_case] = min(count, MAX_ARGUMENTS)
    return found


class Probes(unittest.TestCase):
    def gdb(self, script):
        """What a run of the client says that makes one collection, with the commands of `script`."""
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith(("GC_", "GLEANER_"))}
        environment.update(GC_PRINT_STATS="1", GLEANER_RESERVE="64m", GC_MARKERS="1",
                           LD_LIBRARY_PATH=os.path.dirname(LIBRARY))
        with tempfile.NamedTemporaryFile("w", suffix=".gdb") as file:
            file.write("set debuginfod enabled off\nset pagination off\nset confirm off\n"
                       "set breakpoint pending on\nset print thread-events off\n" + script +
                       "run collected </dev/null\n")
            file.flush()
            said = subprocess.run([GDB, "-nx", "-batch", "-x", file.name, CLIENT], text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=100, env=environment).stdout
        if re.search("ptrace: (Operation not permitted|Function not impl)", said):
            print("skipped:", said)
            sys.exit(SKIP)
        return said

    def test_each_event_has_one_with_its_arguments(self):
        self.assertEqual({name: len(arguments.split()) for name, _, _, arguments in probes()},
                         events())
        self.assertEqual(len({location for _, location, _, _ in probes()}), len(events()))

    def test_they_share_a_semaphore(self):
        semaphore, = {semaphore for _, _, semaphore, _ in probes()}
        self.assertEqual(int(semaphore, 16) % 4, 2, "the upper half of an aligned word")

    def test_without_a_trace_they_fire_in_gdb(self):
        said = self.gdb("".join(
            f"break -probe-stap gleaner:{name}\ncommands\nsilent\n"
            f"""printf "fired {name} %d\\n", $_probe_argc\n"""
            "continue\nend\n" for name in events()))
        fired = dict(re.findall(r"fired (\w+) (\d+)", said))
        for name in ("pause_part", "pause", "collection", "mark", "stall", "slow_path", "heap"):
            self.assertEqual(fired.get(name), str(events()[name]), said)

    def test_arguments_are_those_of_the_statistics(self):
        said = self.gdb(
            "break -probe-stap gleaner:collection\ncommands\nsilent\n"
            'printf "number %lu cause %lu pause %lu live %lu objects %lu heap %lu\\n", '
            "$_probe_arg1, $_probe_arg2, $_probe_arg5, $_probe_arg7, $_probe_arg8, $_probe_arg10\n"
            "continue\nend\n")
        probed = re.search(r"number (\d+) cause (\d+) pause (\d+) live (\d+) objects (\d+) heap "
                           r"(\d+)", said)
        printed = re.search(r"gc (\d+) \(explicit\): live ([\d.]+) MB in (\d+) objects.*heap "
                            r"([\d.]+) MB, pause ([\d.]+) ms", said)
        self.assertTrue(probed and printed, said)
        self.assertEqual(probed[1], printed[1])
        self.assertEqual(probed[2], "1", "explicit")
        self.assertAlmostEqual(int(probed[3]) / 1e6, float(printed[5]), delta=0.00051)
        self.assertAlmostEqual(int(probed[4]) / 1e6, float(printed[2]), delta=0.00051)
        self.assertEqual(probed[5], printed[3])
        self.assertAlmostEqual(int(probed[6]) / 1e6, float(printed[4]), delta=0.00051)
        self.assertIn("exited normally", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
