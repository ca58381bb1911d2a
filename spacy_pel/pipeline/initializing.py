"""What a linker begins its training with: a pretrained encoder and a KB, from the loaders of its config."""

from __future__ import annotations

from collections.abc import Callable

from thinc.api import Model

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..models.encoder import has_encoder
from ..models.encoder_loader import PretrainedEncoder


def load_encoder(model: Model, name: str, loader: Callable | None) -> PretrainedEncoder | None:
    """The pretrained encoder of `loader` for `model`, of the component `name`; None: it keeps the one it has.

    Raises:
        PelError: If there is neither.
    """
    if loader is None and not has_encoder(model):
        raise _missing(name, "encoder_loader", "spacy_pel.HFEncoder.v1")
    return None if loader is None else loader()


def load_kb(kb: KnowledgeBase | None, name: str, loader: Callable | None) -> KnowledgeBase:
    """The KB of `loader` for the component `name`; without a loader, `kb`.

    Raises:
        PelError: If there is neither.
    """
    found = kb if loader is None else loader()
    if found is None:
        raise _missing(name, "kb_loader", "spacy_pel.KBFromDisk.v1")
    return found


def _missing(name: str, key: str, registered: str) -> PelError:
    return PelError(
        f"[initialize.components.{name}] has no {key}: add [initialize.components.{name}.{key}] with @misc = "
        f'"{registered}".'
    )
