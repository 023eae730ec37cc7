#!/usr/bin/env python3
"""GLEANER_TRACE and gleaner trace: what is in a trace, and what programs, limits and accidents do to
one.

usage: trace_test.py GLEANER DROPIN CLIENT
"""

import collections
import json
import os
import random
import re
import resource
import struct
import subprocess
import sys
import unittest

from command import SEED, CommandTest, clean, content, put

GLEANER, DROPIN, CLIENT = (os.path.abspath(path) for path in sys.argv[1:4])
INCOMPLETE = 2
CAUSES = {"allocation", "explicit", "exhausted", "inspection"}


def strict_json(text):
    """What RFC 8259 allows, which has no NaN, with each key once."""
    def unique(pairs):
        if len(dict(pairs)) != len(pairs):
            raise ValueError(f"a key twice: {pairs}")
        return dict(pairs)

    def refuse(constant):
        raise ValueError(constant)

    return json.loads(text, object_pairs_hook=unique, parse_constant=refuse)


class TraceTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.trace = self.path("run.trace")

    def client(self, *arguments, trace=None, status=0, **variables):
        return self.execute(CLIENT, *arguments, status=status, env=clean(
            DROPIN, GLEANER_TRACE=self.trace if trace is None else trace, **variables))

    def convert(self, trace=None, status=0):
        result = self.execute(GLEANER, "trace", trace or self.trace, "-o", "-", status=status)
        self.message = result.stderr
        return self.check(strict_json(result.stdout)) if result.stdout else None

    def check(self, document):
        """That it is what the Trace Event Format says, which Perfetto and chrome://tracing read: the
        fields that each phase must have and no others, each thread named once, and spans that lie in
        each other or beside each other on each thread."""
        self.assertEqual(set(document), {"traceEvents", "displayTimeUnit", "otherData"})
        self.assertEqual(document["displayTimeUnit"], "ms")
        self.assertTrue(all(isinstance(text, str) for text in document["otherData"].values()))
        spans = collections.defaultdict(list)
        named = collections.Counter()
        for event in document["traceEvents"]:
            self.assertIsInstance(event["name"], str)
            self.assertTrue(event["name"])
            for number in ("pid", "tid"):
                if number in event:
                    self.assertIs(type(event[number]), int)
                    self.assertGreater(event[number], 0)
            if event["ph"] == "M":
                self.assertEqual(set(event), {"ph", "pid", "name", "args"} |
                                 ({"tid"} if event["name"] == "thread_name" else set()))
                self.assertIn(event["name"], ("process_name", "thread_name"))
                self.assertEqual(set(event["args"]), {"name"})
                self.assertIsInstance(event["args"]["name"], str)
                named[event.get("tid")] += 1
                continue
            self.assertEqual(set(event), {"ph", "pid", "tid", "name", "cat", "ts", "args"} |
                             {"X": {"dur"}, "i": {"s"}, "C": set()}[event["ph"]])
            self.assertEqual(event["cat"], "gleaner")
            self.assertIn(type(event["ts"]), (int, float))
            self.assertGreaterEqual(event["ts"], 0)
            self.assertIn(event["tid"], named, "a thread has its name before its events")
            for value in event["args"].values():
                self.assertIn(type(value), (int,) if event["ph"] == "C" else (int, str))
            if event["ph"] == "i":
                self.assertIn(event["s"], "gpt")
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0)
                spans[event["tid"]].append((round(event["ts"] * 1000),
                                            -round(event["dur"] * 1000), event["name"]))
        self.assertEqual(set(named.values()), {1}, named)
        for of_thread in spans.values():
            open_spans = []
            for begin, minus_duration, name in sorted(of_thread):
                end = begin - minus_duration
                while open_spans and open_spans[-1][0] <= begin:
                    open_spans.pop()
                if open_spans:
                    self.assertLessEqual(end, open_spans[-1][0],
                                         f"{name} outlasts {open_spans[-1][1]}")
                open_spans.append((end, name))
        return document["traceEvents"]

    def named(self, events, name):
        return [event for event in events if event["name"] == name and event["ph"] != "M"]


