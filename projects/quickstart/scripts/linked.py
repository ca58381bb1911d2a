"""Link some sentences and draw them: OUTPUT.html is what `render_links` makes, OUTPUT.svg a picture of that."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Annotated, NamedTuple

import spacy
import typer
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch
from matplotlib.textpath import TextToPath

from spacy_pel import render_links

SENTENCES = (
    "Her MS began with optic neuritis and vertigo.",
    "The valve narrowed by MS was replaced.",
    "HD began with chorea and a CAG expansion.",
    "After three years of HD through a fistula her kidneys had not recovered.",
)
FORMS = ("MS", "HD", "vertigo")
PAGE = "https://uts.nlm.nih.gov/uts/umls/concept/{}"
WIDTH, LINE, MARGIN, PAD, GAP = 690, 34, 16, 7, 5  # points
FONTS = {
    "text": FontProperties(size=12),
    "label": FontProperties(size=9.6, weight="bold"),
    "id": FontProperties(size=9.6),
    "link": FontProperties(size=9.6),
}


def main(
    pipeline: Annotated[Path, typer.Argument(help="The indexed pipeline")],
    output: Annotated[Path, typer.Argument(help="Without its suffix: .html and .svg are written")],
) -> None:
    """Link the sentences, write them as HTML and draw that."""
    trained = spacy.load(pipeline)
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "ENTITY", "pattern": form} for form in FORMS])
    nlp.add_pipe("pel_linker", source=trained)
    docs = list(nlp.pipe(SENTENCES))
    render_links(docs, trained, kb_url_template=PAGE, output=output.with_suffix(".html"))
    reader = MarkupReader()
    reader.feed(render_links(docs, trained, kb_url_template=PAGE, jupyter=False) or "")
    with rc_context({"svg.hashsalt": "spacy-pel"}):
        draw(reader.lines).savefig(output.with_suffix(".svg"), metadata={"Date": None})
    typer.echo(f"Wrote {output}.html and {output}.svg")


class Run(NamedTuple):
    """Text of one look: that of `FONTS[kind]`, a link underlined."""

    text: str
    kind: str

    @property
    def width(self) -> float:
        """In points."""
        return TextToPath().get_text_width_height_descent(self.text, FONTS[self.kind], ismath=False)[0]


class Piece(NamedTuple):
    """What stays on one line: a word, or an entity with its background."""

    runs: list[Run]
    colour: str | None = None


class MarkupReader(HTMLParser):
    """The pieces of displaCy's markup, a list a Doc."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[list[Piece]] = []
        self.entity: Piece | None = None
        self.kinds: list[str] = []  # of the open elements in an entity

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        style = dict(attrs).get("style") or ""
        if tag == "div":
            self.lines.append([])
        elif tag == "mark":
            self.entity = Piece([], re.findall("background: ([^;]+)", style)[0])
            self.lines[-1].append(self.entity)
        if self.entity is not None:
            of_span = "id" if "normal" in style else "label"
            self.kinds.append({"mark": "text", "a": "link"}.get(tag, of_span))

    def handle_endtag(self, tag: str) -> None:
        if self.entity is not None:
            self.kinds.pop()
        if tag == "mark":
            self.entity = None

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split())
        if self.entity is not None and text:
            self.entity.runs.append(Run(text, self.kinds[-1]))
        elif text:
            self.lines[-1] += [Piece([Run(word, "text")]) for word in text.split()]


def draw(lines: list[list[Piece]]) -> Figure:
    """A line a Doc, its pieces from left to right."""
    height = 2 * MARGIN + LINE * len(lines)
    figure = Figure(figsize=(WIDTH / 72, height / 72))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
    axes.axis("off")
    for number, line in enumerate(lines):
        x = float(MARGIN)
        for piece in line:
            x = draw_piece(axes, x, MARGIN + LINE * (number + 0.5), piece) + GAP
    return figure


def draw_piece(axes: Axes, left: float, y: float, piece: Piece) -> float:
    """RETURNS: where it ends."""
    pad = PAD if piece.colour else 0
    x = left + pad
    for run in piece.runs:
        axes.text(x, y + 4, run.text, fontproperties=FONTS[run.kind])
        if run.kind == "link":
            axes.plot([x, x + run.width], [y + 6.5, y + 6.5], color="black", linewidth=0.6)
        x += run.width + GAP
    end = x - GAP + pad
    if piece.colour:
        box = FancyBboxPatch((left + 4, y - 8), end - left - 8, 16, "round,pad=4", color=piece.colour, linewidth=0)
        axes.add_patch(box)
    return end


if __name__ == "__main__":
    typer.run(main)
