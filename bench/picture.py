"""How the scripts here get matplotlib, which a machine may not have."""

import sys


def pyplot():
    """matplotlib's interface for drawing into files, or None, with a message."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot
        return matplotlib.pyplot
    except ImportError:
        print("no picture: python3-matplotlib is missing", file=sys.stderr)
        return None
