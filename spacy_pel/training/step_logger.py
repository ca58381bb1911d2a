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


@dataclass(frozen=True)
class StepLogger:
    """A logger for `[training.logger]`: prints what `spacy.ConsoleLogger.v1` does, and logs every update to a file.

    A line is the JSON object `{"pipe", "step", "seconds", "loss", "gradient_norm"}`: a linker, the number of the step,
    the seconds since training began, with all that came between, and what the latest `Update` of its training has.

    Attributes:
        path: The file.
        progress_bar: Show one.
    """

    path: Path
    progress_bar: bool = True

    def __call__(self, nlp: Language, stdout: IO = sys.stdout, stderr: IO = sys.stderr) -> tuple[Callable, Callable]:
        """Open the file. Return what logs a step and what closes the file, as spaCy wants them."""
        log_to_console, finish_console = console_logger(progress_bar=self.progress_bar)(nlp, stdout, stderr)
        path = Path(self.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8")
        start, steps = perf_counter(), count()

        def log_step(info: dict[str, Any] | None) -> None:
            where = {"step": next(steps), "seconds": round(perf_counter() - start, 3)}
            for name, pipe in nlp.pipeline:
                if update := getattr(getattr(pipe, "session", None), "latest", None):
                    file.write(srsly.json_dumps({"pipe": name, **where, **update._asdict()}) + "\n")
            file.flush()
            log_to_console(info)

        def finish() -> None:
            file.close()
            finish_console()

        return log_step, finish
