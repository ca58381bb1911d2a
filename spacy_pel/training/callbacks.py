"""`spacy_pel.refresh_negatives.v1`: when the hard negatives are searched anew, set in `[training.before_update]`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from spacy.language import Language

from ..checks import check_count


@dataclass
class RefreshNegatives:
    """Encodes the KB again, so that hard negatives are those of the model as it is.

    Attributes:
        every: "epoch": at the first step of every epoch; a number: every so many steps.

    Raises:
        PelError: every is neither.
    """

    every: Literal["epoch"] | int = "epoch"
    _latest: int | None = field(default=None, init=False, repr=False)  # epoch, or number of the period of steps

    def __post_init__(self) -> None:
        if not (isinstance(self.every, str) and self.every == "epoch"):
            check_count("[training.before_update]", "every", self.every, least=1, hint=' of steps, or "epoch"')

    def __call__(self, nlp: Language, info: dict[str, Any]) -> None:
        """Refresh the negatives of every linker that is not frozen, if it is time."""
        period = info["epoch"] if self.every == "epoch" else info["step"] // self.every
        if info["step"] and period == self._latest:
            return
        self._latest = period
        frozen = nlp.config["training"]["frozen_components"]
        for name, pipe in nlp.pipeline:
            if hasattr(pipe, "refresh_negatives") and name not in frozen:
                pipe.refresh_negatives()
