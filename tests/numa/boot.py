#!/usr/bin/env python3
"""Runs a program on an emulated machine with several memory nodes."""

import argparse
import os
import sys

from debian_kernel import NoKernel
from initramfs import MissingFile
from machine import Machine, MachineFailed, Node


def node(text):
    processors, memory_mb = text.split(":")
    return Node(int(processors), int(memory_mb))


def distance(text):
    pair, value = text.split(":")
    one, other = sorted(int(number) for number in pair.split("-"))
    return (one, other), int(value)


def variable(text):
    name, value = text.split("=", 1)
    return name, value


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release", metavar="DIR",
                        help="where the kernel is kept (%(default)s)")
    parser.add_argument("--node", type=node, action="append", metavar="PROCESSORS:MB",
                        help="a node, each may be 0; nodes without processors come last "
                        "(2:256 2:256)")
    parser.add_argument("--distance", type=distance, action="append", default=[],
                        metavar="NODE-NODE:DISTANCE", help="20 unless given")
    parser.add_argument("--no-huge-pages", action="store_true")
    parser.add_argument("--file", action="append", default=[],
                        help="a file that the program needs besides its libraries")
    parser.add_argument("--set", type=variable, action="append", default=[], metavar="NAME=VALUE",
                        help="a variable of the environment, which is empty otherwise")
    parser.add_argument("--seconds", type=float, default=600, help="limit of time (%(default)s)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM [ARGUMENT...]",
                        help="a path, or a name of what busybox has, such as sh")
    options = parser.parse_args()
    if options.command[:1] == ["--"]:
        del options.command[0]
    if not options.command:
        parser.error("which program?")
    files = list(options.file)
    if "/" in options.command[0]:
        options.command[0] = os.path.abspath(options.command[0])
        files.append(options.command[0])
    try:
        with Machine(options.node or [Node(2, 256), Node(2, 256)], options.build, files=files,
                     environment=dict(options.set), distances=dict(options.distance),
                     huge_pages=not options.no_huge_pages) as machine:
            finished = machine.run(options.command, options.seconds)
    except (MachineFailed, MissingFile, NoKernel, OSError, ValueError) as reason:
        sys.exit(f"{reason}")
    sys.stderr.write(finished.errors)
    sys.stdout.write(finished.output)
    sys.exit(finished.status)


if __name__ == "__main__":
    main()
