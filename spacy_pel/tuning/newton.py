"""The weights of greatest likelihood of a logistic curve, with a ridge."""

from __future__ import annotations

import numpy as np

STEPS, TOLERANCE = 100, 1e-10
CONSTANT = 1e-6  # a standard deviation under it is none


def curve(odds: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-log-odds)), without an overflow."""
    return 1 / (1 + np.exp(-np.clip(odds, -700, 700)))


def spreads(columns: np.ndarray) -> np.ndarray:
    """The standard deviations of `columns` (n, …), over their first axis; 1 of one that is constant."""
    found = columns.std(axis=0, dtype=np.float64)
    return np.where(found > CONSTANT, found, 1.0)


def platt_targets(positive: np.ndarray) -> np.ndarray:
    """Those of Platt (1999) for `positive` (n,) bool: (n⁺ + 1) / (n⁺ + 2) and 1 / (n⁻ + 2), so that weights stay finite
    where a column parts the two."""
    n_positive = int(positive.sum())
    return np.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (len(positive) - n_positive + 2))


def log_odds(targets: np.ndarray) -> float:
    """The log-odds of the mean of `targets` (n,)."""
    share = float(targets.mean())
    return float(np.log(share / (1 - share)))


def fit_logistic_weights(columns: np.ndarray, targets: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """The weights (c,) with the least Σ log(1 + exp(o)) - target · o + Σ ridge · weight² / 2, o = columns · weights, by
    Newton's method.

    Args:
        columns: (n, c), of which the last is 1.
        targets: (n,), in (0, 1).
        ridge: (c,), over 0.
    """

    def loss(weights: np.ndarray) -> float:
        odds = columns @ weights
        return float((np.logaddexp(0, odds) - targets * odds).sum() + ridge @ weights**2 / 2)

    weights = np.zeros(columns.shape[1])
    weights[-1] = log_odds(targets)
    for _ in range(STEPS):
        probabilities = curve(columns @ weights)
        gradient = columns.T @ (probabilities - targets) + ridge * weights
        hessian = columns.T @ (columns * (probabilities * (1 - probabilities))[:, None]) + np.diag(ridge)
        step = np.linalg.solve(hessian, gradient)
        while loss(weights - step) > loss(weights) and np.abs(step).max() >= TOLERANCE:  # too far
            step = step / 2
        weights -= step
        if np.abs(step).max() < TOLERANCE:
            break
    return weights
