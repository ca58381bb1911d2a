"""How wide the states are that a transformer pipe lends."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import Model

from ..errors import PelError
from .lenders import STATES, pieces_of


def width_of_states(tower: Model, nlp: Language | None) -> int:
    """Return the number of dimensions of the states of the pipe in `nlp` that a listening tower listens to: of a Doc
    that the pipe reads here.

    Raises:
        PelError: There is no such pipe, it is not initialised, there are several, or another one that is nearer
            replaces its states.
    """
    name, pipe = _pipe_of(tower, nlp)
    try:
        (doc,) = pipe.pipe([Doc(pipe.vocab, words=["a"])])
    except Exception as error:  # the packages raise whatever they meet without weights or vocabulary
        raise _refused(
            tower,
            f"finds the transformer pipe {name!r}, which is not initialised: initialise the pipeline as a whole; a "
            f"frozen pipe needs a `source` ({error})",
        ) from error
    return pieces_of(doc).states.shape[1]


def _pipe_of(tower: Model, nlp: Language | None) -> tuple[str, Any]:
    pipes: list[tuple[str, Any]] = [] if nlp is None else nlp.components  # a frozen one is disabled meanwhile
    own = [(name, pipe) for name, pipe in pipes if _is_heard(pipe, tower)]
    if not own:
        which = "one" if tower.attrs["upstream"] == "*" else "one of that name"
        raise _refused(tower, f"finds no transformer pipe: put {which} before pel_linker")
    if len(own) > 1:
        names = ", ".join(name for name, _ in own)
        raise _refused(
            tower, f"finds several transformer pipes: {names}. Name the last one that stands before pel_linker"
        )
    assert nlp is not None
    name, pipe = own[0]
    if nearer := _between(name, tower, nlp):
        raise _refused(
            tower,
            f"would read the states of {nearer[-1]!r}, which stands between {name!r} and pel_linker: name that one, or "
            "put it elsewhere",
        )
    return name, pipe


def _between(name: str, tower: Model, nlp: Language) -> list[str]:
    """The pipes behind that of this `name`, and before the component of `tower`, that set states on Docs."""
    before = [other for other, _ in takewhile(lambda each: not _is_of(tower, each[1]), nlp.components)]
    behind = before[before.index(name) + 1 :] if name in before else []
    return [other for other in behind if f"doc._.{STATES}" in nlp.get_pipe_meta(other).assigns]


def _is_of(tower: Model, pipe: Any) -> bool:
    model = getattr(pipe, "model", None)
    return isinstance(model, Model) and any(node is tower for node in model.walk())


def _is_heard(pipe: Any, tower: Model) -> bool:
    return any(node is listener for listener in getattr(pipe, "listeners", ()) for node in tower.walk())


def _refused(tower: Model, why: str) -> PelError:
    listener = f"spacy_pel.TransformerListener.v1 (upstream = {tower.attrs['upstream']!r})"
    return PelError(f"[components.pel_linker.model]: {listener} {why}.")
