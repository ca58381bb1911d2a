"""`spacy pel link`: the mentions of texts in a file, linked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from ..errors import PelError
from .app import command
from .codes import CODES, vocabularies_given
from .engines import EngineName
from .interrupts import interrupts_held, status_after, terminable
from .out_file import check_out
from .pipeline import CODE, GPU_ID, load_linker
from .standard_input import STANDARD, format_of, standard_input

if TYPE_CHECKING:
    from ..linking.output import LinkedDocs, LinkedLines

WRITTEN = (".spacy", ".jsonl", ".ndjson", "")  # suffixes of OUT
NOT_READ = 141  # the shell's status of a program whose reader has gone


class Format(str, Enum):
    """The formats that can be read."""

    jsonl = "jsonl"
    txt = "txt"
    spacy = "spacy"


@command("link")
def link(
    pipeline: Annotated[str, typer.Argument(help="A pipeline with a pel_linker and its KB")],
    source: Annotated[
        Path,
        typer.Argument(
            help="Texts, one a line, plain or .gz; - is standard input; or .spacy; or a folder", metavar="INPUT"
        ),
    ],
    out: Annotated[Path, typer.Argument(help="JSONL or .spacy file to write; - is standard output; or a folder")],
    format: Annotated[
        Format | None, typer.Option(help='Objects with a "text", or plain text [default: by the suffix; jsonl for -]')
    ] = None,
    codes: CODES = None,
    n_process: Annotated[
        int, typer.Option("--n-process", "--processes", min=1, help="Processes, each with the pipeline")
    ] = 1,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts that go through the pipeline together")] = 256,
    force: Annotated[bool, typer.Option("--force", "-F", help="Replace the file at OUT")] = False,
    engine: Annotated[
        EngineName | None, typer.Option(help="Of a folder: who runs the workers [default: local]")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Of a folder: the column with the texts [default: text]")] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="Of a folder: a column to keep, once or more [default: all]")
    ] = None,
    code: CODE = None,
    gpu_id: GPU_ID = -1,
) -> None:
    """Find and link the mentions of texts. OUT has the lines of INPUT with "ents", a list of {start, end, text, label,
    kb_id, is_nil, kb_ents}, and kb_prob where tune-nil has been; offsets are in characters, kb_ents are [id, score],
    best first. With --codes there is {vocabulary: [code, …]} too.

    Where a line of INPUT has "ents" already, objects with start, end and perhaps a label, they are what is linked and
    nothing else is; each is widened to whole tokens. A broken line is reported and left out. Ctrl-C keeps what is
    linked, and so does SIGTERM, but for a file with several processes.

    In a .spacy file are the Docs with their user data, and nothing else that lines of INPUT have. It is held in memory
    until the end; JSONL is not. As INPUT, its Docs keep the entities they have.

    Where INPUT is a folder, its shards (.jsonl, .jsonl.gz and .parquet) are linked by --n-process workers, each to a
    file of the same name below the folder OUT. It appears whole, and is passed over when the command is run again.

    Example: python -m spacy pel link linker abstracts.jsonl linked.jsonl

    Example: python -m spacy pel link linker notes.txt - --codes ICD10CM | head

    Example: python -m spacy pel link linker abstracts linked --n-process 8
    """
    for_folders: dict[str, Any] = {"engine": engine and engine.value, "text": text, "keep": keep or None}
    given = {key: value for key, value in for_folders.items() if value is not None}
    if source.is_dir():
        from .link_folder import link_folder

        if format or force:
            raise PelError(f"{source} is a folder: leave out --format and --force.")
        if out == STANDARD or (out.suffix in WRITTEN[:-1] and not out.is_dir()):
            raise PelError(f"{out}: INPUT is a folder, and so is what is written; name one.")
        given |= {"codes": codes, "workers": n_process, "batch_size": batch_size, "code": code, "gpu_id": gpu_id}
        link_folder(pipeline, source, out, **given)
        return
    if given:
        raise PelError(f"{source} is no folder: leave out --engine, --text and --keep.")
    format_name = format.value if format else format_of(source, Format, Format.jsonl)
    if source == STANDARD and format_name == Format.spacy.value:
        raise PelError("A .spacy file is not read from standard input; name the file.")
    if source != STANDARD and not source.exists():
        raise PelError(f"{source} is no file; name one with a text a line.")
    _check_out(out, source, force)
    if codes is not None and out.suffix == ".spacy":
        raise PelError(f"{out}: holds Docs, which have no place for --codes; write JSONL (ents have them as kb_xrefs).")
    nlp, name, linker = load_linker(pipeline, gpu_id=gpu_id, code=code)
    vocabularies = vocabularies_given(linker.require_kb(), codes)

    from ..corpora.docbin import SUFFIX
    from ..evaluation.reranked import with_ranker
    from ..files.lines import BROKEN_GZIP
    from ..kb.codes import codes_finder
    from ..linking.batches import piped
    from ..linking.output import LinkedDocs, LinkedLines
    from ..linking.stored import read_stored
    from ..linking.texts import link_given_mentions, read_texts
    from .link_report import LinkReport

    link_given_mentions(nlp, name, linker.spans_key)
    writer: LinkedDocs | LinkedLines
    if out.suffix == SUFFIX:
        writer = LinkedDocs(out)
    else:
        with_prob = with_ranker(nlp, linker).tuned.gives_probabilities
        path = None if out == STANDARD else out
        codes_of = codes_finder(linker.require_kb(), vocabularies)
        writer = LinkedLines(path, linker.spans_key, with_prob=with_prob, codes_of=codes_of)
    with (
        terminable() if n_process == 1 else nullcontext(),  # spaCy waits for ever for the processes of a broken-off run
        _opened(source) as (file, size),
        closing(LinkReport(source, size, linker.spans_key)) as report,
        writer,
    ):
        if format_name == Format.spacy.value:
            texts = read_stored(source, nlp, linker.spans_key)
        else:
            texts = read_texts(file, format_name, nlp, report.add_broken, linker.spans_key)
        status = 0
        try:
            for doc, line in piped(nlp, texts, batch_size, n_process):
                with interrupts_held():
                    writer.write(doc, line.record)
                    report.add(doc, line)
        except KeyboardInterrupt as interrupt:
            status = status_after(interrupt)
        except BrokenPipeError:
            status = NOT_READ
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python flushes at its end
        except (PelError, OSError, MemoryError, *BROKEN_GZIP):
            raise
        except Exception as error:
            raise PelError(
                f"{source}: a component of the pipeline fails at a text: {error!r}. Put the file into a folder and "
                "link that: texts at which it fails are left out there."
            ) from error
    report.sum_up("standard output" if out == STANDARD else str(out), stopped=status != 0)
    if status:
        raise typer.Exit(status)


def _check_out(out: Path, source: Path, force: bool) -> None:
    """Check that `out` can and should be written, and in the format that its name says.

    Raises:
        PelError: If not.
    """
    if out == STANDARD:
        return
    if out.suffix == ".gz":
        raise PelError(f"{out}: nothing is packed here; leave the .gz out, or write to - and pipe it into gzip.")
    if out.suffix not in WRITTEN and not out.is_dir():
        raise PelError(f"{out}: no {out.suffix} file is written here, but lines of JSON (.jsonl), or Docs (.spacy).")
    check_out(out, source, "INPUT", force)


@contextmanager
def _opened(source: Path) -> Iterator[tuple[BinaryIO, int | None]]:
    """The bytes of `source` and their number, if it is known."""
    from ..files.lines import opened

    if source == STANDARD:
        yield standard_input(), None
        return
    with opened(source) as file:
        yield file, None if source.suffix.lower() == ".gz" else source.stat().st_size
