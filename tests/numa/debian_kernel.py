#!/usr/bin/env python3
"""Debian's cloud kernel for emulated machines. It is unpacked into a folder of the build, and not
installed: 27 MB are downloaded once, of which 14 MB are kept.

usage: debian_kernel.py FOLDER
Prints the path of the kernel.
"""

import fcntl
import glob
import os
import re
import subprocess
import sys
import tarfile
import tempfile


class NoKernel(Exception):
    pass


def apt(*command, folder=None):
    try:
        finished = subprocess.run(command, cwd=folder, capture_output=True, text=True,
                                  env={**os.environ, "LC_ALL": "C"})
    except FileNotFoundError:
        raise NoKernel(f"no kernel for emulated machines: there is no {command[0]} here") from None
    if finished.returncode != 0:
        raise NoKernel(f"no kernel for emulated machines: {' '.join(command)} failed; `apt-get "
                       f"update` helps if the lists of packages are old\n{finished.stderr}")
    return finished.stdout


def kernel(folder):
    """The path of the kernel, which is downloaded unless the folder has it."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several tests may be the first
        found = glob.glob(os.path.join(folder, "vmlinuz-*"))
        return found[0] if found else download(folder)


def download(folder):
    # The package's name has the kernel's version; that of the one that depends on it has not.
    depends = apt("apt-cache", "depends", "linux-image-cloud-amd64")
    image = re.search(r"Depends: (linux-image-\S+)", depends)
    if not image:
        raise NoKernel("no kernel for emulated machines: apt knows no linux-image-cloud-amd64")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        apt("apt-get", "download", "-qq", image[1], folder=scratch)
        package, = glob.glob(os.path.join(scratch, "*.deb"))
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as files:
            with tarfile.open(fileobj=files.stdout, mode="r|") as archive:
                for member in archive:
                    if os.path.basename(member.name).startswith("vmlinuz-"):
                        content = archive.extractfile(member).read()
                        break
                else:
                    raise NoKernel(f"no kernel for emulated machines: {image[1]} has no vmlinuz")
            files.stdout.close()  # dpkg-deb complains that nobody reads the rest
        unpacked = os.path.join(scratch, "unpacked")
        with open(unpacked, "wb") as file:
            file.write(content)
        path = os.path.join(folder, os.path.basename(member.name))
        os.rename(unpacked, path)  # whole, or not there
    return path


if __name__ == "__main__":
    try:
        print(kernel(sys.argv[1]))
    except NoKernel as reason:
        sys.exit(f"{reason}")
