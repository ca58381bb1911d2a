"""Print pairs of sentences in which one form means different things, with what the linker makes of each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import spacy
import typer
from spacy.tokens import Span
from wasabi import color, msg

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import GoldMention, ambiguous_forms, gold_mentions

WORDS = 9  # of context on either side


def main(
    pipeline: Annotated[Path, typer.Argument(help="The indexed pipeline")],
    corpus: Annotated[Path, typer.Argument(help="A corpus with gold mentions")],
    forms: Annotated[int, typer.Option(help="How many forms to show")] = 5,
) -> None:
    """For the first forms of the corpus that have several meanings: a mention of each meaning, linked."""
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("pel_linker")
    mentions = [mention for doc in read_docs(corpus, nlp.vocab) for mention in gold_mentions(doc)]
    for form in sorted(ambiguous_forms(mentions))[:forms]:
        msg.divider(form)
        for mention in one_of_each_meaning(mentions, form):
            linked = link(nlp, mention.span)
            kb_id, score = linked._.kb_ents[0]
            found = "NIL" if linked._.is_nil else f"{kb_id} {linker.kb[kb_id].name}"
            right = linked._.is_nil if not mention.is_linked else kb_id in mention.ids and not linked._.is_nil
            hint = "" if right else f"  (gold: {names(linker.kb, mention)})"
            print(f"{'✔' if right else '✘'} {context(mention.span)}")
            print(f"    → {color(found, bold=True)}  {score:.2f}{hint}")


def one_of_each_meaning(mentions: list[GoldMention], form: str) -> list[GoldMention]:
    return list({mention.ids: mention for mention in reversed(mentions) if mention.form == form}.values())[::-1]


def link(nlp: spacy.Language, mention: Span) -> Span:
    """The mention in a Doc of its own, linked by the pipeline as any entity of yours would be."""
    doc = mention.doc.copy()
    doc.spans.clear()
    doc.ents = [Span(doc, mention.start, mention.end, label=mention.label_ or "ENTITY")]
    return nlp(doc).ents[0]


def names(kb: KnowledgeBase, mention: GoldMention) -> str:
    return " or ".join(kb[id].name if id in kb else id for id in mention.ids) if mention.is_linked else "NIL"


def context(span: Span) -> str:
    doc = span.doc
    left, right = doc[max(0, span.start - WORDS) : span.start], doc[span.end : span.end + WORDS]
    return f"… {left.text} {color(span.text, fg='cyan', bold=True)} {right.text} …"


if __name__ == "__main__":
    typer.run(main)
