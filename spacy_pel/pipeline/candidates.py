"""The candidates that a linker finds for gold mentions: each mention is searched for once, and never again."""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import srsly
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import logger

from ..errors import PelError
from ..evaluation.ranking import find_mentions
from ..files.atomic import write_atomically
from ..files.locks import locked
from ..kb.version import kb_version, vectors_version
from ..mentions.abbreviations import long_forms
from ..mentions.gold import GoldMention, gold_mentions, with_successors
from ..models.listener import listens
from ..search.search import Found

# What a linker reads, and what is kept of it, of this version
READ = "long forms and other names, with the text, by the mentions of the Doc"
BY_ANOTHER = "by_another"
MOST_KEPT = 1_000_000  # mentions, about 400 bytes each


class Candidates(NamedTuple):
    """What a linker found for a mention.

    Attributes:
        ids: The ids, best first.
        read: The text that it read in place of the mention's own; None where it read that.
    """

    ids: list[str]
    read: str | None


class KeptCandidates:
    """What a linker finds for mentions, by the text of their Docs, their places in it and what else is read of a Doc:
    its other mentions, and its abbreviations. The first `MOST_KEPT` are kept, which bounds
    memory and file where a corpus has new Docs in every epoch; others are searched each time.

    Attributes:
        path: The file that was named; None: none.
    """

    def __init__(self, linker: Any, top_n: int, path: Path | None = None, found_by: Any | None = None) -> None:
        """Read what the file `path` holds, if it is of this linker, this KB and as many candidates or more.

        Args:
            linker: With its KB, indexed.
            top_n: How many candidates of a mention are kept.
            path: A file, to which goes what is found as soon as it is; None: nothing is read or written.
            found_by: Another linker that finds them in the place of `linker`. Its file is never written anew, and gets
                nothing of what `linker` finds of mentions that it lacks.

        Raises:
            PelError: The file is broken, or has what another linker found for another `linker` than this, or fewer.
                Half a line at its end, as a killed training leaves it, is passed over.
        """
        self._linker, self._top_n, self._path, self.path = linker, top_n, path, path
        self._finder = found_by or linker
        self._by_another = found_by is not None  # whether another linker fills the file
        self._depth = top_n  # of what is kept
        self._goes_on = False  # whether the file has what is kept, in whole lines, so that more can be appended
        self._stamp = _stamp(linker)
        self._kept: dict[str, Candidates] = dict(self._read()) if path is not None and path.exists() else {}

    def lacking(self, mentions: Sequence[GoldMention]) -> list[GoldMention]:
        """Those of `mentions` that have none."""
        return [one for key, one in zip(self._keys(mentions), mentions, strict=True) if key not in self._kept]

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Have the file, which is made if there is none, for this process as long as the block takes.

        Raises:
            PelError: Another process has it, or it cannot be written.
        """
        assert self._path is not None
        with self._alone():
            if not self._goes_on:
                self._write(self._path)
        with self._alone():
            yield

    def of(self, mentions: Sequence[GoldMention], *, progress: bool = False) -> list[Candidates]:
        """The candidates of each of `mentions`. progress: whether to show a bar.

        Raises:
            PelError: The file cannot be written.
        """
        keys = self._keys(mentions)
        new = {key: mention for key, mention in zip(keys, mentions, strict=True) if key not in self._kept}
        known = {key: self._kept[key] for key in keys if key in self._kept}
        waiting = iter(new)

        def find(spans: list[Span]) -> Sequence[Found]:
            found = self._finder.find(spans, self._depth)
            own = {key: _candidates(*one) for key, *one in zip(islice(waiting, len(spans)), spans, found, strict=True)}
            known.update(own)
            self._keep(own)
            return found

        find_mentions(find, list(new.values()), desc="Candidates", progress=progress)
        return [known[key]._replace(ids=known[key].ids[: self._top_n]) for key in keys]

    def _keys(self, mentions: Sequence[GoldMention]) -> list[str]:
        """Under what each is kept."""
        docs = {id(one.span.doc): one.span.doc for one in mentions}
        digests = {key: self._read_of(doc) for key, doc in docs.items()}
        return [f"{digests[id(one.span.doc)]} {_place(one.span)}" for one in mentions]

    def _read_of(self, doc: Doc) -> str:
        """A digest of all that decides how the mentions of a Doc are read."""
        linked_in = self._linker.reading.linked_in
        if linked_in is None:
            return _digest(doc.text)
        forms = sorted((start, end, long.text) for (start, end), long in long_forms(doc).items())
        return _digest(repr((doc.text, sorted(map(_place, linked_in(doc))), forms)))

    def _keep(self, found: dict[str, Candidates]) -> None:
        """Keep what was `found` for mentions that are new, as far as there is room, in the file too."""
        kept = dict(islice(found.items(), max(MOST_KEPT - len(self._kept), 0)))
        self._kept |= kept
        if self._path is None or not kept:
            return
        if self._by_another and self._finder is self._linker:
            warnings.warn(
                f"{self._path}, which another linker has filled, lacks candidates of mentions that are trained on: "
                f"{self._linker.name} finds these itself. Run `spacy pel candidates` for the whole training corpus.",
                stacklevel=2,
            )
            self._path = None
            return
        goes_on, self._goes_on = self._goes_on, False  # where this is interrupted, the file may end with half a line
        if goes_on:
            self._append(self._path, kept)
            self._goes_on = True
        else:
            self._write(self._path)

    def _write(self, path: Path) -> None:
        write_atomically(path, self._head + _lines(self._kept))
        self._goes_on = True

    def _append(self, path: Path, kept: dict[str, Candidates]) -> None:
        """Append to the file, unless it is another one by now: then nothing is written any more."""
        try:
            with open(path, "r+b", opener=_appending) as file:
                if file.readline() == self._head:
                    file.write(_lines(kept))
                    return
        except FileNotFoundError:
            pass
        except OSError as error:
            raise PelError(f"{path} cannot be written: {error.strerror}; name another file.") from error
        logger.info("%s was removed, or is that of another training: candidates are not written any more", path)
        self._path = None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        assert self._path is not None
        with locked(self._path) as free:
            if not free:
                raise PelError(f"{self._path}: another process finds candidates for it; wait until it has ended.")
            yield

    @property
    def _head(self) -> bytes:
        by_another = {BY_ANOTHER: True} if self._by_another else {}
        return f"{srsly.json_dumps({'of': self._stamp, 'top_n': self._depth, **by_another})}\n".encode()

    def _read(self) -> Iterator[tuple[str, Candidates]]:
        assert self._path is not None
        try:
            with self._path.open("rb") as file:
                first = file.readline()
                head: Any = srsly.json_loads(first)
                fits = head["of"] == self._stamp and head["top_n"] >= self._top_n
                self._check_finder(head.get(BY_ANOTHER, False), fits)
                if not fits:
                    logger.info("%s holds the candidates of another linker, or fewer: it is written anew", self._path)
                    return
                self._depth = head["top_n"]
                self._goes_on = first == self._head
                for own in file:
                    if not own.endswith(b"\n"):
                        self._goes_on = False
                        return
                    line: Any = srsly.json_loads(own)
                    yield line["mention"], Candidates(_interned(line["ids"]), line["read"])
        except PelError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise PelError(
                f"{self._path}: holds no candidates ({error!r}); name another file as `candidates`."
            ) from error

    def _check_finder(self, by_another: bool, fits: bool) -> None:
        """Check that a file whose candidates were found `by_another` linker, or not, can be used. fits: whether they
        are those for this linker, and as many."""
        if by_another and not fits:
            raise PelError(
                f"{self._path}: what another linker found for {self._linker.name} as it was, or for a lower top_n; "
                "remove it and run `spacy pel candidates` again, or name another file as `candidates`."
            )
        if self._by_another and not by_another:
            raise PelError(f"{self._path}: a training has filled it; remove it, or name another file as `candidates`.")
        self._by_another = by_another


def found_by_another(
    ranker: Any, other: Any, examples: Iterable[Example], path: Path, *, where: str
) -> tuple[int, int]:
    """Keep in the file `path` what the linker `other` finds for the gold mentions of `examples`, for a training of
    `ranker`, which then takes it for what its own linker has found.

    Args:
        ranker: Behind its linker.
        other: A linker with the same entities.
        examples: Of the training corpus.
        path: The file; what it holds already stays.
        where: What to call `other`.

    Returns:
        Of how many mentions candidates were found, and how many had some already, which stay.

    Raises:
        PelError: The two are one linker, or their KBs have not the same entities; a transformer pipe lends one of them
            what it reads; there is no mention to find candidates of, the ranker cannot search, or another process
            is filling the file.
    """
    linker = ranker.require_linker()
    if any(listens(one.model) for one in (linker, other)):
        raise PelError(f"{where}: candidates of linkers that read what a transformer pipe lends cannot be kept.")
    if kb_version(linker.kb)["records"] != kb_version(other.require_kb())["records"]:
        raise PelError(
            f"{where}: its KB has not the entities that the KB of {linker.name} has; index it with that one."
        )
    if (linker.fingerprints, linker.mention_fingerprint) == (other.fingerprints, other.mention_fingerprint):
        raise PelError(
            f"{where}: its linker is the one that is ranked behind; name one that was trained on other mentions."
        )
    kept = KeptCandidates(linker, ranker.top_n, path, found_by=other)
    annotated = [one for eg in examples for one in gold_mentions(eg.reference) if one.is_linked]
    mentions = with_successors(annotated, linker.kb)
    if not mentions:
        raise PelError("The training corpus has no mention with an id: there is nothing to find candidates of.")
    new = kept.lacking(mentions)
    with kept.filling():
        kept.of(new, progress=True)
    found = len(new) - len(kept.lacking(new))
    return found, len(mentions) - len(new)


def _appending(path: str, flags: int) -> int:
    """Open a file so that all writes go to its end, also after another process has written to it."""
    return os.open(path, flags | os.O_APPEND)


def _candidates(mention: Span, found: Found) -> Candidates:
    return Candidates(_interned(found.ids), None if found.read is mention else found.read.text)


def _lines(found: dict[str, Candidates]) -> bytes:
    return "".join(f"{srsly.json_dumps({'mention': key, **own._asdict()})}\n" for key, own in found.items()).encode()


def _interned(ids: Iterable[str]) -> list[str]:
    """`ids`, each once in memory, in however many lists it stands."""
    return [sys.intern(id_) for id_ in ids]


def _stamp(linker: Any) -> str:
    """What decides the candidates: the encoder, the KB as it is, and how the linker searches."""
    kb, settings = linker.require_kb(), linker.settings
    towers = linker.fingerprints, linker.mention_fingerprint
    kb_now = kb_version(kb), vectors_version(kb, linker.fingerprints.values())
    how = settings.top_k, settings.vectors, settings.resolve_abbreviations, settings.types, settings.types_by_label
    how = *how, *settings.with_codes, settings.n_probe, settings.exact_up_to, settings.spans_key, READ
    return _digest(repr((towers, kb_now, how, linker.name_weights)))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _place(span: Span) -> str:
    return f"{span.start_char} {span.end_char} {span.label_}"
