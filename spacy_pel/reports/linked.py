"""A linked corpus in numbers: NIL by label, the probabilities and how far they are from those of another corpus, the
commonest forms that are NIL, and the entities whose links are likely to be wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import srsly
from spacy.vocab import Vocab

from ..errors import PelError
from ..kb.entity import NIL
from ..kb.names.normal_form import normalized
from .linked_texts import files_in, linked_texts

BINS = 10


@dataclass
class Tally:
    """Mentions that have something in common.

    Attributes:
        n: How many there are.
        nil: How many of them are NIL.
        linked: How many of the others have a probability.
        right: The sum of these probabilities: how many links are expected to be right.
        form: The text of the first.
    """

    n: int = 0
    nil: int = 0
    linked: int = 0
    right: float = 0.0
    form: str = ""

    def add(self, form: str, kb_id: str, probability: float | None) -> None:
        """Count a mention."""
        self.form = self.form or form
        self.n += 1
        if kb_id == NIL:
            self.nil += 1
        elif probability is not None:
            self.linked += 1
            self.right += probability

    @property
    def accuracy(self) -> float | None:
        """The mean probability of those that are linked; None without one."""
        return self.right / self.linked if self.linked else None

    @property
    def wrong(self) -> float:
        """How many links are expected to be wrong."""
        return self.linked - self.right


@dataclass
class LinkedCounts:
    """What is counted of a linked corpus. It grows with the entities and the forms that are NIL, not with the texts.

    Attributes:
        n_texts: How many texts there are.
        every: All mentions.
        by_label: Those with each label.
        by_entity: Those linked to each entity.
        nil_forms: How often each normalised form is NIL.
        bins: (10,) int64: how many mentions have a probability in each tenth.
    """

    n_texts: int = 0
    every: Tally = field(default_factory=Tally)
    by_label: dict[str, Tally] = field(default_factory=dict)
    by_entity: dict[str, Tally] = field(default_factory=dict)
    nil_forms: Counter[str] = field(default_factory=Counter)
    bins: np.ndarray = field(default_factory=lambda: np.zeros(BINS, dtype=np.int64))

    def add(self, ents: Iterable[Mapping[str, Any]]) -> None:
        """Count the mentions of a text, records as `spacy pel link` writes them."""
        self.n_texts += 1
        for ent in ents:
            form, kb_id, probability = ent["text"], ent["kb_id"], ent.get("kb_prob")
            found = form, kb_id, probability
            self.every.add(*found)
            self.by_label.setdefault(ent["label"], Tally()).add(*found)
            if kb_id == NIL:
                self.nil_forms[normalized(form)] += 1
            else:
                self.by_entity.setdefault(kb_id, Tally()).add(*found)
            if probability is not None:
                self.bins[min(int(probability * BINS), BINS - 1)] += 1

    def doubtful(self) -> list[tuple[str, Tally]]:
        """The entities with a link that has a probability, those first of whose links most are expected to be wrong."""
        known = ((id_, tally) for id_, tally in self.by_entity.items() if tally.linked)
        return sorted(known, key=lambda each: (-each[1].wrong, each[0]))


def count_linked(paths: Iterable[Path], vocab: Vocab, spans_key: str | None = None) -> LinkedCounts:
    """Count what is linked in `paths`: `.jsonl`, `.parquet` and `.spacy` files, and folders of these.

    Raises:
        PelError: A file has another suffix, or a line is no linked text; with file and line.
    """
    counts = LinkedCounts()
    for path in paths:
        for ents in linked_texts(path, vocab, spans_key):
            counts.add(ents)
    return counts


def known_bins(path: Path, vocab: Vocab, spans_key: str | None = None) -> np.ndarray:
    """How many mentions of a corpus that is known have a probability in each tenth, (10,).

    Args:
        path: What `spacy pel evaluate --output` wrote (`.json`), or a linked corpus.
        vocab: For `.spacy` files.
        spans_key: For `.spacy` files, see `count_linked`.

    Raises:
        PelError: No mention has a probability there.
    """
    bins = _evaluated(path) if path.suffix == ".json" else count_linked(files_in(path), vocab, spans_key).bins
    if not bins.sum():
        raise PelError(f"{path} has no probabilities; run `spacy pel tune-nil`, and evaluate or link again")
    return bins


def drift(bins: np.ndarray, known: np.ndarray) -> float:
    """The population stability index Σ (p - q) ln(p / q) of two counts in the same bins; an empty bin counts as half a
    mention. By custom under 0.1 is the same, and from 0.25 on another distribution."""
    p, q = (np.maximum(counts, 0.5) / np.maximum(counts, 0.5).sum() for counts in (bins, known))
    return float(((p - q) * np.log(p / q)).sum())


def summary(counts: LinkedCounts, known: np.ndarray | None = None, most: int | None = None) -> dict[str, Any]:
    """The counts as JSON has them.

    Args:
        counts: Of a linked corpus.
        known: The bins of a corpus to compare with.
        most: The most forms and entities that are named; None: all.
    """
    every = counts.every
    return {
        "n_texts": counts.n_texts,
        "n_mentions": every.n,
        "n_nil": every.nil,
        "nil_rate": every.nil / every.n if every.n else None,
        "expected_accuracy": every.accuracy,
        "expected_wrong": every.wrong if every.linked else None,
        "drift": drift(counts.bins, known) if known is not None and counts.bins.sum() else None,
        "probabilities": counts.bins.tolist(),
        "probabilities_known": None if known is None else known.tolist(),
        "labels": {label: _row(tally) for label, tally in sorted(counts.by_label.items())},
        "nil_forms": dict(counts.nil_forms.most_common(most)),
        "entities": {id_: _row(tally) | {"form": tally.form} for id_, tally in counts.doubtful()[:most]},
    }


def _row(tally: Tally) -> dict[str, Any]:
    return {
        "n": tally.n,
        "nil_rate": tally.nil / tally.n,
        "expected_accuracy": tally.accuracy,
        "expected_wrong": tally.wrong if tally.linked else None,
    }


def _evaluated(path: Path) -> np.ndarray:
    """The bins of the measures at `path`."""
    try:
        measures: Any = srsly.read_json(path)
        bins = np.zeros(BINS, dtype=np.int64)
        for one in measures["reliability"]:
            bins[min(int(one["probability"] * BINS), BINS - 1)] += one["n"]
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise PelError(f"{path} has no probabilities of `spacy pel evaluate --output` ({error!r})") from error
    return bins
