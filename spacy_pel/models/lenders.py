"""The kinds of transformer pipe that a listening tower can listen to."""

from __future__ import annotations

from spacy.tokens import Doc

from ..errors import PelError
from .lender import Lender, Pieces
from .lender_curated import CuratedLender
from .lender_transformer import TransformerLender

KINDS: tuple[type[Lender], ...] = (TransformerLender, CuratedLender)
STATES = "trf_data"  # the extension of a Doc that all of them set


def make_lenders(upstream: str) -> list[Lender]:
    """Make a lender of each kind whose package is installed.

    Raises:
        PelError: None is.
    """
    if not Doc.has_extension(STATES):
        Doc.set_extension(STATES, default=None)
    lenders: list[Lender] = []
    missing: list[str] = []
    for kind in KINDS:
        try:
            lenders.append(kind(upstream))
        except ImportError as error:
            missing.append(str(error))
    if not lenders:
        raise PelError(
            "[components.pel_linker.model]: spacy_pel.TransformerListener.v1 needs the package of a transformer pipe: "
            'run `python -m pip install "spacy-pel[spacy-transformers]"`, or for a curated_transformer `python -m pip '
            f'install "spacy-pel[curated-transformers]"` ({"; ".join(missing)}).'
        )
    return lenders


def pieces_of(doc: Doc) -> Pieces:
    """Return the word pieces that a transformer pipe has made of `doc`.

    Raises:
        PelError: None has read it.
    """
    output = getattr(doc._, STATES) if doc.has_extension(STATES) else None
    kind = next((kind for kind in KINDS if kind.has_made(output)), None)
    if kind is None:
        raise PelError(
            f"The Doc {doc.text[:40]!r} was not read by the transformer pipe that pel_linker listens to: keep that "
            "pipe before pel_linker, name it in annotating_components of [training] where it is one of the "
            'frozen_components, and run it over Docs of your own: docs = list(nlp.get_pipe("transformer").pipe(docs)).'
        )
    return kind.pieces(output)
