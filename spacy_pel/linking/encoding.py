"""Entities and names of a KB, encoded in shards by the workers of an engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
from spacy.util import minibatch
from tqdm import tqdm

from ..components import find_linker
from ..errors import PelError
from ..models.inputs import ENTITIES_AT_ONCE
from ..models.storage import fingerprint as fingerprint_of
from ..pipeline.indexing import STREAMS
from ..pipeline.kb_of_pipeline import kb_ignored
from .engines import Engine, work_off


class Block(NamedTuple):
    """What one process would encode together, so that vectors do not depend on how many do.

    Attributes:
        kind: "entity" or "names".
        number: Its place among the blocks.
        items: Entities or names.
    """

    kind: str
    number: int
    items: list


class EncodeBlock:
    """Encodes a block: what the workers run. Each loads the pipeline, without its KB, with its first block.

    Attributes:
        pipeline: A folder or an installed package, on every machine.
        code: A Python file to import first.
        fingerprints: That the pipeline must have, by kind.
    """

    def __init__(self, pipeline: str, code: Path | None, fingerprints: dict[str, str]) -> None:
        self.pipeline = str(Path(pipeline).absolute()) if Path(pipeline).exists() else pipeline
        self.code = None if code is None else code.absolute()
        self.fingerprints = fingerprints
        self._linker: Any = None

    def __call__(self, block: Block) -> np.ndarray | PelError:
        """The vectors (v, hidden) float32 of a block, or why there are none."""
        try:
            if self._linker is None:
                self._linker = self._load()
            vectors = STREAMS[block.kind](self._linker.model, block.items, len(block.items), progress=False)
            return np.concatenate(list(vectors))
        except PelError as error:
            return error
        except Exception as error:
            return PelError(f"a worker cannot encode: {type(error).__name__}: {error}")

    def _load(self) -> Any:
        import spacy

        if self.code is not None:
            spacy.util.import_file("python_code", self.code)
        with kb_ignored():
            _, linker = find_linker(spacy.load(self.pipeline), needs_kb=False)
        for kind, fingerprint in self.fingerprints.items():
            if fingerprint_of(linker.model, kind) != fingerprint:
                raise PelError(f"{self.pipeline}: a worker finds another encoder there; give all machines the same.")
        return linker


class EncodeByWorkers:
    """Encodes a KB with the workers of an engine; what `PelLinker.index` takes as `encode`.

    Memory: a block for each worker. Disk, until the index is written: the vectors as they are.
    """

    def __init__(
        self, engine: Callable[[], Engine], workers: int, folder: Path, on_death: Callable[[str], object]
    ) -> None:
        """
        Args:
            engine: Starts one whose task is an `EncodeBlock`.
            workers: How many work at a time.
            folder: For vectors that wait for others.
            on_death: Is called when a worker has died, with what was lost and how it died.
        """
        self._engine, self._workers, self._folder, self._on_death = engine, workers, folder, on_death

    def __call__(self, kind: str, items: Iterable, total: int) -> Iterator[np.ndarray]:
        """Encode items of a kind.

        Args:
            kind: "entity" or "names".
            items: Entities or names.
            total: Their number.

        Yields:
            The vectors (v, hidden) float32 of a block, in the order of the items.

        Raises:
            PelError: They cannot be encoded, or a block is found at several dead workers.
        """
        places: dict[int, tuple[int, tuple[int, ...]]] = {}
        with TemporaryFile(dir=self._folder) as file:
            for block, vectors in self._encoded(kind, items, total):
                places[block.number] = file.tell(), vectors.shape
                file.write(vectors.astype("<f4").tobytes())
            for number in range(len(places)):
                place, shape = places[number]
                file.seek(place)
                yield np.frombuffer(file.read(4 * math.prod(shape)), dtype="<f4").reshape(shape)

    def _encoded(self, kind: str, items: Iterable, total: int) -> Iterator[tuple[Block, np.ndarray]]:
        blocks = (Block(kind, number, one) for number, one in enumerate(minibatch(items, ENTITIES_AT_ONCE)))
        bar = tqdm(total=total, desc=f"Encoding ({kind})", unit_scale=True)
        with bar, closing(work_off(blocks, self._engine(), self._workers, self._say_death)) as done:
            for block, result in done:
                if isinstance(result, PelError):
                    raise result
                bar.update(len(block.items))
                yield block, result

    def _say_death(self, block: Block, how: str) -> None:
        self._on_death(f"a worker has died ({how}) with block {block.number + 1:,}")
