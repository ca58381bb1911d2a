"""`spacy pel new-project`: a spaCy project, ready to run, for a KB of one's own, with a corpus or without."""

from __future__ import annotations

import json
import shlex
import string
from itertools import chain
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ..corpora.gold_corpus import Format, format_of, read_gold
from ..errors import PelError
from .app import command
from .convert import FOLD
from .encoder import TEMPLATE, Template, check_encoder, template_of
from .pipeline import blank, warnings_shown
from .printing import echo, msg
from .vocabulary import ReadAs, print_skipped, takes_vocabulary, with_progress

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ..mentions.gold import GoldMention

TEMPLATES = Path(__file__).parent / "templates"
FILES = {"project.yml": "project.yml", "train.cfg": "configs/train.cfg"}
FILES_WITHOUT_CORPUS = {"names_project.yml": "project.yml"}
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
BATCH = 32  # of the template's config
STEPS, FEWEST_EPOCHS, MOST_EPOCHS = 300, 2, 20  # epochs for about so many steps; each costs a pass over the KB
# Of a larger KB a training encodes so many entities at a time: a pass over millions takes hours
LARGE_KB, SAMPLE = 100_000, 20_000
TUNE_UNTRAINED = (
    '      - "python -m spacy pel tune-lexical training/untrained-linker corpus/dev.spacy --gpu-id ${vars.gpu_id}"\n'
)


class _Template(string.Template):
    """`%{name}`, since `${name}` belongs to spaCy."""

    delimiter = "%"


class _Read(NamedTuple):
    """What was read of a KB.

    Attributes:
        entities: Their number.
        ids: Theirs, and those that have become one of them.
        has_types: Whether any entity has a type.
    """

    entities: int
    ids: set[str]
    has_types: bool


@command("new-project")
@takes_vocabulary
def new_project(
    folder: Annotated[Path, typer.Argument(help="Folder to create", metavar="DIR")],
    kb: Annotated[Path, typer.Option(help="Entity records in any format of build-kb, or a KB that is built")],
    corpus: Annotated[
        Path | None, typer.Option(help="Annotated documents: .spacy, .jsonl, or PubTator under any other name")
    ] = None,
    dev: Annotated[Path | None, typer.Option(help="Development documents; else every fifth of CORPUS")] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Pretrained encoder: Hugging Face name or folder [default: all-MiniLM-L6-v2]")
    ] = None,
    template: TEMPLATE = None,
    strip_prefix: Annotated[str, typer.Option(help="Prefix to take off every id of the corpus, say UMLS:")] = "",
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that is there already")] = False,
    *,
    read_as: ReadAs,
) -> None:
    """Create a spaCy project that trains and evaluates a linker on your own KB and corpus; without a corpus, one that
    makes a linker of the KB alone, as `new-linker` does.

    Both are read once, so that what does not fit together is said now, and the training is sized by the corpus. The
    NIL threshold is tuned on the development documents, so measures of NIL on the same ones are a little flattered.

    Example: python -m spacy pel new-project my_linker --kb entities.jsonl --corpus annotated.pubtator

    Example: python -m spacy pel new-project my_linker --kb products.csv --columns id=number --corpus corrected.jsonl

    Example: python -m spacy pel new-project my_linker --kb uberon.obo
    """
    if folder.exists() and not force:
        raise PelError(f"{folder} is there already: choose another folder, or write into it with --force")
    if encoder is not None:
        check_encoder(encoder)
    if corpus is None:
        if strip_prefix:
            raise PelError(f"--strip-prefix {strip_prefix}: is for the ids of a corpus; give --corpus too")
        _write_without_corpus(folder, kb, read_as, encoder, template, dev)
        return
    with warnings_shown():
        there = _read_kb(kb, read_as)
    train_mentions, dev_mentions = _mentions(corpus, dev, strip_prefix)
    linked = _check_gold(train_mentions, there, kb, corpus)
    _check_measurable(dev_mentions, corpus, dev)
    known = [not there.ids.isdisjoint(mention.ids) for mention in dev_mentions]
    tunings = ["tune-lexical"] * any(known) + ["tune-nil"] * (any(known) and not all(known))

    steps_per_epoch = ceil(linked / BATCH)
    epochs = min(max(FEWEST_EPOCHS, round(STEPS / steps_per_epoch)), MOST_EPOCHS)
    values = {
        "title_json": json.dumps(f"Entity linking: {kb.name} and {corpus.name}"),
        **_kb_values(kb, read_as),
        "corpus_json": json.dumps(str(corpus.resolve())),
        "corpus_deps_json": json.dumps([str(path.resolve()) for path in (corpus, dev) if path]),
        "corpus_format": _format(corpus).value,
        "convert_script": "\n".join(f"      - {json.dumps(line)}" for line in _convert(dev, strip_prefix)),
        "tune_steps": "".join(f"    - {step}\n" for step in tunings),
        "encoder_json": json.dumps(_absolute(encoder or MINILM)),
        "tune_untrained": TUNE_UNTRAINED * any(known),
        "template": template_of(template, there.has_types),
        "mentions": f"{linked:,}",
        "steps_per_epoch": steps_per_epoch,
        "epochs": epochs,
        "total_steps": steps_per_epoch * epochs,
        "sample": SAMPLE if there.entities > LARGE_KB else 0,
    }
    _write(folder, FILES, values)
    msg.good(f"Wrote {folder}: {epochs} epochs, {steps_per_epoch * epochs:,} steps of {BATCH} mentions")
    echo(f"Next: python -m spacy project run all {folder}")  # in one line, to be copied


