"""A folder of linked shards: which are done, and the manifest that says by which linker.

OUT/
  _manifest.json   the stamp of the linker, what was asked of it, and counts
  _reports/        what came of each shard
  …                the shards, under the names of their sources

Whoever reads the folder as one table passes over names that begin with "_" or ".".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ..about import __version__
from ..errors import PelError
from ..files.atomic import remove_leftovers, write_atomically
from ..files.leftovers import alone
from .engines import Engine, work_off
from .link_batch import LinkBatch
from .shard import Shard, ShardReport
from .stamp import Stamp, differences

MANIFEST, REPORTS = "_manifest.json", "_reports"
SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")
COUNTS = ("texts", "mentions", "nil", "broken")


def find_shards(source: Path, out: Path) -> list[Shard]:
    """The shards below the folder `source`, by name, to be written below `out`. Names that begin with "_" or "." are
    passed over.

    Raises:
        PelError: There are none, or one of the two folders is in the other.
    """
    if source.resolve().is_relative_to(out.resolve()) or out.resolve().is_relative_to(source.resolve()):
        raise PelError(f"{out} and {source} may not lie in each other; name another folder.")
    names = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
    shards = [Shard(source / name, out / name, out / REPORTS / f"{name}.json") for name in names if _is_shard(name)]
    if not shards:
        raise PelError(f"{source}: has no shards; name a folder with files that end in {', '.join(SUFFIXES)}.")
    return shards


def _is_shard(name: Path) -> bool:
    return name.name.endswith(SUFFIXES) and not any(part.startswith(("_", ".")) for part in name.parts)


def link_shards(
    shards: Sequence[Shard], engine: Engine, workers: int, on_death: Callable[[Shard, str], object]
) -> Generator[tuple[Shard, ShardReport], None, None]:
    """Link shards with the workers of an engine, whose task is a `LinkShard`.

    Args:
        shards: To link.
        engine: It is closed at the end.
        workers: How many work at a time.
        on_death: Is called with the shard that a worker had when it died, and how it died.

    Yields:
        Each shard with its report, as they are done.
    """
    begun: set[Shard] = set()

    def begin() -> Iterator[Shard]:
        for shard in shards:
            begun.add(shard)
            yield shard

    def note_death(shard: Shard, how: str) -> None:
        on_death(shard, how)
        remove_leftovers(shard.out)

    try:
        with closing(work_off(begin(), engine, workers, note_death)) as done:
            for shard, result in done:
                begun.remove(shard)
                yield shard, result if isinstance(result, ShardReport) else ShardReport(error=str(result))
    finally:
        for shard in begun:
            remove_leftovers(shard.out)


class LinkedFolder:
    """The folder that the shards are linked to.

    Attributes:
        path: The folder.
        stamp: Of the linker.
    """

    def __init__(self, path: Path, link: LinkBatch, stamp: Stamp) -> None:
        """See `opened`."""
        self.path, self.stamp = path, stamp
        self._asked = {"text": link.text, "mentions": link.mentions, "links": link.links, "keep": link.keep}
        if link.codes:  # older versions had no codes, and their folders none
            self._asked["codes"] = link.codes
        self._pipeline = link.pipeline
        if (path / MANIFEST).exists():
            self._check()
        elif any(not one.name.startswith(".") for one in path.iterdir()):
            raise PelError(f"{path}: is not empty, and no folder of linked shards; name another.")
        else:
            self.write_manifest({}, {})

    @classmethod
    @contextmanager
    def opened(cls, path: Path, link: LinkBatch, stamp: Stamp) -> Iterator[LinkedFolder]:
        """Begin a folder, or go on with one, and let no other process write to it meanwhile.

        Raises:
            PelError: Another linker has written it, the same one was asked for something else, it holds anything else,
                or another process is writing to it.
        """
        if path.exists() and not path.is_dir():
            raise PelError(f"{path} is a file; name a folder, since a folder is linked.")
        path.mkdir(parents=True, exist_ok=True)
        with alone(path):
            yield cls(path, link, stamp)

    def write_manifest(self, linked: Mapping[str, ShardReport], failed: Mapping[str, str]) -> None:
        """Write what has come of all shards.

        Args:
            linked: The report of each shard that is linked, by its name.
            failed: Why each of the others is not.
        """
        counts = {key: sum(getattr(report, key) for report in linked.values()) for key in COUNTS}
        manifest = {
            "pipeline": self._pipeline,
            "spacy_pel": __version__,
            "linker": self.stamp,
            "asked": self._asked,
            "counts": {"shards": len(linked)} | counts,
            "failed": dict(failed),
        }
        write_atomically(self.path / MANIFEST, json.dumps(manifest, indent=2).encode())

    def strays(self, linked: Iterable[Shard]) -> list[Path]:
        """The shards in the folder that are none of those that are `linked`: their source is gone by now, or could not
        be linked again."""
        own = {shard.out for shard in linked}
        paths = (path for path in sorted(self.path.rglob("*")) if path not in own)
        return [path for path in paths if _is_shard(path.relative_to(self.path))]

    def _check(self) -> None:
        file = self.path / MANIFEST
        remedy = "name another folder, or remove this one to link all again"
        try:
            manifest: Any = json.loads(file.read_bytes())
            stamp, asked = manifest["linker"], manifest["asked"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PelError(f"{file}: cannot be read ({error!r}); {remedy}.") from error
        for key, value in (("linker", stamp), ("asked", asked)):
            if not isinstance(value, dict):
                raise PelError(f'{file}: "{key}" is {json.dumps(value)[:40]}, and no JSON object; {remedy}.')
        other_linker = differences(stamp, self.stamp)
        other_settings = differences(asked, json.loads(json.dumps(self._asked)))
        if not (other_linker or other_settings):
            return
        if not self._has_linked():
            self.write_manifest({}, {})
        elif other_linker:
            raise PelError(f"{self.path}: another linker has begun it (other: {', '.join(other_linker)}); {remedy}.")
        else:
            raise PelError(f"{self.path}: was begun with other settings ({', '.join(other_settings)}); {remedy}.")

    def _has_linked(self) -> bool:
        """Whether a shard, or the report of one, is in the folder."""
        names = (path.relative_to(self.path) for path in self.path.rglob("*") if path.is_file())
        return any(_is_shard(name) or name.parts[0] == REPORTS for name in names)
