"""Work that may end its process: each is done in a fork of one that has imported all, and has started no thread."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path

DONE, FAILED, TRACEBACK = 0, 1, 70
MODULES = ("models.storage", "models.encoder_loader", "training.session", "pipeline.tuning", "pipeline.verifying")

for module in MODULES:  # once, and not in every fork
    import_module(f"spacy_pel.{module}")
for model in ("bert.modeling_bert", "bert.tokenization_bert_fast"):
    import_module(f"transformers.models.{model}")


def forked(work: Callable[[], object], log: Path | None = None) -> int:
    """The exit status of `work`, done in a fork that prints to `log`, or where this process does: less than 0 if a
    signal ended it. What this process does at its exit, the fork does not."""
    flush()
    child = os.fork()
    if not child:
        code = TRACEBACK
        try:
            with ExitStack() as stack:
                if log is not None:
                    file = stack.enter_context(log.open("w"))
                    stack.enter_context(redirect_stdout(file))
                    stack.enter_context(redirect_stderr(file))
                code = _status(work)
                flush()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def flush() -> None:
    """Write what is printed and still in memory, so that no fork writes it again."""
    sys.stdout.flush()
    sys.stderr.flush()


def _status(work: Callable[[], object]) -> int:
    try:
        work()
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or DONE
        print(stop.code, file=sys.stderr)
        return FAILED
    except BaseException:
        traceback.print_exc()
        return TRACEBACK
    return DONE
