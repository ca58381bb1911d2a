"""Draw figures/how_it_works.svg: what is learnt, what is kept on disk, and what happens to a mention."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import matplotlib
import typer

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

TEXT, LEARNT, DISK, RESULT = "#eef3f8", "#ffe3c2", "#d8efdc", "#f6d9e2"
WIDTH, HEIGHT = 2.5, 0.78
# name: (column, row, text, colour); rows count from the bottom
BOXES = {
    "mention": (0, 3, "mention in context\n[Ms] MS [Me] relapsed …", TEXT),
    "entity": (0, 1, "entity: name, types,\naliases, description", TEXT),
    "mention_tower": (1, 3, "mention tower", LEARNT),
    "entity_tower": (1, 1, "entity tower", LEARNT),
    "kb": (2, 1, "KB on disk: SQLite +\nFAISS vectors (mapped)", DISK),
    "search": (2, 3, "search:\nthe top_k candidates", TEXT),
    "loss": (1, 2, "proxy-based loss\n+ FGSM", LEARNT),
    "threshold": (3, 3, "best score under the\ntuned threshold?", TEXT),
    "linked": (3, 2, "ent.kb_id_ = id\nent._.kb_ents", RESULT),
    "nil": (4, 3, 'ent.kb_id_ = "NIL"\nent._.is_nil = True', RESULT),
}
# from, to, label, is it only there while training
ARROWS = [
    ("mention", "mention_tower", "", False),
    ("entity", "entity_tower", "", False),
    ("mention_tower", "search", "", False),
    ("entity_tower", "kb", "index", False),
    ("kb", "search", "", False),
    ("search", "threshold", "", False),
    ("threshold", "linked", "no", False),
    ("threshold", "nil", "yes", False),
    ("mention_tower", "loss", "", True),
    ("entity_tower", "loss", "", True),
    ("kb", "loss", "hard negatives", True),
]


def main(
    output: Annotated[Path, typer.Argument(help="The SVG file to write")] = Path("figures/how_it_works.svg"),
) -> None:
    """Write the picture."""
    plt.rcParams.update({"svg.hashsalt": "spacy-pel", "svg.fonttype": "none", "font.family": "sans-serif"})
    figure, axes = plt.subplots(figsize=(13, 4.4))
    for column, row, text, colour in BOXES.values():
        x, y = centre(column, row)
        corner = (x - WIDTH / 2, y - HEIGHT / 2)
        axes.add_patch(FancyBboxPatch(corner, WIDTH, HEIGHT, "round,pad=0.04", facecolor=colour, edgecolor="#55606b"))
        axes.text(x, y, text, ha="center", va="center", fontsize=9.5)
    for start, end, label, training in ARROWS:
        draw_arrow(axes, start, end, label, training)
    axes.plot([], [], color="#b3541e", linestyle="--", label="while training")
    axes.plot([], [], color="#333a40", label="while indexing and linking")
    axes.legend(loc="lower center", ncols=2, frameon=False, bbox_to_anchor=(0.5, -0.08))
    axes.set(xlim=(-1.4, 14.6), ylim=(0.7, 4.8), aspect="equal")
    axes.axis("off")
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, bbox_inches="tight", metadata={"Date": None})
    typer.echo(f"Wrote {output}")


def centre(column: int, row: int) -> tuple[float, float]:
    return column * 3.3, row * 1.4


def draw_arrow(axes: plt.Axes, start: str, end: str, label: str, training: bool) -> None:
    """From the edge of one box to the edge of the other."""
    (x0, y0), (x1, y1) = (centre(*BOXES[name][:2]) for name in (start, end))
    if x0 != x1:
        edge = WIDTH / 2 + 0.06 if x1 > x0 else -WIDTH / 2 - 0.06
        x0, x1 = x0 + edge, x1 - edge
    if y0 != y1 and BOXES[start][0] == BOXES[end][0]:
        edge = HEIGHT / 2 + 0.06 if y1 > y0 else -HEIGHT / 2 - 0.06
        y0, y1 = y0 + edge, y1 - edge
    colour, style = ("#b3541e", "--") if training else ("#333a40", "-")
    arrow = {"arrowstyle": "-|>", "color": colour, "linestyle": style, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (x1, y1), (x0, y0), arrowprops=arrow)
    if label:
        right, up = (0, 0.09) if y0 == y1 else (0.12, 0)
        place = {"ha": "left" if right else "center", "va": "center" if right else "bottom"}
        axes.text((x0 + x1) / 2 + right, (y0 + y1) / 2 + up, label, fontsize=9, color=colour, **place)


if __name__ == "__main__":
    typer.run(main)
