"""What the tests of the command `gleaner` share: environments, a folder for each test, commands and
clients that are run in it, and files that are damaged."""

import json
import os
import random
import re
import subprocess
import tempfile
import unittest

TIMEOUT_S = 200  # nothing comes near
SEED = random.SystemRandom().randrange(2**31)


def clean(library=None, **variables):
    """The environment without what says how a program's heap is, and with the folder of a library
    that the loader prefers, and variables."""
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith(("GC_", "GLEANER_", "LD_", "XDG_"))}
    if library:
        environment["LD_LIBRARY_PATH"] = os.path.dirname(library)
    return {**environment, **variables}


def content(path, mode="r"):
    with open(path, mode, **({} if "b" in mode else {"encoding": "utf-8"})) as file:
        return file.read()


def put(path, data):
    """Writes the file; its path."""
    with open(path, "wb") as file:
        file.write(data if isinstance(data, (bytes, bytearray)) else data.encode())
    return path


def damaged(data, draw, begin=0):
    """The data with one bit behind `begin` changed, or what is behind some byte there cut off."""
    at = draw.randrange(begin, len(data))
    if draw.randrange(2):
        return data[:at]
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1:]


class ReportPage:
    """A page of `gleaner report`: its text, its content, and the content's blocks by kind."""

    def __init__(self, path):
        self.text = content(path)
        found = re.search('<script type="application/json" id="content">(.*?)</script>', self.text)
        self.content = json.loads(found[1].replace("\u00a0", " "))
        self.sections = {each["id"]: each["blocks"] for each in self.content["sections"]}
        self.notes = self.content["notes"]

    def blocks(self, kind):
        return [block[kind] for blocks in self.sections.values() for block in blocks if kind in block]

    def figures(self):
        """The summary's, by name."""
        return dict(self.blocks("figures")[0])


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def files(self):
        return sorted(os.listdir(self.folder))

    def execute(self, *command, status=0, **options):
        """Runs the command to its end, which has to be of that status; its result."""
        options = {"env": clean(), "cwd": self.folder, "stdin": subprocess.DEVNULL, **options}
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S,
                                **options)
        self.assertEqual(result.returncode, status, f"{command}, seed {SEED}: {result.stdout}"
                                                    f"{result.stderr}")
        return result


class Client:
    """A program up to its first line `waiting`, and what it has said before: names and numbers."""

    def __init__(self, *command, environment):
        self.process = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.pid = self.process.pid
        self.said = {}
        self.read()

    def read(self):
        for line in self.process.stdout:
            if line == "waiting\n":
                return
            key, value = line.split()
            self.said[key] = int(value)

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.read()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
