#!/usr/bin/env python3
"""GLEANER_SNAPSHOT and gleaner_heap_snapshot: that the file holds exactly the objects, references
and roots of the program, and what programs, limits and accidents do to one.

usage: snapshot_file_test.py LIST DROPIN CLIENT
"""

import collections
import os
import random
import re
import subprocess
import sys
import unittest

from command import SEED, CommandTest, clean, content, put
from snapshot_bytes import HEAD_BYTES, checksummed

LIST, DROPIN, CLIENT = (os.path.abspath(path) for path in sys.argv[1:4])
MODES = ("auto", "stop", "concurrent", "generational")


class Listing:
    """What snapshot_list prints."""

    def __init__(self, text):
        self.description = {}
        self.modules, self.threads, self.roots, self.references = [], [], [], []
        self.objects, self.finalizers, self.links = {}, set(), set()
        for line in text.splitlines():
            what, _, rest = line.partition(" ")
            if what == "is":
                key, _, value = rest.partition("=")
                self.description[key] = value
            elif what == "object":
                address, size, *more = rest.split(" ")
                kind = more[0] if more[0] != "KIND" else more.pop(0)
                del more[0]
                self.objects[address] = (int(size), kind, more.pop(0), " ".join(more))
            elif what == "module":
                path, build_id, segments = rest.rsplit(" ", 2)
                self.modules.append((path, int(build_id), int(segments)))
            elif what == "thread":
                tid, is_main, took, registers, words, name = rest.split(" ", 5)
                self.threads.append((int(tid), is_main == "1", took == "1", int(registers),
                                     int(words), name))
            elif what == "root":
                kind, thread, begin, end, name = rest.split(" ", 4)
                self.roots.append((kind, int(thread), int(begin, 16), int(end, 16), name))
            elif what == "from":
                root, word, target = rest.split(" ")[:3]
                self.references.append((int(root), int(word, 16), target))
            elif what == "finalizer":
                self.finalizers.add(rest)
            elif what == "link":
                self.links.add(rest)
            elif what == "unreached":
                self.unreached = int(rest)

    def from_roots(self, kind):
        """The references of all roots of a kind: words and targets."""
        return {(word, target) for root, word, target in self.references
                if self.roots[root][0] == kind}


class SnapshotTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.snapshot = self.path("heap.snapshot")

    def client(self, what, **variables):
        return self.execute(CLIENT, what, self.snapshot, str(SEED), env=clean(DROPIN, **variables))

    def list(self, path=None, status=0):
        result = self.execute(LIST, path or self.snapshot, status=status)
        self.message = result.stderr
        return Listing(result.stdout) if status == 0 else None

    def check_reached(self, listing):
        self.assertEqual(listing.unreached, 0, "each object is reached by a root")
        return listing


