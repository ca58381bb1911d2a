"""`spacy pel okb`: a corpus and a KB → the same without the entities of some types, whose mentions become NIL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import PelError
from .app import command
from .printing import msg
from .vocabulary import split_values

if TYPE_CHECKING:
    from ..kb.knowledge_base import KnowledgeBase
    from ..mentions.gold import GoldMention


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
    import spacy
    from tqdm import tqdm

    from ..corpora.docbin import write_docs
    from ..corpora.okb import OKB_TYPES, ids_of_types, keep, make_nil
    from ..corpora.pubtator import PubTatorReader
    from ..files.atomic import check_writable, write_json
    from ..kb.hold_out import HoldOut
    from ..kb.knowledge_base import KnowledgeBase
    from ..mentions.gold import gold_mentions, with_successors

    targets = [out / f"{corpus.stem}.spacy" for corpus in corpora]
    if len(set(targets)) < len(targets):
        raise PelError(f"Two corpora have one name, so both would be written to {max(targets, key=targets.count)}")
    there = [path for path in (out / "kb", *targets) if path.exists()]
    if there and not (force or dry_run):
        raise PelError(f"{there[0]}: is there already; choose another folder or replace it with --force")
    if output:
        check_writable(output)
    whole, wanted, nlp = KnowledgeBase(kb), frozenset(split_values(types) or OKB_TYPES), spacy.blank("en")
    splits = []
    for corpus in corpora:
        reader = tqdm(
            PubTatorReader(corpus, nlp, strip_prefix=strip_prefix), desc=f"Reading {corpus.name}", disable=None
        )
        docs = [(doc, with_successors(gold_mentions(doc), whole)) for doc in reader]
        if known_only:
            docs = [(doc, [one for one in found if any(id_ in whole for id_ in one.ids)]) for doc, found in docs]
            for doc, found in docs:
                keep(doc, found)
        splits.append(docs)
    mentions = [[mention for _, found in docs for mention in found] for docs in splits]
    held_out = {id_ for found in mentions for id_ in ids_of_types(found, wanted)}
    held_out |= {entity.id for entity in whole.entities() if not wanted.isdisjoint(entity.types)}
    if not any(held_out.issuperset(mention.ids) for found in mentions for mention in found if mention.ids):
        raise PelError(f"{corpora[0]}: no mention has any of the types {', '.join(sorted(wanted))}")

    splits_found = {
        corpus.stem: _print_statistics(corpus, found, mentions[0], held_out, whole)
        for corpus, found in zip(corpora, mentions, strict=True)
    }
    n_held_out = len(whole.rows(held_out))
    counts = {"n_entities": len(whole), "n_held_out": n_held_out, "splits": splits_found}
    counts |= _print_checks(corpora, mentions, held_out, wanted, whole)
    if output:
        write_json(output, counts)
    msg.text(f"{n_held_out:,} of the {len(whole):,} entities of {kb} are of these types.")
    if dry_run:
        return
    notes = {key: whole.meta.get(key, "") for key in ("source", "release", "licence")}
    kept = HoldOut(ids=held_out).kept(whole.entities(), Counter())
    KnowledgeBase.create(out / "kb", kept, retired=whole.successors().items(), overwrite=force, **notes)
    for target, docs in zip(targets, splits, strict=True):
        for doc, found in docs:
            make_nil(doc, found, held_out)
        write_docs(target, [doc for doc, _ in docs])
    msg.good(f"Wrote {out / 'kb'} and {', '.join(map(str, targets))}")


def _print_statistics(
    corpus: Path, mentions: list[GoldMention], training: list[GoldMention], held_out: set[str], kb: KnowledgeBase
) -> dict[str, Any]:
    """Returns what it has printed, by part."""
    from ..corpora.okb import split_statistics

    train_ids = {id_ for mention in training for id_ in mention.ids}
    nil = [mention for mention in mentions if held_out.issuperset(mention.ids)]
    left = [mention for mention in mentions if not held_out.issuperset(mention.ids)]
    in_kb = [mention for mention in left if any(id_ in kb for id_ in mention.ids)]
    parts = {"all": mentions, "of these types, now NIL": nil, "of other types": left, "  of them in the KB": in_kb}
    found = {name.strip(): split_statistics(own, train_ids) for name, own in parts.items()}
    rows = [
        (name, f"{own.mentions:,}", f"{own.entities:,}", _share(own.seen))
        for name, own in zip(parts, found.values(), strict=True)
    ]
    _print_table((corpus.stem, "Mentions", "Entities", "seen in training"), rows)
    return {name: own._asdict() for name, own in found.items()}


def _print_checks(
    corpora: list[Path], mentions: list[list[GoldMention]], held_out: set[str], types: Set[str], kb: KnowledgeBase
) -> dict[str, Any]:
    """What could tell NIL without the context: appendix D of the paper, and names of others. Returns what it has
    printed."""
    from ..corpora.okb_checks import form_statistics, kb_sides, nil_forms, statistics_by_type

    train_ids = {id_ for mention in mentions[0] for id_ in mention.ids}
    printed: dict[str, dict[str, Any]] = {"nil_by_type": {}, "nil_forms": {}, "texts": {}}
    for corpus, own in zip(corpora, mentions, strict=True):
        by_type = statistics_by_type(own, sorted(types), train_ids)
        rows = [(type_, f"{n:,}", f"{entities:,}", _share(seen)) for type_, (n, entities, seen) in by_type.items()]
        if rows:
            _print_table((f"{corpus.stem}, NIL by type", "Mentions", "Entities", "seen in training"), rows)
        printed["nil_by_type"][corpus.stem] = {type_: found._asdict() for type_, found in by_type.items()}
    forms = [nil_forms(own, held_out) for own in mentions]
    sides = kb_sides(kb.entities(), held_out, set().union(*forms))
    rows, training = [], {mention.form for mention in mentions[0]}
    for corpus, own_forms in zip(corpora, forms, strict=True):
        found = form_statistics(own_forms, training, sides.known_forms)
        rows.append((corpus.stem, f"{found.forms:,}", _share(found.in_training), _share(found.are_names)))
        printed["nil_forms"][corpus.stem] = found._asdict()
    _print_table(("NIL forms", "Distinct", "in training", "a name that stays"), rows)
    texts = []
    for name, side in (("leave it", sides.left), ("stay", sides.stayed)):
        means = (f"{side.entities:,}", _mean(side.name), _mean(side.aliases), _share(side.defined))
        texts.append((name, *means, _mean(side.definition)))
        printed["texts"][name] = side._asdict()
    _print_table(("Entities of the KB that", "Entities", "words of a name", "aliases", "defined", "words of it"), texts)
    return printed


def _print_table(header: tuple[str, ...], rows: list[Any]) -> None:
    msg.table(rows, header=header, aligns=("l", *["r"] * (len(header) - 1)), divider=True)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _mean(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
