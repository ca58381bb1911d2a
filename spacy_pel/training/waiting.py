"""What a training waits for, and says once where it does not come."""

from __future__ import annotations

import warnings

UPDATES = 50  # without any mention that could be learnt from, before a training says so
RATES = 5  # updates at a learn rate of 0 at the beginning, before a training says so
BATCHES = 20  # without any mention that a ranker has scored, before a training says so


class WaitingFor:
    """Warns once where something has not come in the first `n` times that it could have.

    Args:
        n: How many times.
        warning: What to say then.
    """

    def __init__(self, n: int, warning: str) -> None:
        self._left, self._warning = n, warning

    def __call__(self, came: bool) -> None:
        """Note whether it has come this time."""
        if came:
            self._left = 0
        elif self._left:
            self._left -= 1
            if not self._left:
                warnings.warn(self._warning, stacklevel=3)


def waiting_for_mentions(factory: str) -> WaitingFor:
    """What waits, update by update, for the first mention that a `factory` learns from."""
    return WaitingFor(
        UPDATES,
        f"{factory} has learnt nothing in its first {UPDATES} updates: none of their mentions has an id of the KB. "
        "Check the kb_id of the mentions in the training corpus, and where use_gold_ents = false, that the entities "
        "that the pipeline finds are mentions of it.",
    )


def waiting_for_rate(factory: str) -> WaitingFor:
    """What waits, update by update, for the first learn rate of a `factory` over 0."""
    return WaitingFor(
        RATES,
        f"{factory} has learnt nothing in its first {RATES} updates: the learn rate of the optimizer is 0. A warm-up "
        "begins so; call optimizer.step_schedules() after each update, as `spacy train` does.",
    )


def waiting_for_targets(path: str) -> WaitingFor:
    """What waits, batch by batch, for the first mention that the file of a ranker at `path` has scores of."""
    return WaitingFor(
        BATCHES,
        f"[components.pel_linker.distillation]: {path} has scores of no mention in the first {BATCHES} batches, so "
        "that nothing is learnt of the ranker: write it with `spacy pel distil` of the texts of the training corpus, "
        "whose mentions are told by the characters around them.",
    )


def waiting_for_refresh() -> WaitingFor:
    """What waits, update by update, for the first refresh of hard negatives."""
    return WaitingFor(
        UPDATES,
        f"The hard negatives are {UPDATES} updates old and may not be hard any more: the KB was not encoded again. Set "
        '[training.before_update] to @callbacks = "spacy_pel.refresh_negatives.v1", or call '
        "linker.refresh_negatives() from time to time.",
    )
