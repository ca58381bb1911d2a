"""A bi-encoder learns from a ranker: what that scores the candidates of a mention is a target beside the gold entity.

A file of targets has a line for each mention, `{"mention": key, "text": its text, "ids": [...], "scores": [...]}`;
`spacy pel distil` writes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from spacy.tokens import Span
from torch.nn.functional import kl_div, log_softmax

from ..checks import check_count, check_number, check_text, text_list
from ..errors import PelError
from ..files.json_lines import numbered_lines, parse_object, required
from .draws import NONE
from .layouts import TrainingBatch
from .negatives import DrawnNegatives

SECTION = "[components.pel_linker.distillation]"
Taught = dict[int, float]  # what a ranker scores places in the list of entities that is trained with
AROUND = 48  # characters on either side of a mention that tell it from others, in whatever window it stands


@dataclass(frozen=True)
class Distillation:
    """What a bi-encoder learns of a ranker: λ T² KL(q ‖ p), where q is the softmax of the ranker's scores / T over
    those candidates of the batch that it has scored, and p that of the bi-encoder's logits / T (Hinton et al. 2015).
    With `FGSM` it is a part of the adversarial loss too, and of what the adversarial step goes up.

    Attributes:
        path: The file that `spacy pel distil` has written of the training corpus.
        n: The wrong candidates that the ranker scores highest, which become negatives of their mention.
        weight: λ. 0: they are negatives, and nothing else is learnt of them.
        temperature: T.

    Raises:
        PelError: A setting is out of its range.
    """

    path: str
    n: int = 3
    weight: float = 1.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_text(SECTION, "path", self.path, "name the file that `spacy pel distil` has written")
        check_count(SECTION, "n", self.n)
        check_number(SECTION, "weight", self.weight, least=0)
        check_number(SECTION, "temperature", self.temperature, over=0)

    def targets(self) -> dict[str, Target]:
        """Read the targets of all mentions, by their `mention_key`.

        Raises:
            PelError: The file is missing, or a line of it is broken.
        """
        return dict(self._read())

    def _read(self) -> Iterator[tuple[str, Target]]:
        number = 1
        try:
            for number, line in numbered_lines(Path(self.path)):  # noqa: B007  (told where it ends)
                record = parse_object(line, '{"mention": …, "ids": […], "scores": […]}')
                yield required(record, "mention", "each line has one"), Target.of(record)
        except (OSError, ValueError, KeyError, TypeError, PelError) as error:
            raise PelError(
                f"{SECTION}: {self.path}, line {number}, holds no targets ({error!r}); write the file with "
                "`spacy pel distil`."
            ) from error

    def loss(self, scores: torch.Tensor, targets: torch.Tensor, logit_scale: float) -> torch.Tensor:
        """The loss (m,) of mentions; 0 of those without a target.

        Args:
            scores: (m, c), what the bi-encoder scores the candidates of each.
            targets: (m, c), what the ranker does; -inf where it says nothing.
            logit_scale: What makes a training logit of a score.
        """
        told = targets.isfinite()
        some = told.sum(-1) > 1  # of one candidate nothing is learnt
        logits = (logit_scale / self.temperature * scores).masked_fill(~told, -torch.inf)[some]
        wanted = log_softmax(targets[some] / self.temperature, dim=-1)
        terms = kl_div(
            log_softmax(logits, dim=-1).masked_fill(~told[some], 0.0),
            wanted.masked_fill(~told[some], -torch.inf),
            reduction="none",
            log_target=True,
        ).nan_to_num(0.0)
        value = scores.new_zeros(len(scores))
        return value.index_put((some.nonzero()[:, 0],), self.weight * self.temperature**2 * terms.sum(-1))


class Target(NamedTuple):
    """What a ranker says of a mention: the `scores` (c,) of the entities `ids`."""

    ids: Sequence[str]
    scores: np.ndarray

    @classmethod
    def of(cls, line: dict[str, Any]) -> Target:
        """What a line of the file says.

        Raises:
            PelError: The ids are no list.
            ValueError: Ids and scores are not as many, or a score is not finite.
        """
        target = cls(text_list("line", "ids", line["ids"]), np.array(line["scores"], dtype=np.float64))
        if target.scores.shape != (len(target.ids),) or not np.isfinite(target.scores).all():
            raise ValueError("a finite score for each id is needed")
        return target


def mention_key(span: Span) -> str:
    """What tells a mention from others: its text and the characters around it. The same in a document and in a window
    of it that shows as many."""
    doc, text = span.doc, span.text
    before = doc[max(span.start - AROUND, 0) : span.start].text_with_ws[-AROUND:]  # a token has a character or more
    after = doc[span.start : span.end + AROUND].text_with_ws[len(text) :][:AROUND]
    parts = before, text, after
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()


def with_taught(
    negatives: DrawnNegatives, taught: Sequence[Taught], not_wrong: Sequence[Sequence[int]], n: int
) -> DrawnNegatives:
    """`negatives` of m mentions, and `n` wrong candidates more of each that its ranker scores highest; none twice."""
    more = np.full((len(taught), n), NONE, dtype="int64")
    for i, (own, correct) in enumerate(zip(taught, not_wrong, strict=True)):
        wrong = own.keys() - {*correct, *negatives.places[i].tolist()}
        places = sorted(wrong, key=lambda place: (-own[place], place))[:n]
        more[i, : len(places)] = places
    return DrawnNegatives(np.hstack([negatives.places, more]))


def with_targets(batch: TrainingBatch, taught: Sequence[Taught]) -> TrainingBatch:
    """`batch` with what a ranker scores the candidates of each of its m mentions."""
    targets = np.array(
        [
            [own.get(place, -np.inf) for place in places]
            for own, places in zip(taught, batch.candidate_places().tolist(), strict=True)
        ]
    )
    return replace(batch, targets=np.where(batch.positives | batch.negatives, targets, -np.inf))
