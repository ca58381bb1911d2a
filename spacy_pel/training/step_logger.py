"""`spacy_pel.StepLogger.v1`: spaCy's console logger, and one line of JSON for every step."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import IO, Any

import srsly
from spacy.language import Language
from spacy.training.loggers import console_logger

from ..checks import check_count
from ..errors import PelError
from ..files.json_lines import parse_object
from ..files.lines import LONGEST_LINE

SECTION = "[training.logger]"


@dataclass(frozen=True)
class StepLogger:
    """A logger for `[training.logger]`: prints what `spacy.ConsoleLogger.v1` does, and logs every update to a file.

    A line is the JSON object `{"pipe", "step", "seconds", "loss", "gradient_norm"}`: a linker or ranker, the number of
    the step, the seconds since training began, with all that came between, and what the latest `Update` of its training
    has.

    With a `hardness_pool` some lines of a linker have "hard_in_best" and "hard_mean_rank" too: the share of the hard
    negatives of the latest batch that are among the best 4 wrong entities of their mentions, whose vectors are those of
    that draw, under the present weights of the entity tower, and their mean rank, over that pool and the hard negatives
    themselves (see `spacy_pel.training.hardness.hardness`); and "updates_since_refresh", how old the vectors were that
    these were searched among. The last of every `hardness_every` steps is such a line: where negatives are refreshed as
    often, at the first, it is the one at which they are oldest. Each of these lines costs the encoding of the pool.

    Attributes:
        path: The file. An older log is replaced, another file is not.
        progress_bar: Show one.
        hardness_pool: How many entities of the KB, drawn once, hard negatives are ranked among; 0: not at all.
        hardness_every: The steps from one such line to the next.
        seed: Of that draw.

    Raises:
        PelError: A number is none of these.
    """

    path: Path
    progress_bar: bool = True
    hardness_pool: int = 0
    hardness_every: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        check_count(SECTION, "hardness_pool", self.hardness_pool, hint=" of entities; 0: hard negatives are not ranked")
        check_count(SECTION, "hardness_every", self.hardness_every, least=1)
        check_count(SECTION, "seed", self.seed)

    def __call__(self, nlp: Language, stdout: IO = sys.stdout, stderr: IO = sys.stderr) -> tuple[Callable, Callable]:
        """Open the file. Return what logs a step and what closes the file, as spaCy wants them.

        Raises:
            PelError: The file cannot be written, or is there and no log of steps.
        """
        file = _new_log(Path(self.path))
        log_to_console, finish_console = console_logger(progress_bar=self.progress_bar)(nlp, stdout, stderr)
        start, steps = perf_counter(), count()

        def log_step(info: dict[str, Any] | None) -> None:
            step = next(steps)
            where = {"step": step, "seconds": round(perf_counter() - start, 3)}
            for name, pipe in nlp.pipeline:
                session = getattr(pipe, "session", None)
                if update := getattr(session, "latest", None):
                    found = {**update._asdict(), **self._hardness(session, step)}
                    file.write(srsly.json_dumps({"pipe": name, **where, **found}) + "\n")
            file.flush()
            log_to_console(info)

        def finish() -> None:
            file.close()
            finish_console()

        return log_step, finish

    def _hardness(self, session: Any, step: int) -> dict[str, float]:
        """How hard the hard negatives of the latest batch are, at the steps that are measured."""
        draw = getattr(session, "latest_draw", None)
        if not self.hardness_pool or (step + 1) % self.hardness_every or draw is None:
            return {}
        from .hardness import hardness  # torch comes with it

        found = hardness(draw, self.hardness_pool, self.seed)
        return {} if found is None else {**found._asdict(), "updates_since_refresh": draw.age}


def _new_log(path: Path) -> IO[str]:
    """The file at `path`, opened to be written."""
    try:
        if not _is_replaceable(path):
            raise PelError(
                f"{SECTION}: path = {path}; this file is no log of steps, and is not replaced; name another."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("w", encoding="utf-8")
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
        raise PelError(f"{SECTION}: path = {path}; it cannot be written ({why}); name another file.") from error


def _is_replaceable(path: Path) -> bool:
    """Whether `path` is free, or a file that is empty or an older log."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        first = file.readline(LONGEST_LINE)
    try:
        return not first or {"pipe", "step", "seconds"} <= parse_object(first).keys()
    except PelError:
        return False
