"""Writes collector traces that no program has made: docs/reference/formats.md has the format."""

import struct

NUMBERS = {"thread": 1, "part": 2, "pause": 3, "collection": 4, "mark": 5, "idle": 6, "stall": 7,
           "returned": 13, "heap": 14, "end": 16, "unswept": 17, "size class": 18,
           "pages of a heap": 19, "tracking": 20, "thread end": 21, "waited": 27}
BEGAN_NS = 1_000_000_000_000


class TraceWriter:
    def __init__(self, command="program", **description):
        description = {"version": "0.1.0", "process": "4711", "parent": "1", "host": "here",
                       "began_ns": BEGAN_NS, "began_wall_ns": 1_700_000_000_000_000_000,
                       "markers": 2, "mode": "auto", "policy": "lps", "k": 1, "page_bytes": 16384,
                       "command": command, **description}
        text = "".join(f"{key}={value}\n" for key, value in description.items()).encode()
        text += b"\n" * (-len(text) % 8)
        self.data = bytearray(struct.pack("<8sQQQ", b"GLNTRC1\0", 4711, 1, len(text)) + text)

    def add(self, event, thread, at_ns, *arguments):
        """at_ns is since the trace began; a span's first argument is its duration."""
        self.data += struct.pack(f"<{len(arguments) + 2}Q",
                                 NUMBERS[event] | (len(arguments) + 2) << 8 | thread << 32,
                                 BEGAN_NS + at_ns, *arguments)

    def add_thread(self, thread, name, role=0):
        self.add("thread", thread, 0, 100 + thread, role,
                 *struct.unpack("<2Q", name.encode()[:16].ljust(16, b"\0")))

    def add_tracking(self, kind, goal_ns, reason=""):
        self.add("tracking", 1, 0, kind, int(kind != 0), 0, 1, goal_ns,
                 *struct.unpack("<12Q", reason.encode()[:96].ljust(96, b"\0")))

    def add_collection(self, number, end_ns, pause_ns, kind=0, live=50_000_000, cause=0):
        begin_ns = end_ns - pause_ns
        half = pause_ns // 2
        self.add("part", 1, begin_ns, pause_ns - half, 3)
        self.add("part", 1, begin_ns + pause_ns - half, half, 5)
        self.add("mark", 1, begin_ns, pause_ns - half, 0, 3, 1_000_000, 1000)
        self.add("idle", 2, begin_ns, half // 2, 1)
        self.add("mark", 2, begin_ns, half, 1, 5, 900_000, 900)
        self.add("stall", 1, begin_ns, pause_ns, 4)
        self.add("pause", 1, begin_ns, pause_ns, number)
        self.add("collection", 1, end_ns, number, cause, kind, 3, pause_ns, pause_ns, live, 1000,
                 30_000_000, 100_000_000, 50_000_000, 2, 8, 0)
        self.add("heap", 1, end_ns, 100_000_000, 40_000_000, 2_000_000, 120_000_000)
        self.add("unswept", 1, end_ns, 10_000_000)

    def end(self, at_ns):
        self.add("end", 0, at_ns, 0, 0)

    def write(self, path):
        with open(path, "wb") as file:
            file.write(self.data)