class Contents(TraceTest):
    def test_collections_are_those_of_the_statistics(self):
        result = self.client("threads", GC_PRINT_STATS="1")
        events = self.convert()
        traced = sorted((event["args"] for event in self.named(events, "collection")),
                        key=lambda arguments: arguments["number"])
        printed = re.findall(r"gc (\d+) \((\w+)\): live ([\d.]+) MB in (\d+) objects.*pause "
                             r"([\d.]+) ms", result.stderr)
        self.assertGreater(len(printed), 3)
        self.assertEqual(len(traced), len(printed))
        for arguments, (number, cause, _, _, pause) in zip(traced, printed):
            self.assertEqual(arguments["number"], int(number))
            self.assertEqual(arguments["cause"], cause)
            self.assertAlmostEqual(arguments["pause_ns"] / 1e6, float(pause), delta=0.00051)
        pauses = self.named(events, "pause")
        self.assertEqual(sorted(event["args"]["collection"] for event in pauses),
                         [arguments["number"] for arguments in traced])
        for pause in pauses:
            parts = sum(event["dur"] for event in events if event["name"].startswith("pause: ")
                        and event["tid"] == pause["tid"] and event["ts"] >= pause["ts"]
                        and event["ts"] + event["dur"] <= pause["ts"] + pause["dur"] + 0.001)
            self.assertAlmostEqual(parts, pause["dur"], delta=0.05)

    def test_threads_have_names_and_work(self):
        self.client("threads", GC_MARKERS="2", GLEANER_MODE="concurrent", GLEANER_SHORT_PAUSE="0")
        events = self.convert()
        names = {event["tid"]: event["args"]["name"] for event in events
                 if event["name"] == "thread_name"}
        roles = collections.Counter(name.split()[0] for name in names.values())
        self.assertEqual(roles["driver"], 1)
        self.assertEqual(roles["marker"], 1)
        self.assertEqual(roles["gleaner_trace_c"], 5, "names have 15 letters")
        by_thread = collections.defaultdict(set)
        for event in events:
            if event["ph"] == "X":
                by_thread[names[event["tid"]].split()[0]].add(event["name"])
        self.assertIn("mark", by_thread["driver"])
        self.assertIn("handshake", by_thread["driver"] | by_thread["gleaner_trace_c"])
        self.assertIn("stall: pause", by_thread["gleaner_trace_c"])
        self.assertIn("cycle: marking", {event["name"] for event in events})
        self.assertIn("slow path: fresh page", by_thread["gleaner_trace_c"])
        self.assertTrue(all(event["args"]["resident_bytes"] > 0
                            for event in self.named(events, "heap")[1:]))

    def test_names_that_threads_get_later(self):
        for what, status, client_status, expected in (
                ("named", 0, 0, {"by-itself", "by-another", "asleep", "renamed"}),
                ("named-killed", INCOMPLETE, -9, {"by-itself", "by-another", "renamed"})):
            self.client(what, status=client_status)
            names = {event["args"]["name"].split()[0] for event in self.convert(status=status)
                     if event["name"] == "thread_name"}
            self.assertLessEqual(expected, names, what)

    def test_no_limit_is_0(self):
        for mode in ("stop", "auto"):
            self.client("work", GLEANER_MODE=mode)
            heaps = self.named(self.convert(), "heap")
            self.assertEqual(heaps[0]["args"]["growth_limit_bytes"], 0, "before a collection")
            for heap in heaps:
                for name, value in heap["args"].items():
                    self.assertLess(value, 2**47, name)

    def test_an_initial_heap_spares_growth(self):
        growth = []
        for initial in ("0", "256m"):
            self.client("threads", GLEANER_MODE="stop", GLEANER_INITIAL_HEAP=initial)
            growth.append(len(self.named(self.convert(), "slow path: growth")))
        self.assertGreater(growth[0], 0)
        self.assertEqual(growth[1], 0)

    def test_snapshots_and_reports_of_leaks_are_inspections(self):
        for variables in ({"GLEANER_SNAPSHOT": self.path("snapshot")}, {"GLEANER_FIND_LEAK": "1"}):
            self.client("work", **variables)
            causes = [event["args"]["cause"]
                      for event in self.named(self.convert(), "collection")]
            self.assertEqual(causes[-1], "inspection", variables)
            self.assertNotIn("inspection", causes[:-1])

    def test_the_program_has_spans_of_its_own(self):
        self.client("spans")
        events = self.convert()
        spans = collections.Counter(event["name"] for event in events
                                    if event["name"].startswith("program"))
        self.assertEqual(spans, {"program: a name of more than twen": 2000,
                                 'program: "outer" <&\n>': 1, "program: ": 1})
        outer, = self.named(events, 'program: "outer" <&\n>')
        inner = self.named(events, "program: a name of more than twen")
        self.assertGreaterEqual(outer["dur"] * 1.001, sum(event["dur"] for event in inner))

    def test_the_process_describes_itself(self):
        self.client("work", "two words", "line\nbreak", GLEANER_MODE="stop", GC_MARKERS="3")
        self.assertEqual(self.execute(GLEANER, "trace", self.trace).stderr, "")
        described = json.loads(content(self.trace + ".json"))["otherData"]
        self.assertEqual(described["mode"], "stop")
        self.assertEqual(described["markers"], "3")
        self.assertTrue(described["command"].endswith("work two words line\\012break"))

    def test_without_the_option_there_is_none(self):
        self.client("work", trace="")
        self.assertEqual(self.files(), [])


