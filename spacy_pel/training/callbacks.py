"""`spacy_pel.refresh_negatives.v1`: when the hard negatives are searched anew, set in `[training.before_update]`."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from spacy.language import Language

from ..errors import PelError


def make_refresh_negatives(every: Literal["epoch"] | int = "epoch") -> Callable[[Language, dict[str, Any]], None]:
    """Encode the KB again, so that hard negatives are those of the model as it is: at the first step of every epoch, or
    every `every` steps."""
    if every != "epoch" and (not isinstance(every, int) or every < 1):
        raise PelError(f"[training.before_update]: every is {every!r}; it can be 'epoch' or a number of steps.")
    return partial(_refresh, {}, every)


def _refresh(last: dict[str, int], every: Literal["epoch"] | int, nlp: Language, info: dict[str, Any]) -> None:
    period = info["epoch"] if every == "epoch" else info["step"] // every
    if info["step"] == 0 or period != last.get("period"):
        last["period"] = period
        frozen = nlp.config["training"]["frozen_components"]
        for name, pipe in nlp.pipeline:
            if hasattr(pipe, "refresh_negatives") and name not in frozen:
                pipe.refresh_negatives()
