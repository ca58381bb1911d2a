"""The option `--codes`: the codes of linked entities in other vocabularies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PelError

if TYPE_CHECKING:
    from ..kb.knowledge_base import KnowledgeBase

CODES = Annotated[
    str | None,
    typer.Option("--codes", help="Vocabularies whose codes the links get, as in ICD10CM,SNOMEDCT_US", metavar="NAMES"),
]


def vocabularies_given(kb: KnowledgeBase, text: str | None) -> list[str]:
    """The vocabularies in `text`, with commas between them; none where it is None.

    Raises:
        PelError: There are none in it, or no entity of the KB has a code of one of them.
    """
    given = list(dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip()))
    if text is not None and not given:
        raise PelError(f'--codes "{text}" names no vocabulary; write some, as in ICD10CM,SNOMEDCT_US.')
    kb.check_vocabularies(given)
    return given