class Processes(TraceTest):
    def test_a_forked_child_has_its_own(self):
        self.client("fork")
        self.convert()
        child, = (name for name in self.files() if name != "run.trace")
        self.assertRegex(child, r"^run\.trace\.\d+$")
        events = self.convert(self.path(child))
        self.assertEqual({event["pid"] for event in events}, {int(child.split(".")[-1])})
        self.assertTrue(self.named(events, "collection"))

    def test_a_child_that_does_not_use_the_heap_makes_none(self):
        for what in ("fork-exec", "fork-exit"):
            self.client(what)
            self.convert()
            self.assertEqual(self.files(), ["run.trace"])

    def test_a_child_that_ends_at_once(self):
        self.client("fork-briefly")
        child, = (name for name in self.files() if name != "run.trace")
        self.assertEqual(len(self.named(self.convert(self.path(child)), "collection")), 1)

    def test_a_child_by_a_plain_clone(self):
        self.client("clone")
        self.convert()
        child, = (name for name in self.files() if name != "run.trace")
        events = self.convert(self.path(child), status=INCOMPLETE)
        self.assertEqual({event["pid"] for event in events}, {int(child.split(".")[-1])})

    def test_a_child_of_vfork_is_its_parent_to_the_trace(self):
        self.client("vfork")
        self.assertTrue(self.named(self.convert(), "collection"))
        self.assertEqual(self.files(), ["run.trace"])

    def test_a_program_that_is_started_meanwhile_has_its_own(self):
        self.client("spawn")
        self.convert()
        self.assertEqual(len(self.files()), 2)
        for name in self.files():
            self.assertTrue(self.named(self.convert(self.path(name)), "collection"))

    def test_a_program_that_is_started_after_descriptors_were_closed_has_its_own(self):
        self.client("close-spawn")
        self.assertEqual(len(self.files()), 2)
        for name in self.files():
            events = self.convert(self.path(name))
            self.assertTrue(self.named(events, "collection"))

    def test_exec_keeps_what_was_there(self):
        self.client("exec")
        self.assertTrue(self.named(self.convert(status=INCOMPLETE), "heap"))
        self.assertIn("the end is missing", self.message)
        other, = (name for name in self.files() if name != "run.trace")
        self.convert(self.path(other))

    def test_the_next_run_replaces_it(self):
        self.client("threads")
        size = os.path.getsize(self.trace)
        self.client("work")
        self.assertLess(os.path.getsize(self.trace), size)
        self.convert()
        self.assertEqual(self.files(), ["run.trace"])

    def test_the_number_of_the_process_in_the_name(self):
        for _ in range(2):
            self.client("work", trace=self.path("a-%p.trace"))
        self.assertEqual(len(self.files()), 2)
        for name in self.files():
            events = self.convert(self.path(name))
            self.assertEqual({event["pid"] for event in events},
                             {int(re.match(r"a-(\d+)\.trace$", name)[1])})

    def test_the_rank_in_the_name(self):
        ranks = {"OMPI_COMM_WORLD_RANK": "3", "PMIX_RANK": "4", "PMI_RANK": "05",
                 "SLURM_PROCID": "../6"}
        for variable, rank in ranks.items():
            self.client("work", trace=self.path(f"{variable}-%r-%r%%p.trace"), **{variable: rank})
        self.client("work", trace=self.path("none-%r.trace"))
        self.assertEqual(self.files(), ["OMPI_COMM_WORLD_RANK-3-3%p.trace", "PMIX_RANK-4-4%p.trace",
                                        "PMI_RANK-05-05%p.trace", "SLURM_PROCID-0-0%p.trace",
                                        "none-0.trace"])
        process = self.convert(self.path("PMIX_RANK-4-4%p.trace"))[0]
        self.assertTrue(process["args"]["name"].startswith("rank 4: "), process)

    def test_a_relative_name(self):
        self.client("work", trace="here.trace")
        self.assertEqual(self.files(), ["here.trace"])


