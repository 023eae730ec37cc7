#!/usr/bin/env python3
"""GLEANER_PROFILE: what is in a heap profile, against what the program has allocated; that pprof
reads it; and what programs, limits and accidents do to it.

usage: profile_test.py DROPIN CLIENT
"""

import collections
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import unittest

from command import CommandTest, clean, content, put

DROPIN, CLIENT = (os.path.abspath(path) for path in sys.argv[1:3])
# With one thread the samples of a seed are always the same; GLEANER_PROFILE_SEED in the environment
# tries another one.
SEED = os.environ.get("GLEANER_PROFILE_SEED", "1")
MODES = ("stop", "concurrent", "generational")
STOCHASTIC_MEAN = 65536
MAX_FRAMES = 128

HEAD = re.compile(r"heap profile: (\d+): (\d+) \[(\d+): (\d+)\] @ heap_v2/(\d+)")
LINE = re.compile(r"(\d+): (\d+) \[(\d+): (\d+)\] @((?: 0x[0-9a-f]+)*)")
Estimate = collections.namedtuple("Estimate", "live live_bytes all all_bytes all_variance "
                                              "live_variance")


def functions():
    """(begin, end, name) of the client's functions, as linked."""
    output = subprocess.run(["nm", "-S", "--defined-only", CLIENT], check=True, capture_output=True,
                            text=True).stdout
    found = []
    for line in output.splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[2] in "tT":
            begin = int(fields[0], 16)
            found.append((begin, begin + int(fields[1], 16), fields[3]))
    return found


FUNCTIONS = functions()


class Profile:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.lines = file.read().split("\n")
        assert self.lines[-1] == "" and self.lines[-2] == "# end", self.lines[-2:]
        head = HEAD.fullmatch(self.lines[0])
        assert head, self.lines[0]
        *sums, self.mean = map(int, head.groups())
        self.keys = {}
        self.sites = []
        at = 1
        while self.lines[at].startswith("# "):
            key, _, value = self.lines[at][2:].partition("=")
            self.keys[key] = value
            at += 1
        while self.lines[at]:
            line = LINE.fullmatch(self.lines[at])
            assert line, self.lines[at]
            frames = [int(frame, 16) - 1 for frame in line.group(5).split()]
            self.sites.append((*map(int, line.groups()[:4]), frames))
            at += 1
        assert self.lines[at + 1] == "MAPPED_LIBRARIES:"
        assert sums == [sum(column) for column in list(zip(*self.sites))[:4]] or not self.sites
        self.base = next((int(line.split("-")[0], 16) for line in self.lines[at:]
                          if line.endswith(CLIENT)), 0)

    def names(self, frames):
        """The client's functions on a stack, innermost first."""
        return [name for frame in frames for begin, end, name in FUNCTIONS
                if begin <= frame - self.base < end]

    def of(self, function):
        """What the profile says of the objects that the function allocated, or a function that is
        not the client's called by it."""
        sums = [0.0] * 6
        for live, live_bytes, count, count_bytes, frames in self.sites:
            if function != next(iter(self.names(frames)), None):
                continue
            size = count_bytes / count
            assert live_bytes == live * size
            scale = 1 if self.mean == 1 else 1 / (1 - math.exp(-size / self.mean))
            for i, value in enumerate((live * scale, live_bytes * scale, count * scale,
                                       count_bytes * scale, count * scale * (scale - 1),
                                       live * scale * (scale - 1))):
                sums[i] += value
        return Estimate(*sums)


class ProfileTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.profile = self.path("run.heap")

    def client(self, *arguments, mean="1", profile=None, status=0, before=None, **variables):
        result = self.execute(
            CLIENT, *arguments, status=status, preexec_fn=before,
            env=clean(DROPIN, GLEANER_PROFILE=self.profile if profile is None else profile,
                      GLEANER_PROFILE_BYTES=str(mean), GLEANER_PROFILE_SEED=SEED, **variables))
        self.stderr = result.stderr
        self.truth = {fields[0]: tuple(map(int, fields[1:]))
                      for fields in map(str.split, result.stdout.splitlines()) if len(fields) > 1}
        self.words = result.stdout.split()
        return result

    def read(self, path=None):
        return Profile(path or self.profile)

    def check_exact(self, profile, slack=0):
        """All counts as the program has them; up to `slack` dead objects may be found alive."""
        self.assertEqual(profile.keys["lost"], "0")
        for name, (count, live) in self.truth.items():
            found = profile.of("at_" + name)
            self.assertEqual(found.all, count, name)
            if live >= 0:
                self.assertGreaterEqual(found.live, live, name)
                self.assertLessEqual(found.live, live + slack, name)


class Figures(ProfileTest):
    def check_model(self, profile):
        for name, (count, live) in self.truth.items():
            found = profile.of("at_" + name)
            self.assertGreater(found.all_variance, 0, name)
            self.assertLess(abs(found.all - count), 4 * math.sqrt(found.all_variance),
                            f"{name}, all: {found.all:.0f} for {count}, seed {SEED}")
            # Some dead objects may be found alive by words that look like pointers.
            self.assertLess(abs(found.live - live), 4 * math.sqrt(found.live_variance) + 10,
                            f"{name}, live: {found.live:.0f} for {live}, seed {SEED}")

    def test_sampled_amounts_are_those_of_the_program(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                self.client("model", mean=STOCHASTIC_MEAN, GLEANER_MODE=mode)
                profile = self.read()
                self.assertEqual(profile.mean, STOCHASTIC_MEAN)
                self.assertEqual(profile.keys["lost"], "0")
                self.check_model(profile)

    def test_of_several_threads(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                self.client("threads", mean=STOCHASTIC_MEAN, GLEANER_MODE=mode)
                self.check_model(self.read())

    def test_threads_that_end_at_once_are_sampled_as_often(self):
        for mean in 512, 100000:
            self.client("brief", mean=mean)
            found = self.read().of("at_brief")
            count = self.truth["brief"][0]
            deviation = math.sqrt(count / math.expm1(64 / mean))
            self.assertLess(abs(found.all - count), 4 * deviation, f"{found.all:.0f} for {count}")

    def test_each_path_of_allocation_is_counted(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                self.client("paths", GLEANER_MODE=mode)
                self.assertGreater(len(self.truth), 20)
                self.check_exact(self.read())

    def test_how_objects_end(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                self.client("ends", GLEANER_MODE=mode)
                self.check_exact(self.read(), slack=5)
                self.client("finalizers-run", GLEANER_MODE=mode)
                self.truth["finalized"] = (self.truth["finalized"][0], 0)
                self.check_exact(self.read(), slack=5)

    def test_objects_freed_with_debugging(self):
        self.client("debug-freed")
        self.check_exact(self.read())

    def test_objects_that_change_their_size(self):
        self.client("resized")
        profile = self.read()
        self.check_exact(profile)
        self.assertGreaterEqual(profile.of("at_resized").live_bytes, 10 * 3000000)
        self.assertLess(profile.of("at_resized").live_bytes, 10 * 3100000)

    def test_deep_stacks_are_cut_off(self):
        self.client("depth")
        profile = self.read()
        self.assertEqual(profile.of("at_depth").all, 1000)
        self.assertEqual({len(frames) for *_, frames in profile.sites
                          if "at_depth" in profile.names(frames)}, {MAX_FRAMES})

    def test_stacks_lead_from_the_allocation_to_main(self):
        self.client("threads")
        profile = self.read()
        for *_, frames in profile.sites:
            names = profile.names(frames)
            if "at_small" in names:
                self.assertEqual(names[-2:], ["at_small", "model"])
        self.client("model")
        profile = self.read()
        stacks = [profile.names(frames) for *_, frames in profile.sites]
        self.assertIn(["at_large", "model", "main"],
                      [[name for name in names if name != "_start"] for names in stacks])

    def test_an_exhausted_heap(self):
        self.client("exhausted", GLEANER_MAX_HEAP="8m")
        self.assertGreater(self.read().of("keep").all, 10000)

    def test_without_memory_for_the_tables_the_program_goes_on(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (140 << 20, 140 << 20))
        self.client("ends", before=limit, GLEANER_RESERVE="64m")
        self.assertIn("no memory", self.stderr)
        self.assertEqual(self.files(), [])

    @unittest.skipUnless(shutil.which("google-pprof"), "needs google-pprof")
    def test_pprof_reads_it(self):
        self.client("model", mean=STOCHASTIC_MEAN)
        profile = self.read()
        for option, field in (("--alloc_objects", "all"), ("--inuse_objects", "live"),
                              ("--alloc_space", "all_bytes"), ("--inuse_space", "live_bytes")):
            result = subprocess.run(["google-pprof", "--text", "--show_bytes", option, CLIENT,
                                     self.profile], capture_output=True, text=True, check=True)
            self.assertIn(f"1-in-{STOCHASTIC_MEAN}", result.stderr)
            for name in "at_small", "at_medium", "at_large":
                line = next(line.split() for line in result.stdout.splitlines()
                            if line.endswith(name))
                expected = getattr(profile.of(name), field)
                self.assertAlmostEqual(float(line[0]), expected, delta=2 + expected * 1e-4)


class Files(ProfileTest):
    def test_nothing_is_sampled_unless_asked_for(self):
        self.client("write", self.path("other"), mean=0, profile="")
        self.assertEqual(self.words, ["EOPNOTSUPP", "EINVAL"])
        self.assertEqual(self.files(), [])

    def test_a_forked_child_writes_its_own(self):
        self.client("fork")
        child = self.truth["child"][0]
        self.assertEqual(self.files(), ["run.heap", f"run.heap.{child}"])
        self.assertEqual(self.read().of("at_freed").all, 0)
        of_child = self.read(self.path(f"run.heap.{child}"))
        self.assertEqual(of_child.of("at_kept").live, 1000)
        self.assertEqual(of_child.of("at_freed").live, 1000)
        self.assertEqual(of_child.keys["process"].split()[0], str(child))

    def test_a_child_that_allocates_nothing_writes_nothing(self):
        self.client("fork-exit")
        self.assertEqual(self.files(), ["run.heap"])

    def test_children_of_a_process_whose_threads_sample(self):
        for mode in MODES:
            self.client("fork-threads", mean=200, GLEANER_MODE=mode, profile=self.path(mode))
            files = [name for name in self.files() if name.startswith(mode)]
            self.assertEqual(len(files), 6)
            for name in files:
                self.read(self.path(name))

    def test_handlers_that_end_the_process_anywhere(self):
        self.client("exit-in-handlers")
        self.assertEqual(self.truth["hung"], (0,))
        refused = self.stderr.count("a signal handler inside the allocator")
        self.assertEqual(refused, len(self.stderr.splitlines()), self.stderr)
        # Each child has written a file, or said why not, or had not sampled anything yet.
        self.assertLessEqual(len(self.files()), 1 + 100 - refused)
        for name in self.files():
            self.read(self.path(name))

    def test_handlers_that_fork_anywhere(self):
        self.client("fork-in-handlers")
        self.assertEqual(self.truth["hung"], (0,))
        self.assertEqual((self.files(), self.stderr), (["run.heap"], ""))
        self.read()

    def test_copies_of_the_process_without_fork_handlers(self):
        self.client("copies")
        self.assertEqual(self.truth["hung"], (0,))
        self.assertEqual((self.files(), self.stderr), (["run.heap"], ""))
        self.read()

    def test_another_program_leaves_the_file_alone(self):
        self.client("spawn")
        child = self.truth["child"][0]
        self.assertEqual(self.read().of("at_kept").all, 1000)
        self.assertEqual(self.read(self.path(f"run.heap.{child}")).of("at_dropped").all, 1000)

    def test_a_program_that_another_one_executes(self):
        self.client("exec")
        self.assertEqual(len(self.files()), 2)
        self.assertEqual(self.read().sites, [])  # what the first one began with
        self.assertEqual(self.read(self.path(self.files()[1])).of("at_dropped").all, 1000)

    def test_names(self):
        self.client("ends", profile="%p.heap")
        self.assertRegex(self.files()[0], r"^\d+\.heap$")
        self.client("ends", profile=self.path("again"))
        self.client("ends", profile=self.path("again"))
        self.assertEqual(self.read(self.path("again")).of("at_kept").all, 1000)

    def test_what_cannot_be_written(self):
        foreign = self.path("foreign")
        put(foreign, "precious")
        for path, reason in ((foreign, "is no heap profile"), ("/dev/full", "is no heap profile"),
                             (self.path("none/here"), "No such file"),
                             (self.folder, "Is a directory"),
                             (self.path("x" * 300), "File name too long"),
                             (self.path("y" * 5000), "too long, or there is no")):
            self.client("ends", profile=path)
            self.assertIn(path[:60], self.stderr)
            self.assertIn(reason, self.stderr)
        self.assertEqual(content(foreign), "precious")

    def test_files_that_cannot_be_written_at_the_end(self):
        self.client("limit")
        self.assertIn(f"cannot write the heap profile {self.profile}: File too large", self.stderr)
        os.mkdir(self.path("folder"))
        path = self.path("folder/run.heap")
        self.client("remove", path, self.path("folder"), profile=path)
        self.assertIn(f"cannot write the heap profile {path}: No such file", self.stderr)

    def test_a_program_that_closes_all_descriptors(self):
        self.client("close")
        self.assertEqual(self.read().of("at_kept").all, 1000)

    def test_without_a_file_nothing_is_sampled_unless_asked_for(self):
        for mean, words in ((0, ["EOPNOTSUPP", "EINVAL"]), (1, ["0", "EINVAL"])):
            self.client("write", self.path("other"), mean=mean, profile=self.path("none/here"))
            self.assertEqual(self.words, words)

    def test_a_thread_that_is_cancelled_while_it_writes(self):
        self.client("cancel", self.path("one"))
        self.assertEqual(self.words, ["0"] * 5)
        self.read(self.path("one"))

    def test_without_memory_to_write_the_older_file_is_left(self):
        self.client("no-memory", self.path("one"))
        self.assertEqual(self.words, ["0", "ENOMEM"])
        self.assertEqual(self.read(self.path("one")).of("at_kept").all, 1000)

    def test_without_descriptors(self):
        self.client("descriptors")
        self.assertIn("no names for its addresses: /proc/self/maps: Too many open", self.stderr)
        self.assertEqual(self.read().of("at_kept").all, 0)
        self.assertEqual(sum(count for _, _, count, _, _ in self.read().sites), 1000)

    def test_in_a_sandbox(self):
        if "unavailable" in self.client("sandbox").stdout:
            self.skipTest("no filters of system calls")
        self.assertEqual((self.read().of("at_kept").all, self.stderr), (1000, ""))

    def test_writing_on_demand(self):
        foreign = self.path("foreign")
        put(foreign, "precious")
        self.client("write", self.path("one"), self.path("one"), foreign, self.path("none/here"),
                    profile="")
        self.assertEqual(self.words, ["0", "0", "EEXIST", "ENOENT", "EINVAL"])
        self.assertEqual(self.read(self.path("one")).of("at_kept").live, 1000)


if __name__ == "__main__":
    print(f"seed {SEED}", file=sys.stderr)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
