"""One callable for all engines: a batch of a table in, the same batch with its links out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

from ..checks import check_count
from ..errors import PelError
from .records import Linked, Record, RecordLinker
from .tables import Table, as_column, table_of

MENTIONS = "ents"
_loading = Lock()


@dataclass(frozen=True)
class LinkBatch:
    """Links batches of a table: dicts of columns (lists or numpy arrays), pyarrow Tables or pandas DataFrames.

    It pickles as its path and options. Each process loads the pipeline once, when it links its first batch, and maps
    the KB, whose pages the processes of a machine share. It knows no engine and fits all that hand over batches.

    Attributes:
        pipeline: A folder or an installed package, with one `pel_linker` and its KB, on every machine.
        text: The column with the texts.
        mentions: The column with the mentions of each text, as lists of {start, end, label} in characters, to be linked
            instead of what the pipeline finds; None: always what it finds. A batch need not have a column "ents", and a
            row need not have mentions.
        links: The new column: for each row a list of {start, end, text, label, kb_id, is_nil, kb_ents, kb_prob}, where
            kb_ents are {id, score}, best first, and kb_prob is None before `tune-nil`; with `codes`, also codes, which
            are {vocabulary: [code, …]}.
        error: The new column that says why a row could not be linked, and None of the others.
        keep: The columns of the batch that come back, such as the one with the ids; None: all.
        batch_size: Texts that go through the pipeline together.
        code: A Python file to import before the pipeline is loaded.
        gpu_id: The GPU to use; -1 for the CPU.
        codes: Vocabularies whose codes the links get.
    """

    pipeline: str
    text: str = "text"
    mentions: str | None = MENTIONS
    links: str = "ents"
    error: str = "error"
    keep: Sequence[str] | None = None
    batch_size: int = 256
    code: str | None = None
    gpu_id: int = -1
    codes: Sequence[str] = ()
    _key: str = field(default_factory=lambda: uuid4().hex, repr=False, compare=False)  # of this one and its copies

    def __post_init__(self) -> None:
        for name in ("pipeline", "code"):  # a worker may run in another folder
            given = getattr(self, name)
            if given is not None and Path(given).exists():
                object.__setattr__(self, name, str(Path(given).absolute()))
        check_count("LinkBatch", "batch_size", self.batch_size, least=1)
        if len({self.text, self.links, self.error}) < 3:
            raise PelError(
                f"LinkBatch: text = {self.text!r}, links = {self.links!r} and error = {self.error!r} are three "
                "columns; give each a name of its own."
            )
        for name in ("keep", "codes"):
            if isinstance(given := getattr(self, name), str):
                raise PelError(f"LinkBatch: {name} = {given!r} is one text; give a list of them.")
        if self.keep is not None:
            object.__setattr__(self, "keep", tuple(self.keep))
        object.__setattr__(self, "codes", tuple(self.codes))

    def __call__(self, batch: Any) -> Any:
        """Link a batch.

        Args:
            batch: With a column of texts.

        Returns:
            A batch of the same type and length. A row that cannot be linked (no text, one that is too long, mentions
            that are no spans of it, a component that fails at it) has no links and says why in the column `error`.

        Raises:
            PelError: A column is missing, a column of the batch would be lost, the linker or its KB is at fault, or the
                pipeline fails on every text.
        """
        table = table_of(batch)
        return self.filled(table, self.linked(table))

    def each(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Link each of `batches` when it is asked for, as Spark's `mapInPandas` and `mapInArrow` do."""
        return map(self, batches)

    def linked(self, table: Table, *, some_are_linked: bool = False) -> list[Linked]:
        """What came of each row. some_are_linked: see `RecordLinker.link`."""
        records = self._records(table)
        return self.load().link(records, self.batch_size, some_are_linked=some_are_linked, text=self.text)

    def filled(self, table: Table, linked: Sequence[Linked]) -> Any:
        """The batch with what came of each row."""
        links = [None if one.ents is None else list(map(as_column, one.ents)) for one in linked]
        new = (self.links, self.error)
        wanted = table.names if self.keep is None else self.keep
        kept = [name for name in wanted if name not in new]
        self._check(table, kept)
        self._check_nothing_is_lost(table, [name for name in new if name in wanted])
        return table.filled(kept, {self.links: links}, {self.error: [one.error for one in linked]}, self.codes)

    def load(self) -> RecordLinker:
        """The pipeline, as this process has loaded it."""
        with _loading:
            code = None if self.code is None else Path(self.code)
            return _loaded(self._key, self.pipeline, code, self.gpu_id, self.codes)

    def _records(self, table: Table) -> list[Record]:
        names = table.names
        self._check(table, [self.text])
        records: list[Record] = [{"text": text} for text in table.values(self.text)]
        if self.mentions is None or (self.mentions == MENTIONS and MENTIONS not in names):
            return records
        self._check(table, [self.mentions])
        for record, ents in zip(records, table.values(self.mentions), strict=True):
            record["ents"] = without_nulls(ents)
        return records

    def _check_nothing_is_lost(self, table: Table, replaced: list[str]) -> None:
        """Check that columns to be `replaced` have come of linking, which gives both, or are the mentions. Linking
        writes an error only where it gives no links."""
        own = [name for name in replaced if name in table.names and name != self.mentions]
        if len(replaced) == 2 and self.links in table.names and self.error in own:
            both = zip(table.values(self.links), table.values(self.error), strict=True)
            own = [self.error] if any(links is not None and error for links, error in both) else []
        if own:
            corrected = ", or set it to None in rows that you have corrected" if own == [self.error] else ""
            raise PelError(
                f"the batch has a column {own[0]!r} of its own, which would be lost; give the new columns "
                f"other names (links, error), or say which columns to keep{corrected}."
            )

    def _check(self, table: Table, columns: Iterable[str]) -> None:
        for name in columns:
            if name not in table.names:
                there = ", ".join(map(repr, table.names)) or "none"
                raise PelError(f"the batch has no column {name!r} (its columns: {there}); name one that it has.")


@lru_cache(maxsize=2)
def _loaded(key: str, pipeline: str, code: Path | None, gpu_id: int, codes: Sequence[str]) -> RecordLinker:
    return RecordLinker.load(pipeline, code, gpu_id, codes)


def without_nulls(ents: Any) -> Any:
    """Mentions without the fields that are null: in a nested column each has all of them."""
    return list(map(_without_nulls, ents)) if isinstance(ents, list) else ents


def _without_nulls(ent: Any) -> Any:
    return {key: value for key, value in ent.items() if value is not None} if isinstance(ent, dict) else ent
