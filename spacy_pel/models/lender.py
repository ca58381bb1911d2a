"""What a listening tower needs of a transformer pipe, whatever package it is of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from spacy.tokens import Doc
from thinc.api import Model


@dataclass(frozen=True)
class Pieces:
    """The word pieces of a Doc.

    Attributes:
        states: (p, width): the last hidden state of each, on the device of the pipe.
        places: (a,) int: the places among them of those of the first token, then of the second, and so on.
        lengths: (t,) int: how many `places` each token has.
    """

    states: Any
    places: np.ndarray
    lengths: np.ndarray


@dataclass(frozen=True)
class Lent:
    """What a pipe has made of some Docs in its own update.

    Attributes:
        outputs: For each Doc what the pipe sets on one that it annotates.
        give_back: Hands the pipe for each Doc the gradients (p, width) of its states. To be called once.
    """

    outputs: Sequence[Any]
    give_back: Callable[[Sequence[Any]], object]


class Lender(Protocol):
    """A kind of pipe, as one tower sees it.

    Args:
        upstream: The name of the pipe, or "*" for any.

    Attributes:
        listener: The layer by which a pipe of this kind finds that the tower listens.

    Raises:
        ImportError: The package of the pipe is not installed.
    """

    listener: Model

    def __init__(self, upstream: str) -> None: ...

    def lend(self, docs: Sequence[Doc]) -> Lent | None:
        """Return what a pipe of this kind has made of `docs`; None if none has made an update.

        Raises:
            ValueError: It has read other Docs.
        """
        ...

    @staticmethod
    def has_made(output: Any) -> bool:
        """Say whether it was a pipe of this kind that set `output` on a Doc."""
        ...

    @staticmethod
    def pieces(output: Any) -> Pieces:
        """Return what is in such an output."""
        ...
