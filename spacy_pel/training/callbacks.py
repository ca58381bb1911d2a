"""`spacy_pel.refresh_negatives.v1`: when the hard negatives are searched anew, set in `[training.before_update]`."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from spacy.language import Language

from ..errors import PelError


def make_refresh_negatives(every: Literal["epoch"] = "epoch") -> Callable[[Language, dict[str, Any]], None]:
    """Encode the KB again at the first step of every epoch, so that hard negatives are those of the model as it is."""
    if every != "epoch":
        raise PelError(f"[training.before_update]: every is {every!r}; it can be 'epoch'.")
    return partial(_refresh, {})


def _refresh(last: dict[str, int], nlp: Language, info: dict[str, Any]) -> None:
    if info["step"] == 0 or info["epoch"] != last.get("epoch"):
        last["epoch"] = info["epoch"]
        frozen = nlp.config["training"]["frozen_components"]
        for name, pipe in nlp.pipeline:
            if hasattr(pipe, "refresh_negatives") and name not in frozen:
                pipe.refresh_negatives()