class Contents(SnapshotTest):
    def check_shapes(self, **variables):
        printed = self.client("shapes", **variables).stdout.splitlines()
        listing = self.check_reached(self.list())
        for line in printed:
            what, rest = line.split(" ", 1)
            words = rest.split(" ")
            if what == "object":
                size, kind, _, references = listing.objects[words[0]]
                if words[1] != "-":
                    self.assertEqual(kind, words[1], rest)
                self.assertEqual(references, " ".join(words[2:]), f"{rest}, seed {SEED}")
                self.assertGreaterEqual(size, 16)
            elif what == "full":
                references = listing.objects[words[0]][3].split(" ")
                self.assertEqual(references, [f"{8 * i}:{words[1 + i % 2]}"
                                              for i in range(int(words[3]))])
            elif what in ("finalizer", "link"):
                self.assertIn(rest, getattr(listing, what + "s"))
            elif what == "root":
                root = int(next(line for line in printed if line.startswith("static"))[7:], 16)
                self.assertIn((root, words[0]), listing.from_roots("static"))
                self.assertEqual(self.tree_size(listing, words[0]), 15)
            elif what == "once":
                self.assertEqual([target for _, word, target in listing.references
                                  if word == int(words[0], 16)], [words[1]])
            elif what in ("stack", "thread-local"):
                self.assertIn((int(words[0], 16), words[1]), listing.from_roots(what))
        return listing

    def tree_size(self, listing, address):
        references = listing.objects[address][3].split()
        return 1 + sum(self.tree_size(listing, reference.split(":")[1])
                       for reference in references)

    def test_objects_references_and_roots_are_the_programs(self):
        listing = self.check_shapes()
        self.assertEqual([name for path, _, _ in listing.modules
                          for name in [os.path.basename(path)] if name.startswith("gleaner_")],
                         [os.path.basename(CLIENT)])
        self.assertTrue(all(segments > 0 for _, _, segments in listing.modules))
        self.assertEqual([(is_main, took) for _, is_main, took, _, _, _ in listing.threads],
                         [(True, True), (False, False)])
        for _, _, _, registers, words, name in listing.threads:
            self.assertGreater(words, 100)
            self.assertEqual(name, os.path.basename(CLIENT)[:15])
            if os.uname().machine == "x86_64":
                self.assertIn(registers, (8, 17))
        self.assertEqual(listing.description["reason"], "call")

    def test_in_every_mode(self):
        for mode in MODES[1:]:
            self.check_shapes(GLEANER_MODE=mode, GLEANER_SHORT_PAUSE="0")
            os.unlink(self.snapshot)

    def test_settings_that_decide_what_is_a_pointer(self):
        for variables in ({"GLEANER_PAD_OBJECTS": "1"}, {"GC_MARKERS": "1"}):
            printed = self.client("shapes", **variables).stdout
            listing = self.check_reached(self.list())
            self.assertTrue(set(re.findall(r"object (\w+)", printed)) <= set(listing.objects))
            os.unlink(self.snapshot)

    def test_a_cycle_under_way_and_young_objects(self):
        for mode in MODES:
            self.client("mode", GLEANER_MODE=mode, GLEANER_SHORT_PAUSE="0")
            for i in range(4):
                listing = self.check_reached(self.list(f"{self.snapshot}.{i}"))
                # What the program has dropped is not there, but for what its stack still holds.
                self.assertGreater(len(listing.objects), 2**16 - 2)
                self.assertLess(len(listing.objects), 2**16 + 2**15)

    def test_an_empty_heap(self):
        self.client("empty")
        listing = self.check_reached(self.list())
        self.assertLess(len(listing.objects), 10)
        self.assertEqual(len(listing.threads), 1)

    def test_objects_that_wait_for_their_finalizers(self):
        self.client("finalizers")
        listing = self.check_reached(self.list())  # also the finalizers' data
        queued = {line.split()[0] for line in listing.finalizers if line.endswith(" 1")}
        self.assertGreater(len(queued), 90)
        self.assertTrue(queued <= {target for _, target in listing.from_roots("finalizer")})


class Files(SnapshotTest):
    def test_at_the_end_of_the_process(self):
        self.client("exit", GLEANER_SNAPSHOT=self.path("a-%p"))
        name, = self.files()
        self.assertRegex(name, r"^a-\d+$")
        listing = self.check_reached(self.list(self.path(name)))
        self.assertEqual(listing.description["process"], name[2:])
        self.assertEqual(listing.description["reason"], "exit")
        self.assertEqual(os.stat(self.path(name)).st_mode & 0o777, 0o600)

    def test_the_next_run_replaces_it(self):
        for _ in range(2):
            self.client("exit", GLEANER_SNAPSHOT="relative")
        self.assertEqual(self.files(), ["relative"])

    def test_signals(self):
        self.client("signals", GLEANER_SNAPSHOT=self.snapshot, GLEANER_SNAPSHOT_SIGNAL="USR1")
        names = ["heap.snapshot"] + [f"heap.snapshot.{i}" for i in range(2, 5)]
        self.assertEqual(self.files(), names)
        for i, name in enumerate(names):
            listing = self.check_reached(self.list(self.path(name)))
            self.assertEqual(listing.description["reason"], "signal" if i < 3 else "exit")
            self.assertGreaterEqual(len(listing.objects), 2**11 - 1)

    def test_signals_that_cannot_be_had(self):
        for signal, reason in (("NOSUCH", "no signal that can be handled"),
                               ("9", "no signal that can be handled"),
                               ("0", "no signal"), ("SIGSTOP", "no signal"),
                               ("SEGV", "no signal"), ("SIGBUS", "no signal"), ("8", "no signal"),
                               ("ILL", "no signal"), ("TRAP", "no signal"), ("SYS", "no signal"),
                               ("33", "Invalid argument")):
            result = self.client("empty", GLEANER_SNAPSHOT=self.path("x"),
                                 GLEANER_SNAPSHOT_SIGNAL=signal)
            self.assertIn(reason, result.stderr)
        result = self.client("empty", GLEANER_SNAPSHOT_SIGNAL="USR2")
        self.assertIn("no effect without GLEANER_SNAPSHOT", result.stderr)

    def test_a_forked_child_has_its_own(self):
        self.client("fork", GLEANER_SNAPSHOT=self.snapshot)
        first, second = self.files()
        self.assertEqual(first, "heap.snapshot")
        self.assertRegex(second, r"^heap\.snapshot\.\d+$")
        for name in (first, second):
            listing = self.check_reached(self.list(self.path(name)))
            self.assertGreaterEqual(len(listing.objects), 2**7 - 1)
            self.assertEqual(len(listing.threads), 1)
            self.assertTrue(any(CLIENT in path for path, _, _ in listing.modules))

    def test_a_child_that_is_forked_while_another_thread_takes_one(self):
        self.client("forked")
        self.check_reached(self.list(self.snapshot + ".child"))

    def test_the_end_of_a_process_that_takes_one_after_the_other(self):
        self.client("loop", GLEANER_SNAPSHOT=self.path("end"))
        self.assertEqual(self.check_reached(self.list(self.path("end"))).description["reason"],
                         "exit")

    def test_many_threads_at_once(self):
        self.client("many")
        self.assertEqual(len(self.files()), 4)
        for name in self.files():
            listing = self.check_reached(self.list(self.path(name)))
            self.assertEqual(sum(took for _, _, took, _, _, _ in listing.threads), 1)


