"""What is tuned of a ranker, and what it makes of the scores of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from srsly import json_dumps

from ..kb.entity import NIL
from ..mentions.links import Link, top_score
from .decision import Logistic
from .tuned import scored_in

RANKED = (
    "log-probability of the first among the candidates",
    "lead over the next",
    "score of the first by the linker",
    "best score by the linker",
    "lead over the next by the linker",
    "log-odds of the linker",
    "the linker's first is the same",
)
"""The columns of `ranked_evidence`. A lead is 0 with one candidate; log-odds are 0 where the linker has no
probability."""

SURE = 1e-6  # a probability of the linker that is nearer to 0 or 1 counts as this


@dataclass(frozen=True)
class RankTuned:
    """What was tuned of a ranker.

    Attributes:
        weight: Of the linker's score beside the ranker's.
        right: Whether the first is correct: `ent._.kb_prob`; None: none has a probability.
        in_kb: Whether the KB has what the mention means; None: the linker decides on NIL.
        nil_threshold: Of that probability.
        rerank_below: The probability of the linker from which on a mention is not ranked anew; None: all are.
        behind: A digest of how the linker was tuned, see `digest_of`; None: not known.
        scored_in: What the scores of the ranker and those of the linker were computed in, see
            `spacy_pel.tuning.tuned.scored_in`; None: not known.
    """

    weight: float = 0.0
    right: Logistic | None = None
    in_kb: Logistic | None = None
    nil_threshold: float | None = None
    rerank_below: float | None = None
    behind: str | None = None
    scored_in: tuple[str, str] | None = None

    @property
    def gives_probabilities(self) -> bool:
        """Whether links have one."""
        return self.right is not None

    def without_nil(self) -> RankTuned:
        """What is left where the linker decides on NIL."""
        return replace(self, in_kb=None, nil_threshold=None)

    def without_probabilities(self) -> RankTuned:
        """What is left where scores are others."""
        return RankTuned(weight=self.weight)

    def to_dict(self) -> dict[str, Any]:
        """What is written to the file `cfg` of a component."""
        return {
            key: value.to_dict(RANKED) if isinstance(value, Logistic) else value
            for key, value in vars(self).items()
            if value is not None
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> RankTuned:
        """Read what `to_dict` gave; other keys are ignored. Probabilities of another version are dropped."""
        values = {one.name: stored[one.name] for one in fields(cls) if one.name in stored}
        for key in ("right", "in_kb"):
            if key in values:
                values[key] = Logistic.from_dict(values[key], RANKED)
        if values.get("in_kb") is None:
            values.pop("nil_threshold", None)
        if "scored_in" in values:
            values["scored_in"] = tuple(values["scored_in"])
        return cls(**values)


def both_scored_in(ranker: Any) -> tuple[str, str]:
    """What the scores of `ranker` and those of its linker are computed in."""
    own, linkers = (scored_in(one.model.attrs["settings"]["precision"]) for one in (ranker, ranker.linker))
    return own, linkers


def digest_of(linker: Any) -> str:
    """What tells one tuning of a linker from another: the build of its KB, its encoders, what was tuned, the weights in
    force."""
    weights, encoders = linker.name_weights, [linker.fingerprints, linker.mention_fingerprint]
    state = linker.kb.meta["build"], encoders, linker.tuned.to_dict(), weights and weights.as_setting()
    return blake2b(json_dumps(_rounded(state), sort_keys=True).encode(), digest_size=16).hexdigest()


def _rounded(value: Any) -> Any:
    """`value`, as JSON has it, with numbers as they are before and after they are written to a file."""
    if isinstance(value, dict):
        return {key: _rounded(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(own) for own in value]
    return f"{value:.6g}" if isinstance(value, float) else value


def is_doubtful(link: Link, below: float | None) -> bool:
    """Whether the linker is not so sure of a link that it stays as it is: its probability is under `below`, or one of
    the two is not known."""
    return below is None or link.probability is None or link.probability < below


def in_order(links: Sequence[Link], scores: Sequence[np.ndarray], weight: float) -> tuple[list[Link], np.ndarray]:
    """Put the first candidates of each of n mentions into the order of what they score by the ranker, plus `weight`
    times what they score by the linker.

    Args:
        links: What the linker says of each. What a NIL threshold is held against stays that of the linker.
        scores: (c,), of the first candidates of each.
        weight: Of the linker's scores.

    Returns:
        The links, and what the columns `RANKED` say of each (n, 7); zeros for one without candidates.
    """
    evidence = np.zeros((len(links), len(RANKED)))
    ranked = []
    for i, (link, own) in enumerate(zip(links, scores, strict=True)):
        if len(own):
            link, evidence[i] = _in_order(link, own, weight)
        ranked.append(link)
    return ranked, evidence


def scores_by_linker(link: Link, n: int) -> np.ndarray:
    """What the first `n` candidates of a mention score by the linker, (n,)."""
    return np.array([score for _, score in link.candidates[:n]])


def _in_order(link: Link, scores: np.ndarray, weight: float) -> tuple[Link, list[float]]:
    n = len(scores)
    by_linker = scores_by_linker(link, n)
    together = scores + weight * by_linker
    order = np.argsort(-together, kind="stable")
    ranked = [link.candidates[i] for i in order.tolist()] + list(link.candidates[n:])
    held = top_score(link.candidates) if link.confidence is None else link.confidence
    best = together[order]
    evidence = [
        -float(np.logaddexp.reduce(best - best[0])),
        float(best[0] - best[1]) if n > 1 else 0.0,
        float(by_linker[order[0]]),
        float(by_linker[0]),
        float(by_linker[0] - by_linker[1]) if n > 1 else 0.0,
        _log_odds(link.probability),
        float(order[0] == 0),
    ]
    return Link(link.kb_id if link.kb_id == NIL else ranked[0][0], ranked, None, held, link.read), evidence


def _log_odds(probability: float | None) -> float:
    if probability is None:
        return 0.0
    bounded = min(max(probability, SURE), 1 - SURE)
    return float(np.log(bounded / (1 - bounded)))


def decided(links: Sequence[Link], evidence: np.ndarray, tuned: RankTuned) -> list[Link]:
    """Links, with the columns `RANKED` of each (n, 7), with their probabilities, and NIL as was tuned."""
    right, in_kb = (
        [None] * len(links) if fitted is None else fitted.probability(evidence).tolist()
        for fitted in (tuned.right, tuned.in_kb)
    )
    return [_decided(*each, tuned.nil_threshold) for each in zip(links, right, in_kb, strict=True)]


def _decided(link: Link, right: float | None, in_kb: float | None, threshold: float | None) -> Link:
    if not link.candidates:
        return link
    if in_kb is None or threshold is None:
        return link._replace(probability=right)
    kb_id = NIL if in_kb < threshold else link.candidates[0][0]
    return link._replace(kb_id=kb_id, probability=right, confidence=in_kb)
