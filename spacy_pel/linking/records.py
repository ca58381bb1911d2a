"""Records with a text each through a pipeline, whatever some of them hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc

from ..components import find_linker
from ..errors import PelError
from ..evaluation.reranked import with_ranker
from ..kb.codes import codes_finder
from .batches import piped
from .output import linked_record
from .texts import link_given_mentions, make_doc

Record = dict[str, Any]
SEVERAL = 8  # texts: of so many that fail, none linked, the pipeline is at fault and not they


class Linked(NamedTuple):
    """What came of a record.

    Attributes:
        ents: Its links, as `linked_record` gives them; None where it could not be linked.
        error: Why it could not.
    """

    ents: list[Record] | None
    error: str | None = None


class RecordLinker:
    """Links the texts of records with a pipeline that it has for itself. Threads wait for each other.

    Attributes:
        nlp: The pipeline.
        name: Of the linker in it.
        linker: The linker.
    """

    def __init__(self, nlp: Language, name: str, linker: Any, codes: Sequence[str] = ()) -> None:
        """Take a pipeline.

        Args:
            nlp: The pipeline.
            name: Of the linker in it.
            linker: The linker, with its KB.
            codes: Vocabularies whose codes links get.

        Raises:
            PelError: No entity of the KB has a code of one of the vocabularies.
        """
        link_given_mentions(nlp, name, linker.spans_key)
        self.nlp, self.name, self.linker = nlp, name, linker
        self._with_prob = with_ranker(nlp, linker).tuned.gives_probabilities
        self._codes_of = codes_finder(linker.kb, codes)
        linker.kb.check_vocabularies(codes)
        self._alone = Lock()

    @classmethod
    def load(cls, pipeline: str, code: Path | None = None, gpu_id: int = -1, codes: Sequence[str] = ()) -> RecordLinker:
        """Load a pipeline.

        Args:
            pipeline: A folder or an installed package.
            code: A Python file to import first.
            gpu_id: The GPU to load it to; -1 for the CPU.
            codes: Vocabularies whose codes links get.

        Raises:
            PelError: It has not one `pel_linker`, with a KB, or no entity of that has a code of one of the
                vocabularies.
        """
        import spacy

        if gpu_id >= 0:
            spacy.require_gpu(gpu_id)
        if code is not None:
            spacy.util.import_file("python_code", code)
        nlp = spacy.load(pipeline)
        return cls(nlp, *find_linker(nlp), codes)

    def link(
        self, records: Sequence[Record], batch_size: int = 256, *, some_are_linked: bool = False, text: str = "text"
    ) -> list[Linked]:
        """Link records.

        Args:
            records: Each with a `text`, and with `ents` where these are to be linked and not what the pipeline finds.
            batch_size: Texts that go through the pipeline together.
            some_are_linked: Whether the pipeline has linked other records of the same corpus, so that it is not at
                fault where it fails on all of these.
            text: The name that the texts have where the records come from, for errors.

        Returns:
            What came of each. A record of which `make_doc` complains, or at whose text a component fails, costs only
            itself.

        Raises:
            PelError: The linker or its KB is at fault, or the pipeline fails on every text of several.
        """
        failures: list[Exception] = []
        with self._alone:
            linked = self._parted(records, batch_size, failures, text)
        if len(failures) >= SEVERAL and not some_are_linked and all(one.error is not None for one in linked):
            raise PelError(f"the pipeline fails on every text, first with {failures[0]!r}") from failures[0]
        return linked

    def _parted(self, records: Sequence[Record], batch_size: int, failures: list[Exception], text: str) -> list[Linked]:
        """Link records together; where that fails, each half by itself, down to the text that is at fault."""
        try:
            return self._piped(records, batch_size, text)
        except (PelError, OSError, MemoryError):  # of the linker, its KB or the machine, and of no text
            raise
        except Exception as error:
            if len(records) == 1:
                failures.append(error)
                return [Linked(None, f"a component fails: {error!r}")]
        middle = len(records) // 2
        halves = records[:middle], records[middle:]
        return [one for half in halves for one in self._parted(half, batch_size, failures, text)]

    def _piped(self, records: Sequence[Record], batch_size: int, text: str) -> list[Linked]:
        linked: dict[int, Linked] = {}

        def docs() -> Iterator[tuple[Doc, int]]:
            for number, record in enumerate(records):
                try:
                    doc = make_doc(self.nlp, record, text, self.linker.spans_key)
                except PelError as error:
                    linked[number] = Linked(None, str(error))
                else:
                    yield doc, number

        for doc, number in piped(self.nlp, docs(), batch_size):
            found = linked_record(doc, {}, self.linker.spans_key, with_prob=self._with_prob, codes_of=self._codes_of)
            linked[number] = Linked(found["ents"])
        return [linked[number] for number in range(len(records))]
