"""What `spacy pel okb` prints, and returns to be written: the splits, and what could tell NIL without the context."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any

from .printing import msg

if TYPE_CHECKING:
    from ..kb.knowledge_base import KnowledgeBase
    from ..mentions.gold import GoldMention

    Mentions = Mapping[str, list[GoldMention]]  # by the name of the split, the training split first


def print_counts(splits: Mentions, held_out: set[str], types: Set[str], kb: KnowledgeBase) -> dict[str, Any]:
    """Print all counts of the splits, whose mentions of `held_out` become NIL, and return them by table."""
    training = next(iter(splits.values()))
    train_ids = {id_ for mention in training for id_ in mention.ids}
    found = {name: _print_split(name, own, train_ids, held_out, kb) for name, own in splits.items()}
    by_type = {name: _print_types(name, own, types, train_ids) for name, own in splits.items()}
    forms = _print_forms(splits, {mention.form for mention in training}, held_out, kb)
    return {"splits": found, "nil_by_type": by_type, **forms}


def _print_split(
    split: str, mentions: list[GoldMention], train_ids: Set[str], held_out: set[str], kb: KnowledgeBase
) -> dict[str, Any]:
    from ..corpora.okb import split_statistics

    nil = [mention for mention in mentions if held_out.issuperset(mention.ids)]
    left = [mention for mention in mentions if not held_out.issuperset(mention.ids)]
    stay = [
        mention._replace(ids=tuple(id_ for id_ in mention.ids if id_ in kb and id_ not in held_out)) for mention in left
    ]
    in_kb = [mention for mention in stay if mention.ids]
    parts = {"all": mentions, "of these types, now NIL": nil, "of other types": left, "  of them in the KB": in_kb}
    found = {name: split_statistics(own, train_ids) for name, own in parts.items()}
    rows = [(name, f"{own.mentions:,}", f"{own.entities:,}", _share(own.seen)) for name, own in found.items()]
    _print_table((split, "Mentions", "Entities", "seen in training"), rows)
    return {name.strip(): own._asdict() for name, own in found.items()}


def _print_types(split: str, mentions: list[GoldMention], types: Set[str], train_ids: Set[str]) -> dict[str, Any]:
    from ..corpora.okb_checks import statistics_by_type

    found = statistics_by_type(mentions, sorted(types), train_ids)
    rows = [(kind, f"{own.mentions:,}", f"{own.entities:,}", _share(own.seen)) for kind, own in found.items()]
    if rows:
        _print_table((f"{split}, NIL by type", "Mentions", "Entities", "seen in training"), rows)
    return {kind: own._asdict() for kind, own in found.items()}


def _print_forms(splits: Mentions, training: Set[str], held_out: set[str], kb: KnowledgeBase) -> dict[str, Any]:
    """What could tell NIL without the context: appendix D of the paper, and names of others."""
    from ..corpora.okb_checks import form_statistics, kb_sides, nil_forms

    forms = {name: nil_forms(own, held_out) for name, own in splits.items()}
    sides = kb_sides(kb.entities(), held_out, set().union(*forms.values()))
    found = {name: form_statistics(own, training, sides.known_forms) for name, own in forms.items()}
    rows = [(name, f"{own.forms:,}", _share(own.in_training), _share(own.are_names)) for name, own in found.items()]
    _print_table(("NIL forms", "Distinct", "in training", "a name that stays"), rows)
    texts = {"leave it": sides.left, "stay": sides.stayed}
    cells = [
        (name, f"{own.entities:,}", _mean(own.name), _mean(own.aliases), _share(own.defined), _mean(own.definition))
        for name, own in texts.items()
    ]
    _print_table(("Entities of the KB that", "Entities", "words of a name", "aliases", "defined", "words of it"), cells)
    return {
        "nil_forms": {name: own._asdict() for name, own in found.items()},
        "texts": {name: own._asdict() for name, own in texts.items()},
    }


def _print_table(header: tuple[str, ...], rows: list[Any]) -> None:
    msg.table(rows, header=header, aligns=("l", *["r"] * (len(header) - 1)), divider=True)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _mean(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
