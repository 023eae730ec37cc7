"""Tests whose commands run on an emulated machine."""

import unittest

from machine import Machine, Node


class OnMachine(unittest.TestCase):
    """One machine, which boots once for all tests of a class."""
    BUILD = None
    NODES = [Node(1, 96)]
    SETTINGS = {}

    @classmethod
    def setUpClass(cls):
        cls.machine = cls.enterClassContext(Machine(cls.NODES, cls.BUILD, **cls.SETTINGS))

    def run_there(self, *command, status=0, **environment):
        """Runs a program, which is to end with the status."""
        finished = self.machine.run(command, **environment)
        self.assertEqual(finished.status, status, finished)
        return finished

    def read_there(self, *paths):
        """The lines of the files."""
        return self.run_there("cat", *paths).output.splitlines()
