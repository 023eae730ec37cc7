#!/usr/bin/env python3
"""gleaner record and gleaner replay, from the outside.

usage: record_test.py GLEANER CLIENT
"""

import glob
import os
import re
import resource
import signal
import subprocess
import sys
import unittest

from trace import Trace

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tool"))
from command import CommandTest, content, put

GLEANER, CLIENT = (os.path.abspath(path) for path in sys.argv[1:3])


def figure(result, name):
    found = re.search(rf"^{name} +([\d.]+)", result.stdout, re.MULTILINE)
    assert found, f"no {name} in: {result.stdout}{result.stderr}"
    return float(found[1])


class Case(CommandTest):
    def setUp(self):
        super().setUp()
        self.trace = self.path("trace")

    def record(self, *arguments, status=0, options=(), **more):
        return self.execute(GLEANER, "record", "-o", self.trace, *options, "--", *arguments,
                            status=status, **more)

    def replay(self, *options, status=0, trace=None, **more):
        return self.execute(GLEANER, "replay", trace or self.trace, *options, status=status, **more)

    def allocators(self):
        """What the tool says it has."""
        refused = self.replay("--allocator", "none", trace=os.devnull, status=125)
        return re.search(r"there are (.*) \(", refused.stderr)[1].split(", ")


class Recording(Case):
    def test_every_function_of_the_family(self):
        result = self.record(CLIENT, "calls")
        expected = []
        for line in result.stdout.splitlines():
            kind, *numbers = line.split()
            event = [kind, int(numbers[0], 16)]
            if kind == "resize":
                event += [int(numbers[1]), int(numbers[2], 16)]
            else:
                event += [int(number) for number in numbers[1:]]
            expected.append(tuple(event))
        trace = Trace(self.trace)
        got = [event[:4] if event[0] == "resize" else event for event in trace.kinds()]
        # libc's own allocations may come before, between and after.
        at = 0
        for event in expected:
            self.assertIn(event, got[at:])
            at = got.index(event, at) + 1
        self.assertEqual(len(expected), 18)
        self.assertEqual(trace.command, [CLIENT.encode(), b"calls"])
        self.assertEqual(trace.state, "ended")
        trace.lives()

    def test_exit_status_signals_and_streams_are_the_programs(self):
        result = self.record("sh", "-c", "cat; echo to stderr >&2; exit 7", status=7, input="in\n",
                             stdin=None)
        self.assertEqual(result.stdout, "in\n")
        self.assertTrue(result.stderr.startswith("to stderr\n"), result.stderr)
        self.record("sh", "-c", "kill -TERM $$", status=-signal.SIGTERM)

    def test_blocks_handed_between_threads(self):
        self.record(CLIENT, "threads")
        trace = Trace(self.trace)
        self.assertEqual(len({event[1] for event in trace.events}), 9)
        self.assertGreater(len(trace.events), 320_000)
        self.assertEqual(trace.lives(), 0)
        for allocator in self.allocators():
            result = self.replay("--allocator", allocator)
            self.assertEqual(figure(result, "threads"), 9)
            self.assertNotIn("unknown", result.stdout)
            self.assertNotIn("lost", result.stdout)

    def test_many_short_threads_share_blocks_of_the_file(self):
        self.record(CLIENT, "many_threads")
        trace = Trace(self.trace)
        self.assertEqual(len({event[1] for event in trace.events}), 501)
        self.assertEqual(sum(event[2:3] + event[4:5] == ("allocate", 77)
                             for event in trace.events), 500)
        self.assertLess(trace.blocks, 10)
        self.assertEqual(trace.lives(), 0)
        self.assertEqual(figure(self.replay(), "threads"), 501)

    def test_a_killed_program_loses_an_event_of_each_thread_at_most(self):
        self.record(CLIENT, "killed", status=-signal.SIGKILL)
        trace = Trace(self.trace)
        self.assertEqual(trace.state, "recording")
        kinds = trace.kinds()
        self.assertEqual(sum(event[0] == "allocate" and event[2] == 4242 for event in kinds), 1000)
        # All that the main thread had done before the signal is there.
        self.assertEqual(sum(event[0] == "allocate" and event[2] == 321 for event in kinds), 200_000)
        # Of the numbers given out, those in flight are missing: one for each of three threads.
        numbers = {event[0] for event in trace.events}
        numbers |= {event[-1] for event in trace.events if event[2] == "resize"}
        self.assertLessEqual(max(numbers) - len(numbers), 3)
        result = self.replay()
        self.assertIn("was killed", result.stdout)

    def test_children_have_files_of_their_own(self):
        self.record(CLIENT, "forks")
        self.assertEqual(Trace(self.trace).flags, 0)
        children = [Trace(path) for path in glob.glob(self.trace + ".*")]
        forked = [trace for trace in children if trace.flags == 1]
        self.assertEqual(len(forked), 20)
        for trace in forked:
            kinds = trace.kinds()
            self.assertEqual(sum(event[0] == "allocate" and event[2] == 2222 for event in kinds),
                             1000)
            self.assertGreaterEqual(trace.lives(), 1)  # the inherited block
        executed = [trace for trace in children if trace.command[-1] == b"calls"]
        self.assertEqual(len(executed), 1)
        path = f"{self.trace}.{forked[0].process}"
        self.assertIn("unknown blocks", self.replay(trace=path).stdout)

    def test_no_children(self):
        self.record(CLIENT, "forks", options=["--no-children"])
        self.assertEqual(glob.glob(self.trace + ".*"), [])
        self.assertGreater(len(Trace(self.trace).events), 40)

    def test_a_program_that_closes_all_descriptors(self):
        self.record(CLIENT, "close_all")
        self.assertEqual(sum(event[0] == "allocate" and event[2] == 999
                             for event in Trace(self.trace).kinds()), 100_000)

    def test_the_limit(self):
        result = self.record(CLIENT, "threads", options=["--limit", "128k"])
        self.assertIn("reached its limit", result.stderr)
        self.assertLessEqual(os.path.getsize(self.trace), 128 * 1024)
        trace = Trace(self.trace)
        self.assertEqual(trace.state, "limit")
        self.assertEqual(trace.blocks, 8)
        self.assertIn("at the limit", self.replay().stdout)

    def test_the_limit_of_the_process_on_files(self):
        limit = 80 * 1024
        result = self.record(
            CLIENT, "threads",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertIn("reached its limit", result.stderr)
        self.assertLessEqual(os.path.getsize(self.trace), limit)

    def test_a_limit_that_the_program_sets(self):
        result = self.record(CLIENT, "lowers_limit")
        self.assertIn("refused more space", result.stderr)
        self.assertLessEqual(os.path.getsize(self.trace), 1 << 20)
        self.assertEqual(Trace(self.trace).state, "refused")

    def test_a_full_file_system(self):
        mount = self.path("small")
        os.mkdir(mount)
        script = (f"mount -t tmpfs -o size=200k none {mount} && "
                  f"{GLEANER} record -o {mount}/trace -- {CLIENT} threads; status=$?; "
                  f"cp {mount}/trace {self.trace}; exit $status")
        if subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", mount]).returncode:
            self.skipTest("no mounts for this user")
        result = self.execute("unshare", "-rm", "sh", "-c", script)
        self.assertIn("refused more space", result.stderr)
        self.assertEqual(Trace(self.trace).state, "refused")

    def test_an_earlier_trace_is_replaced(self):
        self.record(CLIENT, "many_threads")
        self.record(CLIENT, "calls")
        self.assertEqual(Trace(self.trace).command[-1], b"calls")

    def test_what_is_refused(self):
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        self.assertIn("not a regular file", self.replay(trace=fifo, status=1).stderr)
        for arguments, text in (
                ([], "which program?"),
                (["-o", self.folder, "true"], "directory"),
                (["-o", os.devnull, "true"], "not a regular file"),
                (["-o", fifo, "true"], "not a regular file"),
                (["-o", "/no/such/folder/trace", "true"], "No such file"),
                (["--limit", "1k", "true"], "limit"),
                (["--limit", "many", "true"], "limit"),
                (["--no-such-option", "true"], "--no-such-option")):
            self.assertIn(text, self.execute(GLEANER, "record", *arguments, status=125).stderr)
        result = self.execute(GLEANER, "record", "no-such-program", status=127)
        self.assertIn("no such program", result.stderr)

    def test_a_program_runs_though_it_cannot_be_recorded(self):
        # A sub-process finds the file of its forerunner, and cannot make one of its own.
        inner = self.path("inner")
        os.mkdir(inner)
        self.trace = os.path.join(inner, "trace")
        result = self.record("sh", "-c", f"rm -r {inner}; {CLIENT} calls")
        self.assertIn(f"cannot write to {self.trace}", result.stderr)
        self.assertIn("resize", result.stdout)


class Replaying(Case):
    def test_a_recorded_python(self):
        self.record("/usr/bin/python3", "-c",
                    "print(sum(len(str({i: [i] * 5})) for i in range(3000)))",
                    env={**os.environ, "PYTHONMALLOC": "malloc"})
        events = len(Trace(self.trace).events)
        self.assertGreater(events, 30_000)
        ways = [["--allocator", allocator] for allocator in self.allocators()]
        ways += [["--one-thread"], ["--touch", "none"], ["--touch", "first"]]
        for way in ways:
            result = self.replay(*way)
            self.assertEqual(figure(result, "events"), events)
            self.assertGreater(figure(result, "time"), 0)
            requested = figure(result, "peak requested")
            self.assertGreater(requested, 1)
            self.assertGreater(figure(result, "peak address space"), requested * 0.9)
            if "--touch" not in way:
                self.assertGreater(figure(result, "peak resident"), requested * 0.9)
                self.assertGreater(figure(result, "page faults"), 100)

    def test_the_course_of_memory(self):
        self.record(CLIENT, "calls")
        table = self.path("table.csv")
        for allocator in self.allocators():
            self.replay("--allocator", allocator, "--csv", table, "--points", "7")
            head, *lines = content(table).splitlines()
            self.assertEqual(head, "operation,trace_ms,requested_bytes,blocks,resident_bytes,"
                                   "address_space_bytes")
            rows = [[int(field) for field in line.split(",")] for line in lines]
            self.assertEqual(len(rows), 7)
            self.assertEqual([row[0] for row in rows], sorted(row[0] for row in rows))
            self.assertEqual([row[1] for row in rows], sorted(row[1] for row in rows))
            trace = Trace(self.trace)
            live = {}
            for event in trace.kinds():
                if event[0] in ("free", "resize"):
                    live.pop(event[1], None)
                if event[0] == "resize":
                    live[event[3]] = event[2]
                elif event[0] != "free":
                    live[event[1]] = event[2]
            self.assertEqual(rows[-1][2:4], [sum(live.values()), len(live)])

    def test_a_damaged_trace_is_used_up_to_there(self):
        self.record(CLIENT, "killed", status=-signal.SIGKILL)
        whole = Trace(self.trace)
        events = figure(self.replay(), "events")
        offset = 5 * whole.block_bytes + 1000
        data = bytearray(whole.data)
        data[offset] ^= 4
        put(self.trace, data)
        damaged = self.replay(status=2)
        self.assertIn(f"damaged at byte {5 * whole.block_bytes}: the checksum of block 5",
                      damaged.stderr)
        self.assertIn("what precedes it is used", damaged.stderr)
        self.assertGreater(figure(damaged, "events"), 1000)
        self.assertLess(figure(damaged, "events"), events)

        put(self.trace, whole.data[:offset])
        cut = self.replay(status=2)
        self.assertIn(f"damaged at byte {offset}: the file is cut", cut.stderr)
        self.assertEqual(figure(cut, "events"), figure(damaged, "events"))

    def test_what_is_refused(self):
        self.record(CLIENT, "calls")
        for trace, message in (
                (put(self.path("empty"), ""), "the file is empty"),
                (put(self.path("text"), "no trace at all\n" * 4000),
                 "damaged at byte 0: not an allocation trace"),
                (self.folder, "Is a directory"),
                (os.devnull, "not a regular file"),
                (self.path("none"), "No such file")):
            self.assertIn(message, self.replay(trace=trace, status=1).stderr)
        self.assertIn("No such file",
                      self.replay("--csv", "/no/such/folder/table", status=1).stderr)
        table = put(self.path("table"), "good")
        result = self.replay(
            "--csv", table, status=1,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
        self.assertIn(f"{table}: File too large", result.stderr)
        self.assertEqual(content(table), "good")
        for option, value in (("--allocator", "best"), ("--touch", "twice"), ("--points", "0")):
            result = self.replay(option, value, status=125)
            self.assertIn(option, result.stderr)
            self.assertIn(value, result.stderr)
        if os.geteuid() != 0:
            os.chmod(self.trace, 0)
            self.assertIn("Permission denied", self.replay(status=1).stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