class Accidents(TraceTest):
    def test_descriptors_that_are_closed_or_replaced(self):
        for what in ("close", "replace"):
            self.client(what)
            self.assertTrue(self.named(self.convert(), "collection"))

    def test_a_program_that_is_killed(self):
        self.client("kill", status=-9)
        self.assertTrue(self.named(self.convert(status=INCOMPLETE), "collection"))
        self.assertIn("the end is missing", self.message)

    def test_a_program_that_calls__exit(self):
        self.client("_exit")
        self.convert(status=INCOMPLETE)

    def test_a_limit_on_the_size_of_files(self):
        result = self.client("limit")
        self.assertIn(f"cannot write the trace {self.trace}: File too large; it ends here",
                      result.stderr)
        self.assertEqual(result.stderr.count("it ends here"), 1, "said once")
        self.convert(status=INCOMPLETE)

    def test_files_that_cannot_be_opened(self):
        for path, reason in ((self.path("no/such/folder"), "No such file or directory"),
                             (self.folder, "Is a directory"),
                             ("/dev/null", "the file exists and is no trace"),
                             (self.path("x" * 300), "File name too long"),
                             (self.path("y" * 5000), "the path is too long, or there is no")):
            result = self.client("work", trace=path)
            self.assertIn(reason, result.stderr)
            self.assertRegex(result.stdout, "^collections ")
        self.assertEqual(self.files(), [])

    def test_a_file_that_is_no_trace_is_left_alone(self):
        put(self.trace, "precious")
        result = self.client("work")
        self.assertIn(f"the trace {self.trace}: the file exists and is no trace", result.stderr)
        self.assertEqual(content(self.trace), "precious")

    def test_a_trace_that_is_cut_anywhere(self):
        self.client("work")
        whole = self.convert()
        data = content(self.trace, "rb")
        head = 32 + struct.unpack_from("<Q", data, 24)[0]
        draw = random.Random(SEED)
        cut = self.path("cut")
        for size in {0, 1, 31, 32, 33, head - 1, head, len(data) - 1,
                     *(draw.randrange(head, len(data)) for _ in range(40))}:
            put(cut, data[:size])
            if size < head:
                self.assertIsNone(self.convert(cut, status=1))
                self.assertTrue(self.message.startswith(f"gleaner trace: {cut}: "), self.message)
                continue
            events = self.convert(cut, status=INCOMPLETE)
            # Names come first, and a thread's may stand behind the cut.
            names = [event for event in events if event["ph"] == "M"]
            others = [event for event in events if event["ph"] != "M"]
            expected = [event for event in whole if event["ph"] != "M"][:len(others)]
            self.assertEqual(others, expected, f"cut at {size}, seed {SEED}")
            self.assertEqual(events[:len(names)], [event for event in whole if event in names],
                             f"cut at {size}, seed {SEED}")
            self.assertEqual(names[:1], whole[:1], f"cut at {size}, seed {SEED}")

    def test_a_trace_that_is_damaged(self):
        self.client("work")
        data = content(self.trace, "rb")
        draw = random.Random(SEED)
        damaged = self.path("damaged")
        for _ in range(60):
            copy = bytearray(data)
            copy[draw.randrange(len(copy))] ^= 1 << draw.randrange(8)
            put(damaged, copy)
            result = subprocess.run([GLEANER, "trace", damaged, "-o", "-"], capture_output=True,
                                    timeout=100)
            self.assertIn(result.returncode, (0, 1, INCOMPLETE), f"seed {SEED}")
            if result.returncode == 0:
                json.loads(result.stdout)
            else:
                self.assertIn(damaged.encode(), result.stderr)

    def test_what_is_no_trace(self):
        for path, reason in ((self.path("missing"), "No such file"), (CLIENT, "no collector trace"),
                             (self.folder, "Is a directory")):
            self.assertIsNone(self.convert(path, status=1))
            self.assertIn(f"gleaner trace: {path}: {reason}", self.message)

    def test_the_trace_is_not_its_own_output(self):
        self.client("work")
        size = os.path.getsize(self.trace)
        os.link(self.trace, self.path("linked"))
        for output in (self.trace, self.path("linked")):
            result = self.execute(GLEANER, "trace", self.trace, "-o", output, status=1)
            self.assertIn("that is the trace itself", result.stderr)
        self.assertEqual(os.path.getsize(self.trace), size)

    def test_names_that_are_no_text(self):
        bad = [b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80",
               b"\xff", b"\xc3", "\u00e9\u20ac\U0001f600".encode()]
        self.client("work", *bad)
        self.convert()

    def test_an_output_that_cannot_be_written(self):
        self.client("work")
        for output, reason in (("/dev/full", "No space left"), ("/no/folder/x", "No such file")):
            result = self.execute(GLEANER, "trace", self.trace, "-o", output, status=1)
            self.assertIn(f"{output}: {reason}", result.stderr)

    def test_a_good_output_stays_if_there_is_no_room_for_another(self):
        self.client("work")
        output = self.path("good")
        put(output, "good")
        files = self.files()
        result = self.execute(
            GLEANER, "trace", self.trace, "-o", output, status=1,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)))
        self.assertIn(f"{output}: File too large", result.stderr)
        self.assertEqual(content(output), "good")
        self.assertEqual(self.files(), files)


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main(argv=sys.argv[:1])
