"""`spacy_pel.refresh_negatives.v1`: when the hard negatives are searched anew, set in `[training.before_update]`."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise, repeat
from typing import Any, Literal

from spacy.language import Language
from thinc.api import Config

from ..checks import check_count, is_number, refused

SECTION, KEY = "[training.before_update]", "every"


@dataclass
class RefreshNegatives:
    """Encodes the KB again, so that hard negatives are those of the model as it is: at the first step, and then as
    `every` says. The encoder changes most in its first steps, so a schedule that begins with short gaps keeps negatives
    hard at less cost than a short gap throughout. At step `max_steps` of `[training]` there is none: it is the last, at
    the rate that schedules end with, mostly 0.

    Attributes:
        every: "epoch": at the first step of every epoch. A number: every so many steps. A list: at these steps too,
            ascending; `[0]`: at the first one only, so that negatives are those of the encoder as it was. A schedule
            of thinc: its values, one after the other, are the steps from one refresh to the next.
        sample: Encode so many entities, drawn anew each time, and take hard negatives from these: a refresh then costs
            as much whatever the size of the KB. 0: all. A list: of the first refresh, of the second and so on; its last
            number of all that follow.

    Raises:
        PelError: every is none of these, a value of the schedule is under 1, or a sample is under 0.
    """

    every: Literal["epoch"] | int | list[int] | Generator = "epoch"
    sample: int | list[int] = 0
    _epoch: int | None = field(default=None, init=False, repr=False)  # of the latest refresh
    _to_come: Iterator[int] = field(default_factory=lambda: iter(()), init=False, repr=False)  # steps with a refresh
    _next: int | None = field(default=None, init=False, repr=False)
    _samples: Iterator[int] = field(default_factory=lambda: iter(()), init=False, repr=False)  # of refreshes to come

    def __post_init__(self) -> None:
        for one in self._sample_list:
            check_count(SECTION, "sample", one, hint=", or a list of such")
        if isinstance(self.every, list):
            _check_steps(self.every)
        elif not isinstance(self.every, Generator) and self.every != "epoch":
            hint = ' of steps, or "epoch", or a list of steps, or a schedule'
            check_count(SECTION, KEY, self.every, least=1, hint=hint)

    def __call__(self, nlp: Language, info: dict[str, Any]) -> None:
        """Refresh the negatives of every linker that is not frozen, if it is time."""
        if not self._is_time(info["step"], info["epoch"]):
            return
        training = Config(nlp.config).interpolate()["training"]
        if 0 < (training.get("max_steps") or 0) <= info["step"]:
            return
        if not info["step"]:
            self._samples = chain(self._sample_list, repeat(self._sample_list[-1]))
        sample = next(self._samples, self._sample_list[-1])
        frozen = training["frozen_components"]
        for name, pipe in nlp.pipeline:
            if hasattr(pipe, "refresh_negatives") and name not in frozen:
                pipe.refresh_negatives(sample)

    @property
    def _sample_list(self) -> list[int]:
        return (self.sample or [0]) if isinstance(self.sample, list) else [self.sample]

    def _is_time(self, step: int, epoch: int) -> bool:
        if self.every == "epoch":
            is_new, self._epoch = not step or epoch != self._epoch, epoch
            return is_new
        if not step:
            self._to_come = accumulate(self._gaps())
        elif self._next is None or step < self._next:
            return False
        self._next = next((later for later in self._to_come if later > step), None)
        return True

    def _gaps(self) -> Iterable[int]:
        """The steps from each refresh to the next."""
        if isinstance(self.every, list):
            return [after - before for before, after in pairwise([0, *self.every])]
        if isinstance(self.every, Generator):
            return map(_checked_gap, self.every)
        assert isinstance(self.every, int)
        return repeat(self.every)


def _check_steps(steps: list[int]) -> None:
    are_counts = all(type(step) is int and step >= 0 for step in steps)
    if not steps or not are_counts or any(before >= after for before, after in pairwise(steps)):
        raise refused(SECTION, KEY, steps, "give the numbers of steps from 0 on, ascending, each a whole number")


def _checked_gap(value: Any) -> int:
    if not is_number(value, least=1):
        raise refused(SECTION, KEY, value, "the schedule gives the steps to the next refresh; make it at least 1")
    return int(value)
