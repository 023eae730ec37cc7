#!/usr/bin/env python3
"""What traces, heap profiles and heap snapshots have in common: the descriptors of their files, in
programs that close the standard streams, and that fork while a file is locked.

usage: output_test.py DROPIN CLIENT
"""

import os
import signal
import sys
import unittest

from command import CommandTest, clean

DROPIN, CLIENT = (os.path.abspath(path) for path in sys.argv[1:3])
VARIABLES = ("GLEANER_TRACE", "GLEANER_PROFILE", "GLEANER_SNAPSHOT")


class Output(CommandTest):
    def client(self, how, variable):
        result = self.execute(CLIENT, how, env=clean(DROPIN, **{variable: self.path(variable)}))
        self.assertEqual(result.stderr, "", variable)
        return result.stdout

    def test_the_numbers_of_closed_standard_streams_are_left_alone(self):
        variables = (*VARIABLES, "GC_LOG_FILE")
        for variable in variables:
            self.client("closed", variable)
        self.assertEqual(self.files(), sorted(variables))

    def test_a_child_does_not_keep_the_lock(self):
        children = []
        try:
            for variable in VARIABLES:
                # The child of the first run is there while the second one replaces the file.
                children += [int(self.client("child", variable)) for _ in range(2)]
            self.assertEqual(self.files(), sorted(VARIABLES))
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
