"""Pictures by matplotlib, which a machine may not have."""

import os
import sys

from . import tables

MANY = 40  # points of a line, or marks of an axis


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


def save(plot, figure, path, dpi=110):
    """Raises OSError with the path."""
    kind = os.path.splitext(path)[1][1:] or "png"
    try:
        tables.replace_file(path, lambda file: figure.savefig(file, dpi=dpi, format=kind), "wb")
    finally:
        plot.close(figure)


def draw_panels(path, title, foot, x_label, columns, panels):
    """Panels (title, y label, logarithmic, lines); lines are pairs (x, y) by label, or triples with
    what stands beside the point. Words on the horizontal axis make bars, numbers make lines.
    Returns whether there is a picture."""
    plot = pyplot()
    if plot is None:
        return False
    panels = [(*panel, {label: points for label, points in lines.items() if points})
              for *panel, lines in panels]
    rows = -(-len(panels) // columns)
    figure, axes = plot.subplots(rows, columns, figsize=(max(9, 4.2 * columns + 1), 3.6 * rows + 1),
                                 squeeze=False)
    labels = list(dict.fromkeys(label for *_, lines in panels for label in lines))
    colours = dict(zip(labels, plot.get_cmap("tab10" if len(labels) <= 10 else "tab20").colors))
    for axis, (panel, y_label, logarithmic, lines) in zip(axes.flat, panels):
        if not lines:
            axis.text(0.5, 0.5, "no figures", ha="center", transform=axis.transAxes)
        elif any(isinstance(x, str) for points in lines.values() for x, *_ in points):
            draw_bars(axis, lines, colours)
        else:
            for label, points in lines.items():
                xs, ys, *notes = zip(*points)
                axis.plot(xs, ys, marker="o", markersize=3 if len(xs) <= MANY else 0, linewidth=1,
                          label=label, color=colours.get(label))
                for x, y, note in zip(xs, ys, *notes) if notes else ():
                    axis.annotate(str(note), (x, y), fontsize=7, xytext=(3, 3),
                                  textcoords="offset points")
            xs = sorted({x for points in lines.values() for x, *_ in points})
            if not notes and len(xs) <= MANY:
                if xs[-1] > 8 * xs[0]:
                    axis.set_xscale("log", base=2)
                axis.set_xticks(xs, [str(x) for x in xs])
                axis.tick_params(axis="x", which="minor", bottom=False)
        axis.set_xlabel(x_label)
        if logarithmic:
            axis.set_yscale("log")
        else:
            highest = max((point[1] for points in lines.values() for point in points), default=0)
            axis.set_ylim(0, 1.08 * highest or 1)
        axis.set_title(panel, fontsize="medium")
        axis.set_ylabel(y_label, fontsize="small")
        axis.grid(alpha=0.4)
    for axis in axes.flat[len(panels):]:
        axis.set_axis_off()
    known = {label: handle for axis in axes.flat
             for handle, label in zip(*axis.get_legend_handles_labels())}
    labels, handles = list(known), list(known.values())
    figure.suptitle(title)
    figure.legend(handles, labels, loc="lower center", ncols=min(4, max(1, len(labels))),
                  fontsize="small", bbox_to_anchor=(0.5, 0.02))
    figure.text(0.5, 0.005, foot, ha="center", fontsize=6)
    figure.tight_layout(rect=(0, 0.04 + 0.22 * (1 + len(labels) // 4) / (3.6 * rows + 1), 1, 0.99))
    save(plot, figure, path)
    return True


def draw_bars(axis, lines, colours):
    """Groups of bars, one for each x in the order in which they come."""
    names = list(dict.fromkeys(x for points in lines.values() for x, _ in points))
    width = 0.8 / max(1, len(lines))
    for number, (label, points) in enumerate(lines.items()):
        axis.bar([names.index(x) + number * width for x, _ in points], [y for _, y in points], width,
                 label=label, color=colours.get(label))
    axis.set_xticks([at + 0.4 - width / 2 for at in range(len(names))], names, rotation=20,
                    fontsize="small")
