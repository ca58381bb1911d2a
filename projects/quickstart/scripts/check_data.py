"""Hold data/ against what the README says of it: sizes, NIL, ambiguous forms, unseen entities, origin of the ids."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import spacy
import srsly
import typer
from wasabi import msg

from spacy_pel.corpora.pubtator import PubTatorReader
from spacy_pel.kb.entity import NIL
from spacy_pel.mentions.gold import GoldMention, ambiguous_forms, gold_mentions

SPLITS = ("train", "dev", "test")


def main(
    data: Annotated[Path, typer.Argument(help="The folder with kb.jsonl and {train,dev,test}.pubtator")],
    ids: Annotated[
        list[Path] | None,
        typer.Option(help="PubTator corpora and JSONL KBs of UMLS CUIs: every id of kb.jsonl must be in one of them"),
    ] = None,
) -> None:
    """Print each figure beside the least it must be; exit status 1 if one falls short."""
    kb = {record["id"]: record for record in map(dict, srsly.read_jsonl(data / "kb.jsonl"))}
    reader = {split: PubTatorReader(data / f"{split}.pubtator", spacy.blank("en"), strict=True) for split in SPLITS}
    docs = {split: list(reader[split]) for split in SPLITS}
    mentions = {split: [mention for doc in docs[split] for mention in gold_mentions(doc)] for split in SPLITS}
    every = [mention for split in SPLITS for mention in mentions[split]]
    strays = {id_ for mention in every for id_ in mention.ids} - kb.keys() - {NIL}
    tested = linked_ids(mentions["test"])
    checks = [
        ("entities in the KB", len(kb), 200),
        ("their semantic types", len({type_ for record in kb.values() for type_ in record["types"]}), 8),
        ("share of them with aliases", share(bool(record["aliases"]) for record in kb.values()), 1),
        ("share of them with a definition", share(bool(record["definition"]) for record in kb.values()), 1),
        ("passages", sum(map(len, docs.values())), 120),
        ("mentions", len(every), 1000),
        ("share of NIL mentions", share(mention.ids == (NIL,) for mention in every), 0.15),
        ("share of them in the test set", share(mention.ids == (NIL,) for mention in mentions["test"]), 0.15),
        ("ambiguous forms", len(ambiguous_forms(every)), 25),
        (
            "share of test entities not in train",
            share(id_ not in linked_ids(mentions["train"]) for id_ in tested),
            0.25,
        ),
        ("gold ids that the KB lacks, besides NIL", -len(strays), 0),
    ]
    if ids:
        known = set().union(*map(cuis, ids))
        checks.append(("share of KB ids in the given files", share(id_ in known for id_ in kb), 1))
    rows = [("✔" if value >= least else "✘", name, f"{value:.4g}", f"{least:.4g}") for name, value, least in checks]
    msg.table(rows, header=("", "", "is", "at least"), aligns=("l", "l", "r", "r"), divider=True)
    if any(value < least for _, value, least in checks):
        raise typer.Exit(1)


def linked_ids(mentions: list[GoldMention]) -> set[str]:
    return {id_ for mention in mentions if mention.is_linked for id_ in mention.ids}


def share(flags) -> float:
    values = list(flags)
    return sum(values) / len(values)


def cuis(path: Path) -> set[str]:
    """The ids of a JSONL KB or those in the sixth column of a PubTator file."""
    if path.suffix == ".jsonl":
        return {record["id"] for record in map(dict, srsly.read_jsonl(path))}
    rows = (line.rstrip("\n").split("\t") for line in path.open(encoding="utf-8"))
    return {id_ for row in rows if len(row) > 5 for id_ in row[5].replace("UMLS:", "").split("|")}


if __name__ == "__main__":
    typer.run(main)
