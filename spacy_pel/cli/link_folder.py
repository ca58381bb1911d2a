"""`spacy pel link` of a folder: its shards, linked by several workers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import typer
from tqdm import tqdm

from ..errors import PelError
from .codes import vocabularies_given
from .engines import engine_named
from .interrupts import status_after, terminable
from .link_report import BROKEN_SHOWN, say
from .pipeline import load_linker

if TYPE_CHECKING:
    from ..linking.shard import Shard, ShardReport

STRAYS_SHOWN = 5
DROPPED = "_error"  # the column with what is wrong, which is reported and not written


def link_folder(
    pipeline: str,
    source: Path,
    out: Path,
    *,
    engine: str = "local",
    workers: int = 1,
    text: str = "text",
    keep: Sequence[str] | None = None,
    codes: str | None = None,
    batch_size: int = 256,
    code: Path | None = None,
    gpu_id: int = -1,
) -> None:
    """Link the shards below the folder `source` that are not linked yet, each to a file below `out`.

    Args:
        pipeline: A folder or an installed package.
        source: With the shards.
        out: Gets the linked shards and a manifest.
        engine: "local" or "ray".
        workers: How many work at a time.
        text: The column, or key, with the texts.
        keep: What is kept of a record beside its links; None: all.
        codes: The vocabularies whose codes links get, with commas between them; None: none.
        batch_size: Texts that go through the pipeline together.
        code: A Python file to import first.
        gpu_id: The GPU to use; -1 for the CPU.

    Raises:
        PelError: There is nothing to link, or `out` cannot take it.
        typer.Exit: A shard could not be linked, or Ctrl-C or SIGTERM came.
    """
    from ..files.parquet import require_parquet
    from ..linking.link_batch import LinkBatch
    from ..linking.linked_folder import LinkedFolder, find_shards, link_shards
    from ..linking.records import RecordLinker
    from ..linking.shard import LinkShard, finished
    from ..linking.stamp import stamp_of

    if engine == "ray" and gpu_id >= 0:
        raise PelError("--engine ray links on CPUs: leave out --gpu-id.")
    shards = find_shards(source, out)
    if any(shard.source.suffix == ".parquet" for shard in shards):
        require_parquet()
    loaded = load_linker(pipeline, gpu_id=gpu_id, code=code)
    vocabularies = vocabularies_given(loaded[-1].require_kb(), codes)
    link = LinkBatch(
        pipeline,
        text,
        error=DROPPED,
        keep=keep,
        codes=vocabularies,
        batch_size=batch_size,
        code=None if code is None else str(code),
        gpu_id=gpu_id,
    )
    stamp = stamp_of(RecordLinker(*loaded))
    with LinkedFolder.opened(out, link, stamp) as folder:
        linked = {shard: report for shard in shards if (report := finished(shard))}
        waiting = [shard for shard in shards if shard not in linked]
        running = engine_named(engine, LinkShard(link, stamp), workers)  # before, since Ray takes SIGTERM for itself
        with terminable(), closing(FolderReport(len(shards), len(linked))) as progress:
            try:
                with closing(link_shards(waiting, running, workers, progress.add_death)) as done:
                    for shard, report in done:
                        progress.add(shard, report)
            except KeyboardInterrupt as interrupt:
                progress.stopped = status_after(interrupt)
            linked |= progress.linked
            failed = {str(shard.source.relative_to(source)): why for shard, why in progress.failed.items()}
            reports = {str(shard.source.relative_to(source)): report for shard, report in linked.items()}
            folder.write_manifest(reports, failed)
            strays = folder.strays(linked)
    if strays and not progress.stopped:
        names = ", ".join(str(path.relative_to(out)) for path in strays[:STRAYS_SHOWN])
        more = ", …" if len(strays) > STRAYS_SHOWN else ""
        say(
            f"⚠ {out}: {len(strays):,} shards are of an earlier run, and not counted: their source is gone, or could "
            f"not be linked now. Remove them if they are of no use: {names}{more}"
        )
    progress.sum_up(out, list(linked.values()))


class FolderReport:
    """What is said on standard error: a bar over all shards, what is left out, and the counts at the end.

    Attributes:
        linked: The reports of the shards that this run has linked.
        failed: Why others could not be.
        stopped: The status to end with, where Ctrl-C or SIGTERM came; 0: neither.
    """

    def __init__(self, shards: int, done: int) -> None:
        self.linked: dict[Shard, ShardReport] = {}
        self.failed: dict[Shard, str] = {}
        self.stopped = 0
        self._lacks: set[str] = set()
        self._shown, self._mentions = 0, 0
        self._start = perf_counter()
        self._bar = tqdm(desc="Linking", total=shards, initial=done, unit="shard", smoothing=0, disable=None)
        if done:
            say(f"ℹ Linked already and passed over: {done:,} of {shards:,} shards.")

    @property
    def speed(self) -> str:
        return f"{self._mentions / (perf_counter() - self._start):,.0f} mentions/s"

    def add(self, shard: Shard, report: ShardReport) -> None:
        """Count a shard that is done, and show some of what is wrong with it."""
        self._bar.update()
        if report.error is not None:
            self.failed[shard] = report.error
            say(f"✘ {shard.source}: {report.error}")
            return
        self.linked[shard] = report
        self._mentions += report.mentions
        self._bar.set_postfix_str(self.speed)
        for row, why in report.why[: max(0, BROKEN_SHOWN - self._shown)]:
            say(f"⚠ {shard.source}:{row}: {why}.")
        if self._shown <= BROKEN_SHOWN < self._shown + report.broken:
            say(f"⚠ Further records that are left out are only counted; see {shard.report.parent}.")
        self._shown += report.broken
        for key in sorted({*report.lacks} - self._lacks):
            say(f'⚠ {shard.source}: no record has "{key}", which --keep names.')
        self._lacks.update(report.lacks)

    def add_death(self, shard: Shard, how: str) -> None:
        """Say that a worker has died."""
        say(f"⚠ {shard.source}: its worker has died ({how}).")

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()

    def sum_up(self, out: Path, reports: Sequence[ShardReport]) -> None:
        """Print the counts. reports: of all shards that are linked, also by earlier runs.

        Raises:
            typer.Exit: If not all is linked.
        """
        new = list(self.linked.values())
        if self.stopped:
            say(f"⚠ Stopped. Linked to {out}: {_counts(new)} ({self.speed}).")
        elif new:
            say(f"{'⚠' if self.failed else '✔'} Linked to {out}: {_counts(new)} ({self.speed}).")
        elif self.failed:
            say(f"✘ Nothing was linked to {out}.")
        else:
            say(f"✔ Nothing was left to link to {out}. It has {_counts(reports)}.")
        if broken := sum(report.broken for report in reports):
            say(f"⚠ Records of all shards that are left out: {broken:,}.")
        if self.failed:
            say(f"✘ Shards that could not be linked: {len(self.failed):,}. Run the command again to try these only:")
            for shard, why in self.failed.items():
                say(f"  {shard.source}: {why}")
        if self.stopped or self.failed:
            raise typer.Exit(self.stopped or 1)


def _counts(reports: Sequence[ShardReport]) -> str:
    texts, mentions, nil = (sum(getattr(one, key) for one in reports) for key in ("texts", "mentions", "nil"))
    return f"{len(reports):,} shards: {texts:,} texts with {mentions:,} mentions, {nil:,} of them NIL"
