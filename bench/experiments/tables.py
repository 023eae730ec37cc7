"""Figures as text: Markdown tables, CSV, JSON."""

import argparse
import csv
import json
import os
import re
import sys


def three_digits(number):
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def print_markdown(lines, file=None):
    """A table; the first line is its header."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for number, line in enumerate(lines):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |",
              file=file)
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|", file=file)


def replace_file(path, write, mode="w"):
    """write(file) makes the new content; the old one stays until it is complete."""
    partial = f"{path}.part"
    text = {} if "b" in mode else {"newline": "", "encoding": "utf-8"}
    try:
        with open(partial, mode, **text) as file:
            write(file)
        os.replace(partial, path)
    except OSError as error:
        if os.path.isfile(partial):
            os.remove(partial)
        raise OSError(error.errno, error.strerror, path) from error


def write_records(path, records):
    """Dictionaries as CSV; the columns are all their keys, in the order in which they come."""
    fields = list(dict.fromkeys(key for record in records for key in record))

    def write(file):
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(records)
    replace_file(path, write)


def write_json(path, content):
    replace_file(path, lambda file: json.dump(content, file, indent=1))


def report_failures(failures):
    """Prints them; returns the status to exit with."""
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


def regex(text):
    """For argparse: the text, if it is a regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from error
    return text