class Accidents(SnapshotTest):
    def test_what_the_call_returns(self):
        self.client("errors")
        self.check_reached(self.list())

    def test_files_that_cannot_be_written(self):
        for path, reason in ((self.path("no/such"), "No such file or directory"),
                             (self.folder, "Is a directory"),
                             ("/dev/full", "the file exists and is no snapshot"),
                             (self.path("x" * 300), "File name too long")):
            result = self.client("empty", GLEANER_SNAPSHOT=path)
            self.assertIn(reason, result.stderr)
            self.assertIn(path, result.stderr)

    def test_a_file_that_is_no_snapshot_is_left_alone(self):
        put(self.snapshot, "precious")
        self.assertIn("is no snapshot",
                      self.client("work", GLEANER_SNAPSHOT=self.snapshot).stderr)
        self.assertEqual(content(self.snapshot), "precious")

    def test_no_space(self):
        self.client("limit")
        self.list(status=1)
        self.assertIn("empty", self.message)
        self.assertEqual(os.path.getsize(self.snapshot), 0)

    def test_descriptors(self):
        self.client("close")
        self.check_reached(self.list())
        self.client("descriptors")

    def test_disabled_collections(self):
        result = self.client("exit", GLEANER_SNAPSHOT=self.snapshot, GC_DONT_GC="1")
        self.assertIn("collections are disabled", result.stderr)

    def test_a_program_that_is_killed_while_it_writes(self):
        for _ in range(3):
            self.client("kill")
            result = subprocess.run([LIST, self.snapshot], capture_output=True, text=True,
                                    timeout=100)
            if result.returncode != 0:
                self.assertEqual(result.returncode, 1)
                self.assertIn(self.snapshot, result.stderr)

    def damaged(self, data):
        path = self.path("damaged")
        put(path, data)
        self.list(path, status=1)
        self.assertTrue(self.message.startswith(f"{path}: "), self.message)
        return self.message

    def test_a_file_that_is_cut_or_damaged_anywhere(self):
        self.client("exit", GLEANER_SNAPSHOT=self.snapshot)
        data = content(self.snapshot, "rb")
        draw = random.Random(SEED)
        for size in {0, 1, 7, 8, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1, len(data) - 1,
                     *(draw.randrange(len(data)) for _ in range(20))}:
            self.damaged(data[:size])
        for _ in range(40):
            copy = bytearray(data)
            copy[draw.randrange(len(copy))] ^= 1 << draw.randrange(8)
            self.damaged(copy)
        self.assertIn("follows the end", self.damaged(data + b"\0" * 8))
        self.assertIn("another version", self.damaged(data[:6] + b"2" + data[7:]))

    def test_nonsense_with_right_checksums_is_no_crash(self):
        self.client("empty", GLEANER_SNAPSHOT=self.path("x"))
        data = content(self.path("x"), "rb")
        self.assertEqual(checksummed(data), data)
        draw = random.Random(SEED)
        path = self.path("damaged")
        for _ in range(50):
            copy = bytearray(data)
            for _ in range(draw.randrange(1, 4)):
                copy[draw.randrange(len(copy))] = draw.randrange(256)
            put(path, checksummed(copy))
            result = subprocess.run([LIST, path], capture_output=True, timeout=100)
            self.assertIn(result.returncode, (0, 1), f"seed {SEED}")

    def test_what_is_no_snapshot(self):
        for path, reason in ((self.path("missing"), "No such file"), (CLIENT, "no heap snapshot"),
                             (self.folder, "Is a directory"), ("/dev/null", "Invalid")):
            self.list(path, status=1)
            self.assertIn(f"{path}: {reason}", self.message)


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main(argv=sys.argv[:1])