def _write_without_corpus(
    folder: Path, kb: Path, read_as: ReadAs, encoder: str | None, template: Template | None, dev: Path | None
) -> None:
    """Write the project that makes a linker of the KB alone.

    Raises:
        PelError: The KB is not there, its first entity cannot be read, or there are development documents.
    """
    if dev is not None:
        raise PelError(f"--dev {dev}: there is no training to measure; give --corpus too, or `spacy pel evaluate` it")
    with warnings_shown():
        next(iter(read_as.records(kb)), None)
    options = "" if encoder is None else f" --encoder {shlex.quote(_absolute(encoder))}"
    options += "" if template is None else f" --template {template.value}"
    values = {
        "title_json": json.dumps(f"Entity linking: {kb.name}"),
        **_kb_values(kb, read_as),
        "options": _in_yaml(options),
    }
    _write(folder, FILES_WITHOUT_CORPUS, values)
    msg.good(f"Wrote {folder}: a linker of the names in {kb.name}")
    echo(f"Next: python -m spacy project run all {folder}")


def _write(folder: Path, files: dict[str, str], values: dict[str, Any]) -> None:
    for name, place in files.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_Template((TEMPLATES / name).read_text("utf-8")).substitute(values), "utf-8")


def _absolute(encoder: str) -> str:
    """The encoder as it is named from another folder."""
    return str(Path(encoder).absolute()) if Path(encoder).is_dir() else encoder


def _kb_values(kb: Path, read_as: ReadAs) -> dict[str, str]:
    """What the templates say of the KB. A folder is no dependency: weasel would read all of a release, file by file,
    into memory."""
    place = str(kb.resolve())
    return {
        "kb_json": json.dumps(place),
        "kb_deps_json": json.dumps([place] * kb.is_file()),
        "kb_options": _in_yaml(read_as.as_options()),
    }


def _in_yaml(text: str) -> str:
    """For between single quotes."""
    return text.replace("'", "''")


def _read_kb(path: Path, read_as: ReadAs) -> _Read:
    """Read the KB once.

    Raises:
        PelError: It cannot be read so.
    """
    records, ids, has_types = read_as.records(path), set(), False
    for entity in with_progress(records):
        ids.add(entity.id)
        has_types = has_types or bool(entity.types)
    print_skipped(records.skipped)
    retired = {old for old, successor in records.retired if successor in ids}
    return _Read(len(ids), ids | retired, has_types)


def _mentions(corpus: Path, dev: Path | None, strip_prefix: str) -> tuple[list[GoldMention], list[GoldMention]]:
    """Annotated mentions to learn from and to measure on, parted as `convert` will part them.

    Raises:
        PelError: If there is nothing to learn from.
    """
    from ..mentions.gold import gold_mentions

    docs = _read_docs(corpus, strip_prefix)
    if len(docs) < 2 and not dev:
        raise PelError(f"{corpus} has {len(docs)} document, and the first of every five is held out: name --dev FILE")
    if not any(mention.ids for doc in docs for mention in gold_mentions(doc)):
        what = "its mentions have no id" if any(map(gold_mentions, docs)) else "it has no mention"
        raise PelError(f"{corpus}: there is nothing to learn from, {what}; annotate mentions with ids of the KB")
    kept = docs if dev else [doc for i, doc in enumerate(docs) if i % FOLD]
    parts = (kept, _read_docs(dev, strip_prefix) if dev else docs[::FOLD])
    train, held_out = ([m for m in chain.from_iterable(map(gold_mentions, part)) if m.ids] for part in parts)
    return train, held_out


def _read_docs(path: Path, strip_prefix: str) -> list[Doc]:
    from tqdm import tqdm

    docs = read_gold(path, blank("en"), _format(path), strip_prefix=strip_prefix)
    with warnings_shown():
        return list(tqdm(docs, desc="Documents", unit=" documents", disable=None))


def _check_gold(mentions: list[GoldMention], there: _Read, kb: Path, corpus: Path) -> int:
    """Say how many mentions the KB has an entity for, and return that number.

    Raises:
        PelError: If it is 0.
    """
    linked = sum(not there.ids.isdisjoint(mention.ids) for mention in mentions)
    known = f"of {len(mentions):,} mentions to learn from, {linked:,} have an id of the KB"
    msg.info(f"{there.entities:,} entities; {known}")
    if not linked:
        examples = sorted({id_ for mention in mentions for id_ in mention.ids})[:3]
        raise PelError(
            f"no mention of {corpus} has an id of {kb} (there: {', '.join(examples) or 'none'}; in the KB: "
            f"{', '.join(sorted(there.ids)[:3])}): both must use the same ids; --strip-prefix takes a prefix off"
        )
    return linked


def _check_measurable(mentions: list[GoldMention], corpus: Path, dev: Path | None) -> None:
    """Raise `PelError` unless the development documents have a mention."""
    if mentions:
        return
    if dev:
        raise PelError(f"{dev}: no mention has an id, so nothing can be measured; annotate some, or leave --dev out")
    raise PelError(
        f"{corpus}: the first of every five documents is held out, and none of these has a mention with an id, so "
        "nothing can be measured; annotate some there, or name --dev FILE"
    )


def _format(path: Path) -> Format:
    return format_of(path) or Format.pubtator


def _convert(dev: Path | None, strip_prefix: str) -> list[str]:
    line = 'python -m spacy pel convert "${vars.corpus}" corpus/train.spacy --format ${vars.corpus_format}'
    prefix = f' --strip-prefix "{strip_prefix}"' if strip_prefix else ""
    if dev is None:
        return [f"{line}{prefix} --held-out corpus/dev.spacy --fold {FOLD}"]
    return [
        line + prefix,
        f'python -m spacy pel convert "{dev.resolve()}" corpus/dev.spacy --format {_format(dev).value}{prefix}',
    ]
