"""Finished runs on disk, so that an experiment that was interrupted goes on where it was.

A journal is a file of lines of JSON: a header with the settings and a description of the machine,
then one line for each run, written when the run has ended. Runs whose settings (arguments, programs,
libraries, what the machine is) are others than those that are asked for do not count. A line that was
cut off is a run that is missing.
"""

import fcntl
import hashlib
import json
import os
import stat
import sys


class JournalError(Exception):
    pass


def digest_of_file(path):
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "missing"


class Journal:
    """One process at a time has it open. Raises JournalError with path and reason. `described` is of
    the machine when the first of the runs was made."""

    def __init__(self, path, settings, again=False, described=None):
        self.path = path
        self.described = described
        self.settings = json.loads(json.dumps(settings))  # as they will be read
        self.runs = {}
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self.file = open(path, "a+b", buffering=0)
            if not stat.S_ISREG(os.fstat(self.file.fileno()).st_mode):
                raise OSError(0, "not a regular file")
        except OSError as error:
            raise JournalError(f"{path}: {error.strerror}") from error
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise JournalError(f"{path}: another process measures this just now") from None
        self.reused = self._read(again)
        if not self.reused:
            self.file.truncate(0)
            self._append({"settings": self.settings, "described": described})

    def _read(self, again):
        """Takes over what counts. Returns the number of runs that count."""
        self.file.seek(0)
        content = self.file.read()
        if content and not content.endswith(b"\n"):
            self._write(b"\n")  # what was cut off stays a line of its own
        header, *lines = [line_of(text) for text in content.split(b"\n")]
        if again or header.get("settings") != self.settings or "described" not in header:
            if any(lines):
                reason = "as you wish" if again else self._difference(header)
                print(f"measured anew: {reason}", file=sys.stderr)
            return 0
        self.described = header["described"]
        for line in lines:
            if "key" in line and "run" in line:
                self.runs[json.dumps(line["key"])] = line["run"]
        return len(self.runs)

    def _difference(self, header):
        before = header.get("settings", {})
        return "other " + ", ".join(sorted(
            name for name in {*before, *self.settings}
            if before.get(name) != self.settings.get(name)))

    def _append(self, line):
        self._write(json.dumps(line).encode() + b"\n")

    def _write(self, data):
        try:
            written = self.file.write(data)
        except OSError as error:
            raise JournalError(f"{self.path}: {error.strerror}") from error
        if written != len(data):
            raise JournalError(f"{self.path}: not all of a line could be written")

    def get(self, key):
        return self.runs.get(json.dumps(key))

    def put(self, key, run):
        self.runs[json.dumps(key)] = run
        self._append({"key": key, "run": run})

    def close(self):
        self.file.close()

    def remove(self):
        os.remove(self.path)
        self.close()


def line_of(text):
    """What a line says; an empty dictionary if it was cut off."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}
