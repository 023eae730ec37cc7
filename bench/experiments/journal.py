"""Finished runs on disk, so that an experiment that was interrupted goes on where it was.

A journal is a file of lines, each a CRC-32 and JSON: a header with the settings and a description of
the machine, then one line for each run, written when the run has ended. Runs whose settings
(arguments, programs, libraries, what the machine is) are others than those that are asked for do not
count; the journal of before is kept beside the new one. A line that was cut off, or is damaged, is a
run that is missing.
"""

import fcntl
import hashlib
import json
import os
import stat
import sys
import zlib

from .tables import replace_file

VERSION = 2


class JournalError(Exception):
    pass


def digest_of_file(path):
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "missing"


def line_of(content):
    text = json.dumps(content).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def content_of(line):
    """Raises ValueError if the line is not as line_of made it."""
    crc, _, text = line.partition(b" ")
    if int(crc, 16) != zlib.crc32(text):
        raise ValueError
    return json.loads(text)


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
            self._write({"version": VERSION, "settings": self.settings, "described": described},
                        anew=True)

    def _read(self, again):
        """Takes over what counts, or keeps what does not. Returns the number of runs that count."""
        self.file.seek(0)
        lines = []
        damaged = 0
        content = self.file.read()
        if content and not content.endswith(b"\n"):
            self._append(b"\n")  # what was cut off stays a line of its own
        for line in content.split(b"\n"):
            try:
                if line:
                    lines.append(content_of(line))
            except ValueError:
                damaged += 1
        if damaged:
            print(f"{self.path}: {damaged} damaged line(s): what they held is measured again",
                  file=sys.stderr)
        header = lines[0] if lines else {}
        same = header.get("version") == VERSION and header.get("settings") == self.settings
        if again or not same:
            if len(lines) > 1:
                reason = "as you wish" if same else self._difference(header)
                print(f"measured anew: {reason}; the runs before are in {self.path}.before",
                      file=sys.stderr)
                self._do(lambda _: replace_file(self.path + ".before",
                                                lambda file: file.write(content), "wb"), None)
            return 0
        self.described = header["described"]
        for line in lines[1:]:
            self.runs[json.dumps(line["key"])] = line["run"]
        return len(self.runs)

    def _difference(self, header):
        before = header.get("settings")
        if header.get("version") != VERSION or before is None:
            return "another version, or its settings are lost"
        names = sorted(name for name in {*before, *self.settings}
                       if before.get(name) != self.settings.get(name))
        return f"other {', '.join(names)}"

    def _write(self, line, anew=False):
        if anew:
            self._do(self.file.truncate, 0)
        self._append(line_of(line))

    def _append(self, data):
        if self._do(self.file.write, data) != len(data):
            raise JournalError(f"{self.path}: not all of a line could be written")

    def _do(self, operation, argument):
        try:
            return operation(argument)
        except OSError as error:
            raise JournalError(f"{self.path}: {error.strerror}") from error

    def get(self, key):
        return self.runs.get(json.dumps(key))

    def put(self, key, run):
        self.runs[json.dumps(key)] = run
        self._write({"key": key, "run": run})

    def close(self):
        self.file.close()

    def remove(self):
        for path in (self.path, self.path + ".before"):
            if os.path.exists(path):
                os.remove(path)
        self.close()
