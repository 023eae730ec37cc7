"""The files of an emulated machine, as the kernel unpacks them at its start: an uncompressed archive
of cpio. Files lie where they lie here, so that programs find their libraries."""

import os
import re
import shutil
import subprocess
import tempfile


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


def pack(init, busybox, files, environment):
    """An archive with /init, busybox and the files, and the libraries that the programs among them load
    with this environment."""
    with tempfile.TemporaryDirectory() as root:
        for folder in ("bin", "proc", "sys", "dev", "tmp"):
            os.mkdir(os.path.join(root, folder))
        with open(os.path.join(root, "init"), "w", encoding="utf-8") as file:
            file.write(init)
        for file in map(os.path.abspath, (busybox, *files)):
            for path in (file, *libraries(file, environment)):
                os.makedirs(root + os.path.dirname(path), exist_ok=True)
                try:
                    shutil.copyfile(path, root + path)
                except OSError as error:
                    raise MissingFile(f"{path}: {error.strerror}") from error
        subprocess.run(["chmod", "-R", "755", root], check=True)
        names = subprocess.run(["find", "."], cwd=root, check=True, capture_output=True).stdout
        return subprocess.run([busybox, "cpio", "-o", "-H", "newc"], cwd=root, input=names, check=True,
                              capture_output=True).stdout
