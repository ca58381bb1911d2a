"""What a second linker repairs of a first one, by how a mention is written beside the title of its entity."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import spacy
import typer

from spacy_pel.cli.table import cell, markdown
from spacy_pel.corpora.docbin import read_docs
from spacy_pel.evaluation.ranking import rank_mentions
from spacy_pel.evaluation.reranked import with_ranker
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import GoldMention, gold_of

HIGH, MULTIPLE, SUBSTRING, LOW = "high overlap", "multiple categories", "ambiguous substring", "low overlap"
CATEGORIES = (HIGH, MULTIPLE, SUBSTRING, LOW)
DEPTH = 64  # of the candidates that a ranker is given, as in `evaluate`
HEADER = ["", "mentions", "first right", "second right", "repaired", "spoilt"]


class Ranking(NamedTuple):
    """What a linker made of some corpora.

    Attributes:
        gold: The gold mentions, those of the same corpora in the same order whatever the linker.
        known: For each of them the names of those of its ids that the KB has.
        found: For each of them its best candidates, as (id, name).
    """

    gold: list[GoldMention]
    known: list[list[str]]
    found: list[list[tuple[str, str]]]

    def is_right(self, i: int) -> bool:
        """Whether the first candidate of mention `i` is a correct one."""
        return bool(self.found[i]) and self.found[i][0][0] in self.gold[i].ids


def main(
    first: Annotated[
        Path, typer.Argument(help="A pipeline with a pel_linker and its KB, and perhaps a pel_ranker; left as it is")
    ],
    second: Annotated[Path, typer.Argument(help="Another")],
    corpora: Annotated[list[Path], typer.Argument(help=".spacy files of gold mentions, such as one a world")],
    output: Annotated[Path, typer.Argument(help="A Markdown file")],
    first_kb: Annotated[
        list[Path] | None, typer.Option(help="KB for FIRST, with its vectors, all of it searched; one for each CORPUS")
    ] = None,
    second_kb: Annotated[list[Path] | None, typer.Option(help="The same for SECOND")] = None,
    n: Annotated[int, typer.Option(help="Repaired mentions to list with their candidates")] = 5,
    k: Annotated[int, typer.Option(help="Candidates to list")] = 4,
    window: Annotated[int, typer.Option(help="Tokens to show on either side")] = 10,
    seed: Annotated[int, typer.Option(help="Of the draw of those that are listed")] = 0,
    gpu_id: Annotated[int, typer.Option(help="-1: the CPU")] = -1,
) -> None:
    """Write how many mentions of each category either linker has right, how many wrong ones of FIRST are right in
    SECOND (repaired) and the other way round (spoilt), and the candidates of some that are repaired. Over the mentions
    whose entity both KBs have."""
    if gpu_id >= 0:
        spacy.require_gpu(gpu_id)
    for kbs, hint in ((first_kb, "--first-kb"), (second_kb, "--second-kb")):
        if kbs and len(kbs) != len(corpora):
            raise typer.BadParameter(f"give one for each of the {len(corpora)} corpora", param_hint=hint)
    one, other = ranking(first, corpora, first_kb, k), ranking(second, corpora, second_kb, k)
    both = [i for i, (own, its) in enumerate(zip(one.known, other.known, strict=True)) if own and its]
    if not both:
        names = ", ".join(map(str, corpora))
        raise typer.BadParameter(f"{names}: no mention has an entity that both KBs have", param_hint="CORPORA")
    repaired = [i for i in both if other.is_right(i) and not one.is_right(i)]
    text = markdown([HEADER, *rows(one, other, both)])
    drawn = sorted(random.Random(seed).sample(repaired, min(n, len(repaired))))
    for i in drawn:
        text += f"\n{in_context(one.gold[i], window)}\n\n{side_by_side(one, other, i)}"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text, encoding="utf-8")
    typer.echo(text)


def ranking(pipeline: Path, corpora: Sequence[Path], kbs: Sequence[Path] | None, k: int) -> Ranking:
    """What a linker makes of `corpora`, each searched in the KB of the same place in `kbs`; None: in its own KB."""
    nlp = spacy.load(pipeline)
    linker: Any = nlp.get_pipe("pel_linker")
    whole = Ranking([], [], [])
    for corpus, kb in zip(corpora, kbs or [None] * len(corpora), strict=True):
        if kb is not None:
            linker.set_kb(KnowledgeBase(kb))
            linker.types_by_label = {}  # of the worlds that it was trained on
        gold = gold_of(read_docs(corpus, nlp.vocab), linker.kb)
        found = rank_mentions(with_ranker(nlp, linker), gold, max(k, DEPTH))
        whole.gold.extend(gold)
        whole.known.extend([linker.kb[id_].name for id_ in mention.ids if id_ in linker.kb] for mention in gold)
        whole.found.extend([(id_, linker.kb[id_].name) for id_, _ in own.candidates[:k]] for own in found)
    return whole


def category(mention: str, titles: Iterable[str]) -> str:
    """ZESHEL's category (Logeswaran et al. 2019) of a mention of an entity, or of several that are all right: the one
    with the most overlap. Case is ignored."""
    return min((_category(mention.casefold(), title.casefold()) for title in titles), key=CATEGORIES.index)


def _category(mention: str, title: str) -> str:
    if title == mention:
        return HIGH
    if title.startswith(f"{mention} (") and title.endswith(")"):
        return MULTIPLE
    return SUBSTRING if mention in title else LOW


def rows(one: Ranking, other: Ranking, both: Sequence[int]) -> list[list[str]]:
    """A row for each category, and one for all."""
    of = {i: category(one.gold[i].span.text, one.known[i]) for i in both}
    counts: dict[str, Counter[str]] = {name: Counter() for name in (*CATEGORIES, "all")}
    for i, name in of.items():
        right = one.is_right(i), other.is_right(i)
        for key in (name, "all"):
            counts[key]["n"] += 1
            counts[key]["first"] += right[0]
            counts[key]["second"] += right[1]
            counts[key]["repaired"] += right == (False, True)
            counts[key]["spoilt"] += right == (True, False)
    keys = ("n", "first", "second", "repaired", "spoilt")
    return [[name, *(cell(key, own[key]) for key in keys)] for name, own in counts.items()]


def in_context(mention: GoldMention, window: int) -> str:
    span = mention.span
    left = span.doc[max(span.start - window, 0) : span.start].text_with_ws
    right = span.doc[span.end : span.end + window].text
    return f"… {left}**{span.text}**{span[-1].whitespace_}{right} …".replace("\n", " ")


def side_by_side(one: Ranking, other: Ranking, i: int) -> str:
    """The candidates of both for mention `i`, best first; the correct ones in bold."""
    columns = [
        [f"**{name}**" if id_ in one.gold[i].ids else name for id_, name in own.found[i]] for own in (one, other)
    ]
    deepest = max(map(len, columns))
    first, second = (own + [""] * (deepest - len(own)) for own in columns)
    lines = ["| first | second |\n| --- | --- |\n"]
    lines += [f"| {a.replace('|', ' ')} | {b.replace('|', ' ')} |\n" for a, b in zip(first, second, strict=True)]
    return "".join(lines)


if __name__ == "__main__":
    typer.run(main)
