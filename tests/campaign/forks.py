"""Tries that may end their process: each is a fork of one that has imported all, and has started no thread."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path

DONE, TRACEBACK = 0, 70
MODULES = ("models.storage", "models.encoder_loader", "training.session", "pipeline.tuning", "pipeline.verifying")

for module in MODULES:  # once, and not in every try
    import_module(f"spacy_pel.{module}")
for model in ("bert.modeling_bert", "bert.tokenization_bert_fast"):
    import_module(f"transformers.models.{model}")


def forked(work: Callable[[], object], log: Path) -> int:
    """The exit status of `work`, done in a fork that prints to `log`: less than 0 if a signal ended it."""
    child = os.fork()
    if not child:
        code = TRACEBACK
        try:
            with log.open("w") as file, redirect_stdout(file), redirect_stderr(file):
                try:
                    work()
                    code = DONE
                except SystemExit as stop:
                    code = stop.code if isinstance(stop.code, int) else DONE
                except BaseException:
                    traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
