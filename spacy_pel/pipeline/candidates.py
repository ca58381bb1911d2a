"""The candidates that a linker finds for gold mentions: each mention is searched for once, and never again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import srsly
from spacy.tokens import Span
from spacy.util import logger

from ..errors import PelError
from ..evaluation.ranking import find_mentions
from ..files.atomic import write_atomically
from ..mentions.gold import GoldMention


class KeptCandidates:
    """What a linker finds for mentions, by the text of their Docs and their places in it."""

    def __init__(self, linker: Any, top_n: int, path: Path | None = None) -> None:
        """Read what the file `path` holds, if it is of this linker, this KB and as many candidates or more.

        Args:
            linker: With its KB, indexed.
            top_n: How many candidates of a mention are kept.
            path: A file, which `write` writes; None: nothing is read or written.

        Raises:
            PelError: The file is broken.
        """
        self._linker, self._top_n, self._path = linker, top_n, path
        self._depth = top_n  # of what is kept
        self._stamp = _stamp(linker)
        self._ids: dict[str, list[str]] = dict(self._read()) if path is not None and path.exists() else {}

    def of(self, mentions: Sequence[GoldMention], *, progress: bool = False) -> list[list[str]]:
        """The ids of the candidates of each of `mentions`, best first. progress: whether to show a bar."""
        digests = {id(doc): _digest(doc.text) for doc in {id(one.span.doc): one.span.doc for one in mentions}.values()}
        keys = [f"{digests[id(one.span.doc)]} {_place(one.span)}" for one in mentions]
        new = {key: mention for key, mention in zip(keys, mentions, strict=True) if key not in self._ids}
        find = lambda spans: self._linker.find(spans, self._depth)  # noqa: E731
        found = find_mentions(find, list(new.values()), desc="Candidates", progress=progress)
        self._ids |= {key: one.found.ids for key, one in zip(new, found, strict=True)}
        return [self._ids[key][: self._top_n] for key in keys]

    def write(self) -> None:
        """Write all to the file, if there is one.

        Raises:
            PelError: It cannot be written.
        """
        if self._path is not None:
            lines: list[dict[str, Any]] = [{"of": self._stamp, "top_n": self._depth}]
            lines += ({"mention": key, "ids": ids} for key, ids in self._ids.items())
            write_atomically(self._path, "".join(srsly.json_dumps(line) + "\n" for line in lines).encode())

    def _read(self) -> Iterator[tuple[str, list[str]]]:
        assert self._path is not None
        try:
            lines: Iterator[Any] = iter(srsly.read_jsonl(self._path))
            head = next(lines)
            if head["of"] == self._stamp and head["top_n"] >= self._top_n:
                self._depth = head["top_n"]
                yield from ((line["mention"], line["ids"]) for line in lines)
            else:
                logger.info("%s holds the candidates of another linker, or fewer: it is written anew", self._path)
        except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
            raise PelError(f"{self._path}: holds no candidates ({error!r}); remove it.") from error


def _stamp(linker: Any) -> str:
    """What decides the candidates: the encoder, the KB as it is, and how the linker searches."""
    kb, settings = linker.require_kb(), linker.settings
    towers = linker.fingerprints, linker.mention_fingerprint
    kb_now = kb.meta["build"], kb.n_rows, kb.n_removed
    how = settings.top_k, settings.vectors, settings.resolve_abbreviations, settings.types, settings.types_by_label
    how = *how, *settings.with_codes, settings.n_probe
    return _digest(repr((towers, kb_now, how, linker.name_weights)))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _place(span: Span) -> str:
    return f"{span.start_char} {span.end_char} {span.label_}"
