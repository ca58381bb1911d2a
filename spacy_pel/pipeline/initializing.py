"""What a linker begins its training with: a pretrained encoder and a KB, from the loaders of its config."""

from __future__ import annotations

from collections.abc import Callable

from spacy.language import Language
from thinc.api import Model

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..models.bi_encoder import has_encoder, set_encoder


def load_encoder(model: Model, name: str, loader: Callable | None, nlp: Language | None) -> None:
    """Give `model`, of the component `name` of `nlp`, the pretrained encoder of `loader`; None keeps the one it has.

    Raises:
        PelError: If there is neither.
    """
    if loader is not None:
        set_encoder(model, loader(), nlp)
    elif not has_encoder(model):
        raise _missing(name, "encoder_loader", "spacy_pel.HFEncoder.v1")


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
