"""`spacy_pel.StepLogger.v1`: spaCy's console logger, and one line of JSON for every step."""

import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import IO, Any

import srsly
from spacy.language import Language
from spacy.training.loggers import console_logger


def make_step_logger(path: Path, progress_bar: bool = True) -> Callable:
    """A logger for `[training.logger]`: writes `{"pipe", "step", "seconds", "loss", "gradient_norm"}` of every
    update of every linker to the file at `path`, one a line, beside what `spacy.ConsoleLogger.v1` prints.

    seconds: since training began, with all that came between. loss, gradient_norm: see `PelLinker.latest_update`.
    """
    console = console_logger(progress_bar=progress_bar)

    def setup(nlp: Language, stdout: IO = sys.stdout, stderr: IO = sys.stderr) -> tuple[Callable, Callable]:
        log_to_console, finish_console = console(nlp, stdout, stderr)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115 - `finish` closes it
        start, steps = perf_counter(), count()

        def log_step(info: dict[str, Any] | None) -> None:
            where = {"step": next(steps), "seconds": round(perf_counter() - start, 3)}
            for name, pipe in nlp.pipeline:
                if update := getattr(pipe, "latest_update", None):
                    file.write(srsly.json_dumps({"pipe": name, **where, **update._asdict()}) + "\n")
            file.flush()
            log_to_console(info)

        def finish() -> None:
            file.close()
            finish_console()

        return log_step, finish

    return setup
