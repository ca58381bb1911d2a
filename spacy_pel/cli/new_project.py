"""`spacy pel new-project`: a spaCy project, ready to run, for a KB of one's own, with a corpus or without."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator
from itertools import chain
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import PelError
from .app import command
from .encoder import TEMPLATE, Template, check_encoder, template_of
from .pipeline import warnings_shown
from .printing import echo, msg

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ..mentions.gold import GoldMention

TEMPLATES = Path(__file__).parent / "templates"
FILES = {"project.yml": "project.yml", "train.cfg": "configs/train.cfg"}
FILES_WITHOUT_CORPUS = {"names_project.yml": "project.yml"}
KB_FORMATS = ("jsonl", "csv")
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
BATCH = 32  # of the template's config
STEPS, FEWEST_EPOCHS, MOST_EPOCHS = 300, 2, 20  # epochs for about so many steps; each costs a pass over the KB
FOLD = 5
TUNE_UNTRAINED = (
    '      - "python -m spacy pel tune-lexical training/untrained-linker corpus/dev.spacy --gpu-id ${vars.gpu_id}"\n'
)


class _Template(string.Template):
    """`%{name}`, since `${name}` belongs to spaCy."""

    delimiter = "%"


@command("new-project")
def new_project(
    folder: Annotated[Path, typer.Argument(help="Folder to create", metavar="DIR")],
    kb: Annotated[Path, typer.Option(help="Entity records: .jsonl, .csv or .tsv; without --corpus also .obo or a KB")],
    corpus: Annotated[
        Path | None, typer.Option(help="Annotated documents: .spacy, or PubTator under any other name")
    ] = None,
    dev: Annotated[Path | None, typer.Option(help="Development documents; else every fifth of CORPUS")] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Pretrained encoder: Hugging Face name or folder [default: all-MiniLM-L6-v2]")
    ] = None,
    template: TEMPLATE = None,
    strip_prefix: Annotated[str, typer.Option(help="Prefix to take off every id of a PubTator corpus, say UMLS:")] = "",
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that is there already")] = False,
) -> None:
    """Create a spaCy project that trains and evaluates a linker on your own KB and corpus; without a corpus, one that
    makes a linker of the KB alone, as `new-linker` does.

    Both are read once, so that what does not fit together is said now, and the training is sized by the corpus. The
    NIL threshold is tuned on the development documents, so measures of NIL on the same ones are a little flattered.

    Example: python -m spacy pel new-project my_linker --kb entities.jsonl --corpus annotated.pubtator

    Example: python -m spacy pel new-project my_linker --kb products.csv
    """
    from ..kb.readers import format_of

    if folder.exists() and not force:
        raise PelError(f"{folder} is there already: choose another folder, or write into it with --force")
    if encoder is not None:
        check_encoder(encoder)
    if corpus is None:
        _write_without_corpus(folder, kb, encoder, template, dev)
        return
    for path in filter(None, (kb, corpus, dev)):
        if not path.is_file():
            raise PelError(f"{path} does not exist, or is no file")
    kb_format = format_of(kb)
    if kb_format not in KB_FORMATS:
        raise PelError(f"{kb}: the name of a KB file must end in .jsonl, .csv or .tsv, or in one of them and .gz")
    with warnings_shown():
        types_of = {entity.id: entity.types for entity in _read_kb(kb, kb_format)}
    ids = set(types_of)
    train_mentions, dev_mentions = _mentions(corpus, dev, strip_prefix)
    linked = _check_gold(train_mentions, ids, kb, corpus)
    known = [not ids.isdisjoint(mention.ids) for mention in dev_mentions if mention.ids]
    tunings = ["tune-lexical"] * any(known) + ["tune-nil"] * (any(known) and not all(known))

    steps_per_epoch = ceil(linked / BATCH)
    epochs = min(max(FEWEST_EPOCHS, round(STEPS / steps_per_epoch)), MOST_EPOCHS)
    values = {
        "title_json": json.dumps(f"Entity linking: {kb.name} and {corpus.name}"),
        "kb_json": json.dumps(str(kb.resolve())),
        "kb_format": kb_format,
        "corpus_json": json.dumps(str(corpus.resolve())),
        "corpus_format": _format(corpus),
        "convert_script": "\n".join(f"      - {json.dumps(line)}" for line in _convert(dev, strip_prefix)),
        "tune_steps": "".join(f"    - {step}\n" for step in tunings),
        "encoder_json": json.dumps(_absolute(encoder or MINILM)),
        "tune_untrained": TUNE_UNTRAINED * any(known),
        "template": template_of(template, any(types_of.values())),
        "mentions": f"{linked:,}",
        "steps_per_epoch": steps_per_epoch,
        "epochs": epochs,
        "total_steps": steps_per_epoch * epochs,
    }
    _write(folder, FILES, values)
    msg.good(f"Wrote {folder}: {epochs} epochs, {steps_per_epoch * epochs:,} steps of {BATCH} mentions")
    echo(f"Next: python -m spacy project run all {folder}")  # in one line, to be copied


def _write_without_corpus(
    folder: Path, kb: Path, encoder: str | None, template: Template | None, dev: Path | None
) -> None:
    """Write the project that makes a linker of the KB alone.

    Raises:
        PelError: The KB is not there, or there are development documents.
    """
    if dev is not None:
        raise PelError(f"--dev {dev}: there is no training to measure; give --corpus too, or `spacy pel evaluate` it")
    if not kb.exists():
        raise PelError(f"{kb} does not exist; name entity records or a KB folder")
    options = "" if encoder is None else f' --encoder "{_absolute(encoder)}"'
    options += "" if template is None else f" --template {template.value}"
    values = {
        "title_json": json.dumps(f"Entity linking: {kb.name}"),
        "kb_json": json.dumps(str(kb.resolve())),
        "options": options,
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


def _read_kb(path: Path, format: str) -> Iterator:
    from tqdm import tqdm

    from ..kb.readers import read

    yield from tqdm(read(format, path), desc="Entities", unit=" entities", disable=None)


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
    import spacy

    from ..corpora.docbin import read_docs
    from ..corpora.pubtator import PubTatorReader

    nlp = spacy.blank("en")
    if _format(path) == "spacy":
        return list(read_docs(path, nlp.vocab))
    return list(PubTatorReader(path, nlp, strip_prefix=strip_prefix))


def _check_gold(mentions: list[GoldMention], ids: set[str], kb: Path, corpus: Path) -> int:
    """Say how many mentions the KB has an entity for, and return that number.

    Raises:
        PelError: If it is 0.
    """
    linked = sum(not ids.isdisjoint(mention.ids) for mention in mentions)
    msg.info(f"{len(ids):,} entities; of {len(mentions):,} mentions to learn from, {linked:,} have an id of the KB")
    if not linked:
        examples = sorted({id_ for mention in mentions for id_ in mention.ids})[:3]
        raise PelError(
            f"no mention of {corpus} has an id of {kb} (there: {', '.join(examples) or 'none'}; "
            f"in the KB: {', '.join(sorted(ids)[:3])}): both must use the same ids; --strip-prefix takes a prefix off"
        )
    return linked


def _format(path: Path) -> str:
    return "spacy" if path.suffix == ".spacy" else "pubtator"


def _convert(dev: Path | None, strip_prefix: str) -> list[str]:
    line = 'python -m spacy pel convert "${vars.corpus}" corpus/train.spacy --format ${vars.corpus_format}'
    prefix = f' --strip-prefix "{strip_prefix}"' if strip_prefix else ""
    if dev is None:
        return [f"{line}{prefix} --held-out corpus/dev.spacy --fold {FOLD}"]
    return [
        line + prefix,
        f'python -m spacy pel convert "{dev.resolve()}" corpus/dev.spacy --format {_format(dev)}{prefix}',
    ]
