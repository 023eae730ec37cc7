#!/usr/bin/env python3
"""What ./dev makes of its arguments. It runs in a small repository, and the programs that it calls are
replaced by scripts that write down how they were called.

usage: dev_test.py SOURCE_DIR BUILD_DIR
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])

# Each replaced program writes its name and arguments to $CALLS.
REPLACED = {
    "dpkg-query": 'note needs "$4"; case "$4" in $MISSING) exit 1 ;; esac; echo installed',
    "apt-get": 'note apt-get "$@"',
    "apt-cache": 'case "$2" in libpcre3-dev) exit 100 ;; esac; echo "Package: $2"',
    "sudo": '[ "$1" != -n ] || shift; exec "$@"',
    "dpkg": "echo /usr/lib/libgc.so.1",
    "ctest": """note ctest "$@"
case "$*" in *nothing*) echo 'No tests were found!!!'; exit 8 ;; *failing*) f=1 ;; *) f=0 ;; esac
echo "99% tests passed, $f tests failed out of 7"; exit $f""",
    "cmake": """note cmake "$@"
case "$*" in *"$FAILS"*) echo "$FAILS cannot be built"; exit 1 ;; esac
[ ! -e does_not_build ] || { echo 'cannot be built'; exit 1; }
mkdir -p build/release build/verify build/tsan build/asan-ubsan build/debug""",
    "python3": 'note python3 "$@"',
}


class Dev(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve() / "repository"
        self.bin = self.root.parent / "bin"
        self.calls_file = self.root.parent / "calls"
        self.bin.mkdir()
        for name, body in REPLACED.items():
            script = self.bin / name
            script.write_text('#!/bin/sh\nnote() { echo "$@" >>"$CALLS"; }\n' + body + "\n")
            script.chmod(0o755)
        self.root.mkdir()
        (self.root / ".ci").mkdir()
        for name in ("dev", ".ci/run"):
            shutil.copy(SOURCE / name, self.root / name)
        (self.root / ".gitignore").write_text("/build/\n")
        self.git("init", "--quiet")
        self.first = self.commit("first")
        self.second = self.commit("second")

    def git(self, *arguments):
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=b", *arguments],
                              cwd=self.root, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, text):
        (self.root / "text").write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", text)
        return self.git("rev-parse", "HEAD")

    def dev(self, *arguments, script="dev", status=0, fails="nothing at all", missing="none"):
        self.calls_file.write_text("")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        result = subprocess.run([self.root / script, *arguments], capture_output=True, text=True,
                                env={**environment, "PATH": f"{self.bin}:{os.environ['PATH']}",
                                     "CALLS": str(self.calls_file), "FAILS": fails, "MISSING": missing})
        self.output = result.stdout + result.stderr
        self.calls = self.calls_file.read_text().splitlines()
        self.assertEqual(result.returncode, status, self.output)

    def calls_of(self, name):
        return [call for call in self.calls if call.startswith(name + " ")]

    def test_what_is_wrong_is_named_and_nothing_is_done(self):
        for command, message in (
                (["test", "releas"], "unknown preset 'releas'; there are release debug verify"),
                (["test", "--quik"], "unknown option '--quik'"),
                (["test", "--all", "unit"], "--all takes no argument"),
                (["test", "release", "unit", "api"], "too many arguments"),
                (["test", "release", "unit("], "'unit(' is no regular expression"),
                (["test", "release", ""], "'' is no regular expression"),
                (["bench", "--against"], "--against needs a commit"),
                (["bench", "--against="], "--against needs a commit"),
                (["bench", "--against", "--runs"], "--against: there is no commit '--runs'")):
            self.dev(*command, status=2)
            self.assertIn(f"./dev {command[0]}: {message}", self.output)
            self.assertEqual(self.calls, [])

    def test_four_presets(self):
        presets = ["release", "verify", "asan-ubsan", "tsan"]
        for arguments, short in (["test"], True), (["test", "--all"], False):
            self.dev(*arguments)
            calls = self.calls_of("ctest")
            self.assertEqual([call.split()[2] for call in calls], presets)
            self.assertIn("== passed in", self.output)
            for preset, call in zip(presets, calls):
                self.assertIn(f"{preset}: 7 of 7 passed", self.output)
                self.assertEqual("--label-regex (^|-)(quick|short)$" in call, short)
                self.assertEqual(f"--preset {preset} --target gleaner_short_tests"
                                 in "\n".join(self.calls), short)

    def test_quick_builds_and_runs_what_has_the_label(self):
        self.dev("test", "--quick")
        self.assertEqual(len(self.calls_of("ctest")), 1)
        self.assertIn("--preset release", self.calls_of("ctest")[0])
        self.assertIn("--label-regex (^|-)quick$", self.calls_of("ctest")[0])
        self.assertIn("--build --preset release --target gleaner_quick_tests", self.output + "\n".join(self.calls))

    def test_a_preset_and_names(self):
        self.dev("test", "debug")
        call, = self.calls_of("ctest")
        self.assertIn("--preset debug", call)
        self.assertNotIn("regex", call)
        self.dev("test", "verify", "^unit\\.(gc|alloc)")
        self.assertIn("--tests-regex ^unit\\.(gc|alloc)", self.calls_of("ctest")[0])
        self.dev("test", "verify", "nothing", status=1)
        self.assertIn("verify has no test whose name matches 'nothing'", self.output)
        self.dev("test", "verify", "failing", status=1)
        self.assertIn("verify: 6 of 7 passed, 1 failed", self.output)

    def needs(self, *arguments):
        self.dev(*arguments)
        return {call.split()[1] for call in self.calls_of("needs")}

    def test_packages_are_those_that_the_command_needs(self):
        for_tests = {"libgtest-dev", "libgc-dev", "libopenmpi-dev", "openmpi-bin", "spin",
                     "systemtap-sdt-dev"}
        for arguments in (["install", "there"], ["demo"], ["compat"], ["bench"], ["bench-retention"]):
            needed = self.needs(*arguments)
            self.assertLess({"g++", "cmake", "libdw-dev", "nlohmann-json3-dev"}, needed)
            self.assertEqual(needed & for_tests, set())
            self.assertEqual("libbenchmark-dev" in needed, arguments[0].startswith("bench"))
        for arguments in (["test"], ["test", "--quick"], ["build"], ["failures"],
                          ["bench", "--against", "HEAD"]):
            self.assertLess(for_tests, self.needs(*arguments))

    def test_the_name_that_this_debian_has(self):
        self.dev("test", "verify", missing="libpcre*-dev")
        self.assertEqual([call.split()[-1] for call in self.calls_of("apt-get")],
                         ["-qq", "libpcre2-dev"])
        self.dev("test", "verify", missing="libpcre3-dev")  # libpcre2-dev is there
        self.assertEqual(self.calls_of("apt-get"), [])

    def tree(self):
        return self.root / "build" / f"against-{self.first[:12]}"

    def test_another_commit_is_built_beside_this_one(self):
        (self.root / "text").write_text("not committed")
        self.dev("bench", "--runs", "3", "--against", "HEAD~1", "--only", "GC Bench")
        self.assertEqual((self.tree() / "text").read_text(), "first")
        self.assertEqual((self.root / "text").read_text(), "not committed")
        call = self.calls_of("python3")[-1]
        self.assertIn(f"--theirs build/against-{self.first[:12]}/build/release/lib/gleaner ", call)
        self.assertTrue(call.endswith(f"--against {self.first[:12]} --runs 3 --only GC Bench"), call)
        self.assertIn("cmake --build --preset release --target gc_dropin", self.calls)

    def test_its_build_is_used_again_while_it_is_that_commit(self):
        self.dev("bench", f"--against={self.first}")
        (self.tree() / "build" / "kept").touch()
        self.dev("bench", "--against", "HEAD~1")
        self.assertTrue((self.tree() / "build" / "kept").exists())
        for spoil in (lambda: (self.tree() / "text").write_text("changed"),
                      lambda: (shutil.rmtree(self.tree()), self.tree().mkdir()),
                      lambda: subprocess.run(["git", "checkout", "--quiet", self.second],
                                             cwd=self.tree(), check=True)):
            spoil()
            self.dev("bench", "--against", "HEAD~1")
            self.assertEqual((self.tree() / "text").read_text(), "first")

    def test_a_commit_that_does_not_build(self):
        (self.root / "does_not_build").touch()
        self.commit("third")
        self.git("rm", "--quiet", "does_not_build")
        self.commit("fourth")
        self.dev("bench", "--against", "HEAD~1", status=1)
        self.assertIn("HEAD~1 does not build", self.output)
        self.assertIn("cannot be built", self.output)
        self.assertEqual(self.calls_of("python3"), [])

    def test_ci_lints_and_tests(self):
        for fails, status in (("nothing at all", 0), ("--preset lint", 1), ("--preset tsan", 1)):
            self.dev(script=".ci/run", status=status, fails=fails)
            self.assertIn("--build --preset lint --target lint" if fails != "--preset lint" else
                          "--preset lint", "\n".join(self.calls_of("cmake")))
            self.assertEqual(len(self.calls_of("ctest")), 3 if fails == "--preset tsan" else 4)
            self.assertEqual("FAILED" in self.output, status == 1, self.output)

class Project(unittest.TestCase):
    def test_presets_are_those_that_can_be_tested(self):
        known = re.search(r"^test_presets=\((.*)\)$", (SOURCE / "dev").read_text(), re.M)[1].split()
        presets = json.loads((SOURCE / "CMakePresets.json").read_text())["testPresets"]
        self.assertEqual(known, [preset["name"] for preset in presets if not preset.get("hidden")])

    def test_the_lists_are_marked(self):
        listing = subprocess.run(["ctest", "--show-only=json-v1"], cwd=BUILD, check=True,
                                 capture_output=True, text=True).stdout
        lists = {}
        for test in json.loads(listing)["tests"]:
            labels = [each["value"] for each in test.get("properties", []) if each["name"] == "LABELS"]
            found = re.findall(r"(?:^|-)(quick|short)(?:\n|$)", "\n".join(labels[0] if labels else []),
                               re.M)
            self.assertLessEqual(len(found), 1, test["name"])
            lists[test["name"]] = found[0] if found else "whole"
        for name, wanted in (("api.allocation", "quick"), ("layers.rule", "quick"),
                             ("dev.arguments", "short"), ("compat.guile", "short"),
                             ("threads.runtime_test", "short"), ("compat.guile.modes", "whole"),
                             ("threads.marking_test", "whole"), ("bench.latency", "whole")):
            self.assertEqual(lists[name], wanted, name)
        for prefix, wanted in ("unit.alloc.", "quick"), ("unit.gc.", "quick"), ("bad_input.", "short"):
            cases = {wanted_list for name, wanted_list in lists.items() if name.startswith(prefix)}
            self.assertEqual(cases, {wanted}, prefix)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
