"""`spacy pel okb`: a corpus and a KB → the same without the entities of some types, whose mentions become NIL."""

from __future__ import annotations

from collections.abc import Collection, Set
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PelError
from .app import command
from .okb_report import print_counts
from .out_file import check_apart, check_out
from .pipeline import warnings_shown
from .printing import msg
from .vocabulary import split_values

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ..kb.knowledge_base import KnowledgeBase
    from ..mentions.gold import GoldMention

    Split = list[tuple[Doc, list[GoldMention]]]


@command("okb")
def okb(
    kb: Annotated[Path, typer.Argument(help="KB folder; it is not changed", metavar="KB")],
    out: Annotated[Path, typer.Argument(help="Folder to write: kb/ and a .spacy file for every corpus")],
    corpora: Annotated[
        list[Path],
        typer.Argument(help="PubTator files whose types are TUIs, the training split first", metavar="TRAIN [DEV ...]"),
    ],
    types: Annotated[list[str] | None, typer.Option(help="Types that become NIL [default: the paper's 11]")] = None,
    strip_prefix: Annotated[str, typer.Option(help="Prefix to take off every id, say UMLS:")] = "",
    known_only: Annotated[
        bool, typer.Option("--known-only", help="Leave mentions out that have no id of the KB: no other NIL but theirs")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the KB and the corpora at OUT")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count: write no KB and no corpora")] = False,
    output: Annotated[Path | None, typer.Option(help="Write the counts here, as JSON")] = None,
) -> None:
    """Make the out-of-KB set of Wiatrak et al. 2022: the entities of some semantic types leave the KB, their mentions
    become NIL. Prints, for every split, mentions, entities, and the share of the entities that the training split has,
    also by type; the share of the NIL forms that training has, and that are names of entities that stay; and how long
    the texts of entities are, of those that leave the KB and of the others.

    An entity is of a type if the KB or any mention of it in the corpora says so.

    Example: python -m spacy pel okb kb okb train.pubtator dev.pubtator test.pubtator --strip-prefix UMLS:
    """
    from ..corpora.okb import OKB_TYPES
    from ..files.atomic import write_json
    from ..kb.knowledge_base import KnowledgeBase

    targets = _targets(out, corpora, dry_run)
    _check_paths(kb, out, corpora, targets, output, force)
    whole, wanted = KnowledgeBase(kb), frozenset(split_values(types) or OKB_TYPES)
    splits = _read(corpora, whole, strip_prefix, known_only)
    mentions = {
        corpus.stem: [mention for _, found in split for mention in found]
        for corpus, split in zip(corpora, splits, strict=True)
    }
    held_out = _held_out(mentions.values(), wanted, whole, corpora[0])
    n_held_out = len(whole.rows(held_out))
    counts = {"n_entities": len(whole), "n_held_out": n_held_out}
    counts |= print_counts(mentions, held_out, wanted, whole)
    msg.text(f"{n_held_out:,} of the {len(whole):,} entities of {kb} are of these types.")
    if targets:
        _write(out / "kb", targets, whole, splits, held_out, force)
        msg.good(f"Wrote {out / 'kb'} and {', '.join(map(str, targets))}")
    if output:
        write_json(output, counts)


def _targets(out: Path, corpora: list[Path], dry_run: bool) -> list[Path]:
    """The file to write for each corpus; none in a dry run."""
    targets = [out / f"{corpus.stem}.spacy" for corpus in corpora]
    if len(set(targets)) < len(targets):
        raise PelError(f"Two corpora have one name, so both would be written to {max(targets, key=targets.count)}")
    return [] if dry_run else targets


def _check_paths(
    kb: Path, out: Path, corpora: list[Path], targets: list[Path], output: Path | None, force: bool
) -> None:
    """Check before anything is read that it can be, and that all can be written that is to be."""
    from ..corpora.gold_corpus import Format, check_corpus
    from ..files.atomic import check_writable

    new = [("OUT/kb", out / "kb"), *((f"OUT/{target.name}", target) for target in targets)] if targets else []
    check_apart([("KB", kb), *(("a corpus", corpus) for corpus in corpora), *new, ("--output", output)])
    for corpus in corpora:
        check_corpus(corpus, Format.pubtator)
    if targets:
        _check_new(out / "kb", targets, force)
    if output:
        check_writable(output)


def _check_new(kb: Path, targets: list[Path], force: bool) -> None:
    """Check that the new KB and corpora can and should be written."""
    from ..files.folders import check_replaceable
    from ..kb.knowledge_base import FILES

    check_replaceable(kb, FILES)
    for target in targets:
        check_out(target, kb, "the KB", force=True)
    there = [path for path in (kb, *targets) if path.exists()]
    if there and not force:
        raise PelError(f"{there[0]}: is there already; choose another folder or replace it with --force")


def _read(corpora: list[Path], kb: KnowledgeBase, strip_prefix: str, known_only: bool) -> list[Split]:
    """Every corpus as Docs with their gold mentions; of these only those that the KB knows, if that is asked for."""
    import spacy
    from tqdm import tqdm

    from ..corpora.pubtator import PubTatorReader
    from ..mentions.gold import gold_mentions, with_successors

    splits, nlp = [], spacy.blank("en")
    for corpus in corpora:
        reader = PubTatorReader(corpus, nlp, strip_prefix=strip_prefix)
        docs = tqdm(reader, desc=f"Reading {corpus.name}", disable=None)
        with warnings_shown():
            splits.append([(doc, with_successors(gold_mentions(doc), kb)) for doc in docs])
    return [_known(split, kb) for split in splits] if known_only else splits


def _known(split: Split, kb: KnowledgeBase) -> Split:
    """The Docs of a split with no other mentions than those that have an id of the KB."""
    from ..corpora.okb import keep

    known = [(doc, [one for one in found if any(id_ in kb for id_ in one.ids)]) for doc, found in split]
    for doc, found in known:
        keep(doc, found)
    return known


def _held_out(mentions: Collection[list[GoldMention]], types: Set[str], kb: KnowledgeBase, corpus: Path) -> set[str]:
    """The ids that become NIL: those that have any of `types` in the KB or in a mention. corpus: named in an error."""
    from ..corpora.okb import ids_of_types

    named = ", ".join(sorted(types))
    held_out = {id_ for found in mentions for id_ in ids_of_types(found, types)}
    held_out |= {entity.id for entity in kb.entities() if not types.isdisjoint(entity.types)}
    if not any(held_out.issuperset(mention.ids) for found in mentions for mention in found if mention.ids):
        raise PelError(f"{corpus}: no mention has any of the types {named}")
    if len(kb.rows(held_out)) == len(kb):
        raise PelError(f"{kb.path}: every entity is of the types {named}, and none would stay; name fewer in --types")
    return held_out


def _write(
    kb: Path, targets: list[Path], whole: KnowledgeBase, splits: list[Split], held_out: set[str], force: bool
) -> None:
    """Write the corpora and the KB without the entities `held_out`: all of them, or none where one fails."""
    from ..corpora.docbin import new_docs
    from ..corpora.okb import make_nil
    from ..kb.knowledge_base import KnowledgeBase

    with ExitStack() as stack:
        for target, split in zip(targets, splits, strict=True):
            for doc, found in split:
                make_nil(doc, found, held_out)
            stack.enter_context(new_docs(target, [doc for doc, _ in split]))
        notes = {key: whole.meta.get(key, "") for key in ("source", "release", "licence")}
        kept = (entity for entity in whole.entities() if entity.id not in held_out)
        KnowledgeBase.create(kb, kept, retired=whole.successors().items(), overwrite=force, **notes)
