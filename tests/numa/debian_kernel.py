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
    """Why there is none."""

    def __str__(self):
        return "no kernel for emulated machines: " + super().__str__()


def kernel(folder):
    """The path of the kernel, which is downloaded unless the folder has it."""
    folder = os.path.abspath(folder)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several tests may be the first
        found = glob.glob(os.path.join(folder, "vmlinuz-*"))
        if found:
            return found[0]
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            name, content = unpack(download(scratch))
            unpacked = os.path.join(scratch, name)
            with open(unpacked, "wb") as file:
                file.write(content)
            path = os.path.join(folder, name)
            os.rename(unpacked, path)  # whole, or not there
        return path


def apt(*command, folder):
    try:
        finished = subprocess.run(command, cwd=folder, capture_output=True, text=True,
                                  env={**os.environ, "LC_ALL": "C"})
    except FileNotFoundError:
        raise NoKernel(f"there is no {command[0]} here") from None
    if finished.returncode != 0:
        raise NoKernel(f"{' '.join(command)} failed\n{finished.stderr}")
    return finished


def download(folder):
    """The path of the package in the folder. If the system's lists of packages are too old, lists
    are downloaded into the folder, too, which needs no privileges."""
    try:
        return download_by_lists(folder, ())
    except NoKernel:
        options = ["-o", "APT::Sandbox::User=root"]
        for name in ("State::Lists", "Cache"):
            os.makedirs(os.path.join(folder, name, "partial"))
            options += ["-o", f"Dir::{name}={folder}/{name}"]
        updated = apt("apt-get", *options, "-qq", "update", folder=folder)
        try:
            return download_by_lists(folder, options)
        except NoKernel as reason:  # the update succeeds with what it could get
            raise NoKernel(reason.args[0] + updated.stderr) from None


def download_by_lists(folder, options):
    # The package's name has the kernel's version; that of the one that depends on it has not.
    depends = apt("apt-cache", *options, "depends", "linux-image-cloud-amd64", folder=folder)
    image = re.search(r"Depends: (linux-image-\S+)", depends.stdout)
    if not image:
        raise NoKernel("apt knows no linux-image-cloud-amd64")
    apt("apt-get", *options, "-qq", "download", image[1], folder=folder)
    package, = glob.glob(os.path.join(folder, "*.deb"))
    return package


def unpack(package):
    """The name and the content of the package's kernel."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as files:
        with tarfile.open(fileobj=files.stdout, mode="r|") as archive:
            for member in archive:
                name = os.path.basename(member.name)
                if name.startswith("vmlinuz-"):
                    content = archive.extractfile(member).read()
                    files.stdout.close()  # dpkg-deb complains that nobody reads the rest
                    return name, content
    raise NoKernel(f"{os.path.basename(package)} has none")


if __name__ == "__main__":
    try:
        print(kernel(sys.argv[1]))
    except NoKernel as reason:
        sys.exit(str(reason))
