"""What `tune-lexical` and `tune-nil` are given: annotated mentions, or texts to place names of the KB into."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from spacy.language import Language

from ..errors import PelError

DEV = Annotated[
    Path | None,
    typer.Argument(
        help="A corpus with gold mentions, .spacy or .jsonl [default: names of the KB stand for them]", metavar="[DEV]"
    ),
]
TEXTS = Annotated[
    Path | None,
    typer.Option(
        "--texts", help="Without DEV: texts to place the names into (.txt and .jsonl: one a line; .spacy), unannotated"
    ),
]
SEED = Annotated[int, typer.Option("--seed", min=0, help="Without DEV: of the draw of names")]


@contextmanager
def to_tune_on(nlp: Language, dev: Path | None, texts: Path | None) -> Iterator[dict[str, Any]]:
    """The arguments `docs` and `texts` of the tuning; an error in the block names the corpus.

    Raises:
        PelError: If both are given.
    """
    from ..components import read_upstream
    from ..corpora.gold_corpus import read_gold
    from ..corpora.plain_texts import read_plain

    if dev is not None and texts is not None:
        raise PelError(f"--texts {texts} is for tuning without annotated mentions: leave it out, or leave out {dev}")
    docs = None if dev is None else read_upstream(nlp, read_gold(dev, nlp))
    plain = () if texts is None else list(read_plain(texts, nlp))
    try:
        yield {"docs": docs, "texts": plain}
    except PelError as error:
        raise PelError(f"{dev}: {error}" if dev is not None else f"names of the KB: {error}") from error
