"""`.spacy` files in and out, with errors that name the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from ..errors import PelError
from ..files.atomic import check_writable, new_file, refused_by_name, write_atomically

SUFFIX = ".spacy"


def read_docs(path: Path, vocab: Vocab) -> Iterator[Doc]:
    """Yield the Docs of a `.spacy` file, or of all such files under a folder, sorted by name.

    Raises:
        PelError: The file is missing or is not a DocBin, or the folder has none.
    """
    if not path.exists():
        raise PelError(f"{path} does not exist: name a corpus that `spacy pel convert` wrote")
    files = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not files:
        raise PelError(f"no {SUFFIX} file under {path}: name a corpus that `spacy pel convert` wrote")
    for file in files:
        yield from _decoded(file, vocab)


def _decoded(file: Path, vocab: Vocab) -> Iterator[Doc]:
    data, docs, doc = file.read_bytes(), None, None
    while docs is None or doc is not None:
        try:
            docs = docs or DocBin().from_bytes(data).get_docs(vocab)
            doc = next(docs, None)
            _check(doc)
        except Exception as error:  # foreign bytes may fail anywhere in the decoder
            raise PelError(f"{file} is not a {SUFFIX} corpus (DocBin): write one with `spacy pel convert`") from error
        if doc is not None:
            yield doc


def _check(doc: Doc | None) -> None:
    """Look at the strings and spans of `doc`, which raises where it names some that are not in the file."""
    if doc is not None:
        for span in (*doc.ents, *(span for group in doc.spans.values() for span in group)):
            _ = span.text, span.label_, span.kb_id_, span.id_


def check_docbin(path: Path) -> None:
    """Check before long work that `path` can become a `.spacy` file.

    Raises:
        PelError: It lacks the suffix, without which spaCy's corpus readers pass a file over, or cannot be written.
    """
    if path.suffix != SUFFIX:
        raise PelError(f"{path} must end in {SUFFIX}: spaCy's corpus readers pass over other names")
    check_writable(path)


def write_docs(path: Path, docs: Iterable[Doc]) -> None:
    """Write Docs, with their user data, as one `.spacy` file; nothing is written if reading `docs` fails.

    Raises:
        PelError: As for `check_docbin`.
    """
    check_docbin(path)
    write_atomically(path, _encoded(docs))


@contextmanager
def new_docs(path: Path, docs: Iterable[Doc]) -> Iterator[None]:
    """Write Docs as `write_docs` does, to a file that appears when the block ends, and vanishes when it raises."""
    with new_file(path) as file:
        with refused_by_name(path):
            file.write(_encoded(docs))
            file.flush()
        yield


def _encoded(docs: Iterable[Doc]) -> bytes:
    return DocBin(store_user_data=True, docs=docs).to_bytes()
