"""The files of an emulated machine, as the kernel unpacks them at its start: an uncompressed
archive in cpio's format "newc". Files lie where they lie here, so that programs find their
libraries."""

import os
import re
import stat
import subprocess


class MissingFile(Exception):
    pass


def libraries(program, environment):
    """What the loader maps for the program with this environment, and what the C library loads when
    a thread ends; nothing for a file that needs no loader."""
    listing = subprocess.run(["ldd", program], env=environment, capture_output=True, text=True)
    if missing := re.findall(r"(\S+) => not found", listing.stdout):
        raise MissingFile(f"{program} does not find {', '.join(missing)}")
    found = re.findall(r"^\s*(?:\S+ => )?(/.*) \(0x", listing.stdout, re.M)
    return found + [os.path.join(os.path.dirname(path), "libgcc_s.so.1") for path in found
                    if os.path.basename(path) == "libc.so.6"]


class Archive:
    def __init__(self):
        self.parts = []
        self.names = set()

    def add(self, path, content=b"", mode=stat.S_IFREG | 0o755):
        """A file, a folder or a link at the path, which is absolute, and the folders above it."""
        if path in self.names:
            return
        parent = os.path.dirname(path)
        if parent != path and parent != "/":
            self.add(parent, mode=stat.S_IFDIR | 0o755)
        self.names.add(path)
        self._entry(path.lstrip("/"), content, mode)

    def _entry(self, name, content, mode):
        name = name.encode() + b"\0"
        # Inode, mode, user, group, links, time, size, four device numbers, size of the name,
        # checksum.
        numbers = (len(self.names), mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
        head = b"070701" + b"".join(b"%08x" % number for number in numbers)
        for part in (head + name, content):
            self.parts.append(part + b"\0" * (-len(part) % 4))

    def bytes(self):
        self._entry("TRAILER!!!", b"", 0)
        return b"".join(self.parts)


def pack(init, files, environment):
    """An archive with /init and the files, and the libraries that the programs among them load with
    this environment."""
    archive = Archive()
    archive.add("/init", init.encode())
    for folder in ("/bin", "/proc", "/sys", "/dev", "/tmp"):
        archive.add(folder, mode=stat.S_IFDIR | 0o755)
    for file in files:
        file = os.path.abspath(file)
        for path in (file, *libraries(file, environment)):
            try:
                with open(path, "rb") as content:
                    archive.add(path, content.read())
            except OSError as error:
                raise MissingFile(f"{path}: {error.strerror}") from error
    return archive.bytes()
