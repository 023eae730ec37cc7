"""A second reader of allocation traces, written from docs/reference/formats.md alone."""

import struct

HEADER = struct.Struct("<8sIIQQIIIIQQ")
BLOCK = struct.Struct("<IIQQIIQ")
STATES = {1: "recording", 2: "ended", 3: "limit", 4: "refused"}


def make_crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82f63b78 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = make_crc_table()


def crc32c(data):
    value = 0xffffffff
    for byte in data:
        value = (value >> 8) ^ CRC_TABLE[(value ^ byte) & 0xff]
    return value ^ 0xffffffff


class Trace:
    """Fields of the header, and `events`: (sequence, thread, kind, ...) in order."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        (magic, version, self.block_bytes, self.process, self.start_ns, self.flags, command_bytes,
         checksum, zero, blocks, state) = HEADER.unpack_from(self.data)
        assert magic == b"GLNTRACE" and version == 1 and zero == 0
        command = self.data[HEADER.size:HEADER.size + command_bytes]
        assert checksum == crc32c(self.data[:40] + command)
        self.command = command.rstrip(b"\0").split(b"\0")
        for word in (blocks, state):
            assert word & 0xffffffff == ~(word >> 32) & 0xffffffff
        self.blocks = blocks & 0xffffffff
        self.state = STATES[state & 0xffffffff]
        self.events = []
        for index in range(1, self.blocks):
            self.read_block(index)
        self.events.sort(key=lambda event: event[0])

    def read_block(self, index):
        offset = index * self.block_bytes
        magic, number, sequence, time, thread, zero, committed = BLOCK.unpack_from(self.data, offset)
        assert magic == 0x424e4c47 and number == index and zero == 0
        begin = offset + BLOCK.size
        events = self.data[begin:begin + (committed & 0xffffffff)]
        assert committed >> 32 == crc32c(self.data[offset:offset + 32] + events)
        at = 0
        address = 0

        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = events[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value

        def next_address():
            nonlocal address
            packed = varint()
            amount = packed >> 2
            if not packed & 1:
                amount *= 8
            address += -amount if packed & 2 else amount
            return address

        while at < len(events):
            tag = events[at]
            at += 1
            kind, step = tag & 7, tag >> 3
            if kind == 6:
                time += varint()
                continue
            if kind == 7:
                thread = varint()
                continue
            if step == 31:
                step = varint()
            sequence += step
            if kind == 1:
                size = varint()
                event = ("allocate", next_address(), size)
            elif kind == 2:
                size = varint()
                event = ("zeroed", next_address(), size)
            elif kind == 3:
                alignment = 1 << events[at]
                at += 1
                size = varint()
                event = ("aligned", next_address(), size, alignment)
            elif kind == 4:
                event = ("free", next_address())
            else:
                assert kind == 5
                old = next_address()
                size = varint()
                end = sequence + varint()
                event = ("resize", old, size, next_address(), end)
            self.events.append((sequence, thread) + event)
            if kind == 5:
                sequence = end

    def kinds(self):
        return [event[2:] for event in self.events]

    def lives(self):
        """Goes through the events and fails if a block begins where another one is, or ends twice.
        Returns how many ended that the trace does not have the beginning of."""
        moments = []
        for sequence, thread, kind, *rest in self.events:
            if kind == "free":
                moments.append((sequence, "end", rest[0]))
            elif kind == "resize":
                moments.append((sequence, "end", rest[0]))
                moments.append((rest[3], "begin", rest[2]))
            else:
                moments.append((sequence, "begin", rest[0]))
        moments.sort()
        live = set()
        unknown = 0
        for sequence, moment, address in moments:
            if moment == "begin":
                assert address not in live, f"{address:x} twice, at {sequence}"
                live.add(address)
            elif address in live:
                live.remove(address)
            else:
                unknown += 1
        return unknown
