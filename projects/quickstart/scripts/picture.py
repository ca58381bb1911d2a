"""Draw figures/how_it_works.svg: what is trained, what is kept on disk, and what happens to a mention."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch
from matplotlib.textpath import TextToPath

SIZE = (1050, 378)  # points, as all lengths here; y counts from the top
LINE, PAD = 17, 10
TITLE, PLAIN = FontProperties(size=11.5, weight="bold"), FontProperties(size=10.5)
TEXT, LEARNT, DISK, TUNED, RESULT = "#eef3f8", "#ffe3c2", "#d8efdc", "#e8e2f5", "#f6d9e2"
LINKING, TRAINING = "#333a40", "#b3541e"


class Box(NamedTuple):
    """A box whose first line is its title."""

    left: float
    top: float
    width: float
    colour: str
    lines: tuple[str, ...]

    @property
    def height(self) -> float:
        return LINE * len(self.lines) + 2 * PAD

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def middle(self) -> tuple[float, float]:
        return self.left + self.width / 2, self.top + self.height / 2


MENTION_LINES = (
    "Mention in its context",
    "Later the [MVI] came back.",
    "Long form, from the text:",
    "mitral valve insufficiency",
)
MENTION = Box(10, 46, 205, TEXT, MENTION_LINES)
ENTITY = Box(10, 296, 205, TEXT, ("Entity of the KB", "name, types,", "aliases, description"))
MENTION_ENCODER = Box(255, 63, 150, LEARNT, ("Mention encoder", "transformer, mean"))
ENTITY_ENCODER = Box(255, 304, 150, LEARNT, ("Entity encoder", "transformer, mean"))
LOSS = Box(255, 171, 150, LEARNT, ("Training", "proxy-based loss,", "adversarial steps", "(FGSM)"))
SEARCH = Box(450, 46, 185, TEXT, ("Hybrid search", "64 nearest vectors", "+ 64 most similar names", "+ exact names"))
KB = Box(450, 296, 185, DISK, ("KB on disk", "vectors: FAISS, mapped", "records, names: SQLite"))
SCORE = Box(675, 46, 160, TUNED, ("One score", "vector similarity,", "name similarity,", "exact name: weighted"))
DECISION = Box(875, 54, 165, TUNED, ("NIL threshold", "Does the best score", "reach it?"))
LINKED = Box(875, 180, 165, RESULT, ("Link", 'kb_id_ = "C0026266"', "kb_prob = 0.99", "(calibrated)"))
NIL = Box(675, 188, 160, RESULT, ("NIL", 'kb_id_ = "NIL"', "is_nil = True"))
BOXES = (MENTION, ENTITY, MENTION_ENCODER, ENTITY_ENCODER, LOSS, SEARCH, KB, SCORE, DECISION, LINKED, NIL)


def main(
    output: Annotated[Path, typer.Argument(help="The SVG file to write")] = Path("figures/how_it_works.svg"),
) -> None:
    """Write the picture."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": "spacy-pel"}):
        draw().savefig(output, metadata={"Date": None})
    typer.echo(f"Wrote {output}")


def draw() -> Figure:
    """The whole picture."""
    width, height = SIZE
    figure = Figure(figsize=(width / 72, height / 72))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    for box in BOXES:
        draw_box(axes, box)
    draw_linking(axes)
    draw_training(axes)
    draw_legend(axes)
    return figure


def draw_box(axes: Axes, box: Box) -> None:
    """A box with its text.

    Raises:
        ValueError: If a line is wider than its box.
    """
    corner = (box.left + 4, box.top + 4)
    shape = "round,pad=4,rounding_size=6"
    axes.add_patch(
        FancyBboxPatch(corner, box.width - 8, box.height - 8, shape, facecolor=box.colour, edgecolor="#55606b")
    )
    for number, line in enumerate(box.lines):
        font = PLAIN if number else TITLE
        if TextToPath().get_text_width_height_descent(line, font, ismath=False)[0] > box.width - PAD:
            raise ValueError(f"{line!r} is wider than its box")
        y = box.top + PAD + LINE * (number + 0.5)
        axes.text(box.middle[0], y, line, fontproperties=font, ha="center", va="center_baseline")


def draw_linking(axes: Axes) -> None:
    """The arrows that a mention follows, and an entity when the KB is indexed."""
    across = ((MENTION, MENTION_ENCODER), (MENTION_ENCODER, SEARCH), (SEARCH, SCORE), (SCORE, DECISION))
    for start, end in (*across, (ENTITY, ENTITY_ENCODER), (ENTITY_ENCODER, KB)):
        y = (max(start.top, end.top) + min(start.bottom, end.bottom)) / 2
        arrow(axes, (start.right, y), (end.left, y))
    x, above = MENTION.middle[0], 26
    axes.plot([x, x, SEARCH.middle[0]], [MENTION.top, above, above], color=LINKING, linewidth=1.2)
    arrow(axes, (SEARCH.middle[0], above), (SEARCH.middle[0], SEARCH.top))
    note(axes, (MENTION_ENCODER.middle[0], above - 9), "the mention as a string")
    arrow(axes, (KB.middle[0], KB.top), (KB.middle[0], SEARCH.bottom))
    x = DECISION.middle[0]
    arrow(axes, (x, DECISION.bottom), (x, LINKED.top))
    note(axes, (x + 16, (DECISION.bottom + LINKED.top) / 2), "yes")
    corner = (DECISION.left + 20, DECISION.bottom)
    arrow(axes, corner, (NIL.right - 15, NIL.top))
    note(axes, (NIL.right + 5, (DECISION.bottom + NIL.top) / 2 - 4), "no")


def draw_legend(axes: Axes) -> None:
    """What is fitted by which command, and what the dashes mean."""
    fitted = "Fitted to your dev mentions: the weights of the score by tune-lexical,"
    note(axes, (KB.right + 10, KB.top + 18), fitted, ha="left")
    note(axes, (KB.right + 10, KB.top + 35), "the NIL threshold and the probability by tune-nil.", ha="left")
    note(axes, (KB.right + 10, KB.bottom - 5), "Dashed: only while training.", TRAINING, "left")


def draw_training(axes: Axes) -> None:
    """The dashed arrows of the training."""
    x = LOSS.middle[0]
    arrow(axes, (x, LOSS.top), (x, MENTION_ENCODER.bottom), TRAINING)
    arrow(axes, (x, LOSS.bottom), (x, ENTITY_ENCODER.top), TRAINING)
    arrow(axes, (KB.left + 30, KB.top), (LOSS.right, LOSS.middle[1] + 15), TRAINING)
    note(axes, (LOSS.right + 8, LOSS.middle[1] - 32), "negatives: random,", TRAINING, "left")
    note(axes, (LOSS.right + 8, LOSS.middle[1] - 17), "and the most similar", TRAINING, "left")
    note(axes, (LOSS.right + 8, LOSS.middle[1] - 2), "wrong ones", TRAINING, "left")


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str = LINKING) -> None:
    """From `start` to `end`; dashed while training."""
    style = {"arrowstyle": "-|>,head_width=0.25,head_length=0.5", "color": colour, "shrinkA": 0, "shrinkB": 1}
    axes.annotate(
        "", end, start, arrowprops={**style, "linestyle": "--" if colour == TRAINING else "-", "linewidth": 1.2}
    )


def note(axes: Axes, place: tuple[float, float], text: str, colour: str = LINKING, ha: str = "center") -> None:
    """Text beside an arrow."""
    axes.text(*place, text, fontproperties=PLAIN, color=colour, ha=ha, va="center_baseline")


if __name__ == "__main__":
    typer.run(main)
