"""Mentions that a trained linker gets wrong, drawn with a seed, to be read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import spacy
import srsly
import typer
from spacy.tokens import Span

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.mentions.gold import gold_of


def main(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline with a pel_linker and its KB; left as it is")],
    corpus: Annotated[Path, typer.Argument(help="Gold mentions")],
    output: Annotated[Path, typer.Argument(help="A text file")],
    measures: Annotated[Path | None, typer.Option(help="JSON of variants.py, of which the weights are taken")] = None,
    n: Annotated[int, typer.Option(help="Mentions to draw")] = 50,
    window: Annotated[int, typer.Option(help="Tokens to show on either side")] = 12,
    seed: Annotated[int, typer.Option(help="Of the draw")] = 0,
) -> None:
    """Write of each mention its sentence, what it is, which candidate number that was, and what was taken for it."""
    nlp = spacy.load(pipeline)
    linker: Any = nlp.get_pipe("pel_linker")
    if measures is not None:
        weights: Any = srsly.read_json(measures)
        linker.lexical = weights["lexical"]
    kb = linker.kb
    gold = gold_of(read_docs(corpus, nlp.vocab), kb)
    known = [mention for mention in gold if any(id_ in kb for id_ in mention.ids)]
    ranked = [[id_ for id_, _ in found] for found in linker.rank([m.span for m in known], linker.top_k)]
    wrong = [i for i, (m, ids) in enumerate(zip(known, ranked, strict=True)) if not ids or ids[0] not in m.ids]
    drawn = np.random.default_rng(seed).permutation(wrong)[:n].tolist()
    lines = [f"{len(wrong):,} of {len(known):,} mentions whose entity the KB has; {len(drawn)} of them:\n"]
    for number, i in enumerate(drawn, 1):
        ids = [id_ for id_ in known[i].ids if id_ in kb]
        rank = next((f"candidate {k}" for k, id_ in enumerate(ranked[i], 1) if id_ in ids), "no candidate")
        taken = " ".join([*ranked[i][:1], *(kb[id_].name for id_ in ranked[i][:1])]) or "nothing"
        right = " or ".join(f"{id_} {kb[id_].name}" for id_ in ids)
        lines.append(f"{number}. {in_context(known[i].span, window)}\n   is {right} ({rank}); got {taken}\n")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join(lines), encoding="utf-8")
    typer.echo(f"{output}: {lines[0].strip()}")


def in_context(span: Span, window: int) -> str:
    left = span.doc[max(span.start - window, 0) : span.start].text_with_ws
    right = span.doc[span.end : span.end + window].text
    return f"{left}[{span.text}]{span[-1].whitespace_}{right}".replace("\n", " ")


if __name__ == "__main__":
    typer.run(main)
