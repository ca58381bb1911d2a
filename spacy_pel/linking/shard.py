"""One shard of a corpus: a file of texts in, the same file with their links out, whole or not at all."""

from __future__ import annotations

import gzip
import json
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from spacy.util import minibatch

from ..errors import PelError
from ..files.atomic import new_file, write_atomically
from ..files.json_lines import numbered_lines
from ..files.parquet import parquet_batches, parquet_schema, require_parquet
from .link_batch import LinkBatch, without_nulls
from .output import json_line
from .records import Linked
from .stamp import Stamp, differences, stamp_of, stamp_of_kb
from .tables import ArrowTable
from .texts import parse_json

ROWS = 1000  # that are linked together, so that memory does not grow with the shard
ROW_GROUP = 20_000  # rows, of Parquet
REMEDY = "write it again"  # of a Parquet file that is not whole
BROKEN_KEPT = 1000  # of the broken records of a shard, what is wrong with them


class Shard(NamedTuple):
    """Where a shard is.

    Attributes:
        source: The file with texts.
        out: The file with their links.
        report: The file with the report.
    """

    source: Path
    out: Path
    report: Path


@dataclass
class ShardReport:
    """What came of a shard.

    Attributes:
        size: Of the source, in bytes.
        changed: When the source was last changed, in ns; None: an earlier version has not said.
        texts: How many were linked.
        mentions: How many they have.
        nil: How many of these are NIL.
        broken: How many records were left out.
        why: (row, what is wrong) of the first of these. Rows are lines of JSONL, and count from 1.
        error: Why nothing was written.
        out_size: Of what was written, in bytes; None: an earlier version has not said.
        lacks: What was to be kept and no linked record had.
    """

    size: int = 0
    changed: int | None = None
    texts: int = 0
    mentions: int = 0
    nil: int = 0
    broken: int = 0
    why: list[tuple[int, str]] = field(default_factory=list)
    error: str | None = None
    out_size: int | None = None
    lacks: list[str] = field(default_factory=list)

    def add(self, row: int, linked: Linked) -> bool:
        """Count a record. Returns whether it was linked."""
        if linked.ents is None:
            self.add_broken(row, str(linked.error))
            return False
        self.texts += 1
        self.mentions += len(linked.ents)
        self.nil += sum(ent["is_nil"] for ent in linked.ents)
        return True

    def add_broken(self, row: int, why: str) -> None:
        """Count a record that is left out."""
        self.broken += 1
        if len(self.why) < BROKEN_KEPT:
            self.why.append((row, why))


def finished(shard: Shard) -> ShardReport | None:
    """The report of a shard that is linked; None of one that is not, that has another size by now, or whose source has
    changed."""
    try:
        report = ShardReport(**json.loads(shard.report.read_bytes()))
        source, out_size = shard.source.stat(), shard.out.stat().st_size
        is_same = source.st_size == report.size and report.changed in (None, source.st_mtime_ns)
        is_whole = report.out_size in (None, out_size)
    except (OSError, ValueError, TypeError):
        return None
    return report if is_same and is_whole else None


class LinkShard:
    """Links a shard: the one thing that all engines run. Each process loads the pipeline with its first shard.

    Attributes:
        link: Links batches.
        stamp: That the pipeline must have, on every machine and as long as this goes on.
    """

    def __init__(self, link: LinkBatch, stamp: Stamp) -> None:
        self.link, self.stamp = link, stamp
        self._is_checked = False

    def __call__(self, shard: Shard) -> ShardReport:
        """Link a shard. It raises nothing: the report says what is wrong."""
        report = ShardReport()
        try:
            self._link(shard, report)
        except PelError as error:
            report.error = str(error).removeprefix(f"{shard.source}: ")
        except Exception as error:
            report.error = f"{type(error).__name__}: {error}"
        return report

    def _link(self, shard: Shard, report: ShardReport) -> None:
        self._check()
        source = shard.source.stat()
        report.size, report.changed = source.st_size, source.st_mtime_ns
        link_file = _link_parquet if shard.source.suffix == ".parquet" else _link_lines
        with new_file(shard.out) as file:
            link_file(self.link, shard.source, file, report)
            if report.broken and not report.texts:
                row, why = report.why[0]
                raise PelError(f"all its {report.broken:,} records are broken, the first one, row {row}: {why}")
            self._check()
        report.why.sort()
        report.out_size = shard.out.stat().st_size
        write_atomically(shard.report, json.dumps(asdict(report)).encode())

    def _check(self) -> None:
        """Check that this is the linker that the others are, and that its KB has not changed."""
        loaded = self.link.load()
        now = self.stamp | {"kb": stamp_of_kb(loaded.linker)} if self._is_checked else stamp_of(loaded)
        if others := differences(now, self.stamp):
            raise PelError(
                f"{self.link.pipeline}: is not, or no longer, the linker that began here ({', '.join(others)}); link "
                "to another folder."
            )
        self._is_checked = True


def _link_lines(link: LinkBatch, source: Path, file: BinaryIO, report: ShardReport) -> None:
    lacks = set(link.keep or ())
    packed = gzip.GzipFile("", "wb", 6, file, mtime=0) if source.suffix == ".gz" else nullcontext(file)
    with packed as out:
        for lines in minibatch(numbered_lines(source), ROWS):
            records = []
            for number, line in lines:
                try:
                    records.append((number, parse_json(line, link.text)))
                except PelError as error:
                    report.add_broken(number, str(error))
            given = [_to_link(link, record) for _, record in records]
            linked = link.load().link(given, link.batch_size, some_are_linked=report.texts > 0, text=link.text)
            for (number, record), one in zip(records, linked, strict=True):
                if report.add(number, one):
                    lacks -= record.keys()
                    out.write(json_line(_kept(link, record) | {link.links: one.ents}))
    report.lacks = sorted(lacks) if report.texts else []


def _to_link(link: LinkBatch, record: dict[str, Any]) -> dict[str, Any]:
    mentions = None if link.mentions is None else without_nulls(record.get(link.mentions))
    return {"text": record.get(link.text), "ents": mentions}


def _kept(link: LinkBatch, record: dict[str, Any]) -> dict[str, Any]:
    return record if link.keep is None else {key: record[key] for key in link.keep if key in record}


def _link_parquet(link: LinkBatch, source: Path, file: BinaryIO, report: ShardReport) -> None:
    pyarrow, parquet = require_parquet()

    def linked_table(table: Any, row: int) -> Any:
        linked = link.linked(ArrowTable(table), some_are_linked=report.texts > 0) if table.num_rows else []
        good = [report.add(number, one) for number, one in enumerate(linked, start=row)]
        filled = link.filled(ArrowTable(table), linked)
        return filled.filter(pyarrow.array(good, pyarrow.bool_())).drop_columns([link.error])

    empty = linked_table(parquet_schema(source, REMEDY).empty_table(), 0)
    with parquet.ParquetWriter(file, empty.schema) as writer:
        row, group = 1, [empty]
        for batch in parquet_batches(source, REMEDY, rows=ROWS):
            group.append(linked_table(batch, row))
            row += batch.num_rows
            if sum(table.num_rows for table in group) >= ROW_GROUP:
                writer.write_table(pyarrow.concat_tables(group))
                group = [empty]
        writer.write_table(pyarrow.concat_tables(group))
