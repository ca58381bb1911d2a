"""Whether the KB has a mention, and whether its first candidate is right: probabilities from what a search says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..mentions.ranked import RankedMention
from ..search.evidence import EVIDENCE
from .calibration import fit
from .newton import CONSTANT, curve, fit_logistic_weights, platt_targets, spreads
from .nil import Outcomes

RIDGE = 100.0  # of the squared weights of columns, and of products of two, with variance 1
EDGE = 0.02  # of the mentions on either side: evidence that is further out than theirs counts as theirs
FAR = 4.0  # standard deviations from the mean, where another version has not noted what that is
FREE = 1e-8  # the ridge of a weight that has none


class Logistic(NamedTuple):
    """P(y) = 1 / (1 + exp(-(intercept + weights · z + z · pairs · z))), where z is the evidence in standard deviations
    from its mean.

    Attributes:
        means: (e,), in the order of the columns.
        spreads: (e,), over 0.
        least: (e,), the smallest z; evidence below counts as this, since a curve says little of what it was fitted to
            few mentions of.
        most: (e,), the largest; evidence above counts as this.
        weights: (e,).
        pairs: (e, e), symmetric: what two columns say together.
        intercept: The log-odds of a mention whose evidence is the mean.
    """

    means: np.ndarray
    spreads: np.ndarray
    least: np.ndarray
    most: np.ndarray
    weights: np.ndarray
    pairs: np.ndarray
    intercept: float

    def shares(self, evidence: np.ndarray) -> np.ndarray:
        """What each column adds to the log-odds (…, e); what two say together is shared between them."""
        z = ((evidence - self.means) / self.spreads).clip(self.least, self.most)
        return self.weights * z + z * (z @ self.pairs)

    def probability(self, evidence: np.ndarray) -> np.ndarray:
        """Of the evidence (…, e), (…)."""
        return curve(self.intercept + self.shares(evidence).sum(axis=-1))

    def to_dict(self, columns: Sequence[str] = EVIDENCE) -> dict[str, Any]:
        """As JSON, with the names of the `columns`."""
        values = {key: np.asarray(value).tolist() for key, value in self._asdict().items()}
        return {"columns": list(columns), **values}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], columns: Sequence[str] = EVIDENCE) -> Logistic | None:
        """Read what `to_dict` gave; None for other `columns`, of another version."""
        if stored["columns"] != list(columns):
            return None
        widest = np.full(len(columns), FAR)
        stored = {"least": -widest, "most": widest, **stored}  # older versions wrote neither
        arrays = {key: np.array(stored[key]) for key in cls._fields[:-1]}
        return cls(**arrays, intercept=stored["intercept"])


class Decision(NamedTuple):
    """What `tune-nil` fits.

    Attributes:
        in_kb: Whether the KB has what the mention means. A NIL threshold is held against it.
        right: Whether the first candidate is correct: `ent._.kb_prob`.
    """

    in_kb: Logistic
    right: Logistic

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {key: one.to_dict() for key, one in self._asdict().items()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Decision | None:
        """Read what `to_dict` gave; None for that of another version."""
        in_kb, right = (Logistic.from_dict(stored[key]) for key in cls._fields)
        return None if in_kb is None or right is None else cls(in_kb, right)


def fit_decision(evidence: np.ndarray, nil: np.ndarray, right: np.ndarray) -> Decision:
    """Fit both to mentions that have candidates.

    Args:
        evidence: (n, e), see `spacy_pel.search.evidence`.
        nil: (n,) bool, whether the KB has none of their entities.
        right: (n,) bool, whether the first candidate is correct.
    """
    return Decision(fit_logistic(evidence, ~nil), fit_logistic(evidence, right))


def fit_logistic(evidence: np.ndarray, positive: np.ndarray) -> Logistic:
    """The curve of greatest likelihood with a ridge: `RIDGE` / 2 · Σ weight², where columns and products of two have
    variance 1; the intercept is free. Targets are Platt's (1999). A ridge leaves probabilities too near to each other
    where there are few mentions, so the log-odds are calibrated after it.

    Args:
        evidence: (n, e).
        positive: (n,) bool.
    """
    means, widths = evidence.mean(axis=0, dtype=np.float64), spreads(evidence)
    z = (evidence - means) / widths
    least, most = np.quantile(z, (EDGE, 1 - EDGE), axis=0)
    z = z.clip(least, most)
    one, other = np.triu_indices(z.shape[1])
    products = z[:, one] * z[:, other]
    varies = np.sqrt(products.var(axis=0)).clip(CONSTANT)
    columns = np.column_stack([z, (products - products.mean(axis=0)) / varies, np.ones(len(z))])
    ridge = np.append(np.full(columns.shape[1] - 1, RIDGE), FREE)
    weights = fit_logistic_weights(columns, platt_targets(positive), ridge)
    calibration = fit(columns @ weights, positive)
    weights = calibration.slope * weights
    weights[-1] += calibration.intercept
    own, together, intercept = weights[: len(means)], weights[len(means) : -1] / varies, weights[-1]
    pairs = np.zeros((len(means), len(means)))
    pairs[one, other] = together / 2
    free = float(intercept - together @ products.mean(axis=0))
    return Logistic(means, widths, least, most, own, pairs + pairs.T, free)


def strongest(
    logistic: Logistic, evidence: np.ndarray, n: int = 3, columns: Sequence[str] = EVIDENCE
) -> list[tuple[str, float]]:
    """The `n` columns of one mention (e,) that add most to the log-odds, or take most from them, and how much."""
    shares: Sequence[float] = logistic.shares(evidence).tolist()
    return sorted(zip(columns, shares, strict=True), key=lambda one: -abs(one[1]))[:n]


class Deciding:
    """Annotated mentions and their evidence (n, e), to fit decisions to; those without candidates stay out of it."""

    def __init__(self, outcomes: Outcomes, evidence: np.ndarray) -> None:
        self._outcomes, self._evidence = outcomes, evidence
        self._there = np.isfinite(outcomes.scores)

    def in_kb(self, inside: np.ndarray) -> np.ndarray:
        """The probability that the KB has each mention (n,), fitted to those at the places `inside` (d,); -inf without
        candidates."""
        own = inside[self._there[inside]]
        fitted = fit_logistic(self._evidence[own], ~self._outcomes.nil[own])
        return np.where(self._there, fitted.probability(self._evidence), -np.inf)

    def fit(self) -> Decision:
        """Fitted to all."""
        there, nil, rank = self._there, self._outcomes.nil, self._outcomes.rank
        return fit_decision(self._evidence[there], nil[there], rank[there] == 1)

    def decided(self, ranked: Sequence[RankedMention], decision: Decision) -> list[RankedMention]:
        """The mentions with the probabilities of a decision; 0 without candidates."""
        values = [np.where(self._there, one.probability(self._evidence), 0.0).tolist() for one in decision]
        return [
            mention._replace(probability=right, confidence=in_kb)
            for mention, in_kb, right in zip(ranked, *values, strict=True)
        ]
