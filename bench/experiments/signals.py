"""Signals that end the harness as exceptions, but not while a program is being started: it could not
be ended before its number is known."""

import signal
import sys


class _Held:
    on = False
    number = None


def _raise(number):
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def _handle(number, _frame):
    if _Held.on:
        _Held.number = number
    else:
        _raise(number)


def install():
    """In the main thread, once."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, _handle)


def hold():
    """What arrives from here on waits for `release`."""
    _Held.on = True


def release():
    """Raises what has arrived meanwhile."""
    _Held.on = False
    number, _Held.number = _Held.number, None
    if number is not None:
        _raise(number)
