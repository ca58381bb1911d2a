"""Whether there is enough to tune on, and what to do where there is not."""

from __future__ import annotations

FEWEST_FOR_WEIGHTS = 50  # mentions in the KB
FEWEST_FOR_THRESHOLD = 20  # NIL mentions, and as many in the KB
OR_NAMES = ", or tune to the names of the KB, without a corpus"


def few_for_weights(n_in_kb: int, *, or_names: bool = True) -> str | None:
    """A sentence where so many mentions in the KB are too few to fit weights of names to. or_names: as below."""
    if n_in_kb >= FEWEST_FOR_WEIGHTS:
        return None
    return (
        f"{n_in_kb} mentions in the KB are too few to say much about the weights of names: they stay near the "
        f"defaults. Annotate {FEWEST_FOR_WEIGHTS} or more{OR_NAMES if or_names else ''}."
    )


def few_for_threshold(n_nil: int, n_in_kb: int, *, or_names: bool = True) -> str | None:
    """A sentence where so many NIL mentions, or mentions in the KB, are too few to tune a threshold on. or_names:
    whether names of the KB could stand for them."""
    fewer, what = min((n_nil, "NIL mentions"), (n_in_kb, "mentions in the KB"))
    if fewer >= FEWEST_FOR_THRESHOLD:
        return None
    return (
        f"{fewer} {what} are too few for a NIL threshold: expect much less of it on other documents. Annotate "
        f"{FEWEST_FOR_THRESHOLD} or more{OR_NAMES if or_names else ''}."
    )
