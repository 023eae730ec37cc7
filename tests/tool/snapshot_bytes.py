"""The bytes of a heap snapshot (docs/reference/formats.md), for tests that change them."""

import struct

HEAD_BYTES = 32
BLOCK_HEAD_BYTES = 16


def blocks(data):
    """Where each block begins, and the bytes of its payload with padding."""
    at = HEAD_BYTES
    while at + BLOCK_HEAD_BYTES <= len(data):
        head, = struct.unpack_from("<Q", data, at)
        size = -(-(head >> 8) // 8) * 8
        if at + BLOCK_HEAD_BYTES + size > len(data):
            break
        yield at, size
        at += BLOCK_HEAD_BYTES + size


def checksummed(data):
    """The bytes with checksums that are right."""
    def add(total, word):
        total = (total ^ word) * 0x9e3779b97f4a7c15 % 2**64
        return total ^ total >> 29

    data = bytearray(data)
    total = 0x243f6a8885a308d3
    for word in struct.unpack_from("<3Q", data):
        total = add(total, word)
    struct.pack_into("<Q", data, 24, total)
    for at, size in blocks(data):
        head, = struct.unpack_from("<Q", data, at)
        total = add(total, head)
        for word in struct.unpack_from(f"<{size // 8}Q", data, at + BLOCK_HEAD_BYTES):
            total = add(total, word)
        struct.pack_into("<Q", data, at + 8, total)
    return bytes(data)
