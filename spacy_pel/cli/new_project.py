"""`spacy pel new-project`: a spaCy project, ready to run, for a KB and a corpus of one's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from math import ceil
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PelError
from .app import command
from .pipeline import warnings_shown
from .printing import echo, msg

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ..mentions.gold import GoldMention

TEMPLATES = Path(__file__).parent / "templates"
FILES = {"project.yml": "project.yml", "train.cfg": "configs/train.cfg"}
KB_FORMATS = ("jsonl", "csv")
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
BATCH = 32  # of the template's config
STEPS, FEWEST_EPOCHS, MOST_EPOCHS = 300, 2, 20  # epochs for about so many steps; each costs a pass over the KB
FOLD = 5


class _Template(Template):
    """`%{name}`, since `${name}` belongs to spaCy."""

    delimiter = "%"


@command("new-project")
def new_project(
    folder: Annotated[Path, typer.Argument(help="Folder to create", metavar="DIR")],
    kb: Annotated[Path, typer.Option(help="Entity records: .jsonl, .csv or .tsv, plain or .gz")],
    corpus: Annotated[Path, typer.Option(help="Annotated documents: .spacy, or PubTator under any other name")],
    dev: Annotated[Path | None, typer.Option(help="Development documents; else every fifth of CORPUS")] = None,
    encoder: Annotated[str, typer.Option(help="Pretrained encoder: Hugging Face name or folder")] = MINILM,
    strip_prefix: Annotated[str, typer.Option(help="Prefix to take off every id of a PubTator corpus, say UMLS:")] = "",
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that is there already")] = False,
) -> None:
    """Create a spaCy project that trains and evaluates a linker on your own KB and corpus.

    Both are read once, so that what does not fit together is said now, and the training is sized by the corpus. The
    NIL threshold is tuned on the development documents, so measures of NIL on the same ones are a little flattered.

    Example: python -m spacy pel new-project my_linker --kb entities.jsonl --corpus annotated.pubtator
    """
    from ..kb.readers import format_of

    if folder.exists() and not force:
        raise PelError(f"{folder} is there already: choose another folder, or write into it with --force")
    for path in filter(None, (kb, corpus, dev)):
        if not path.is_file():
            raise PelError(f"{path} does not exist, or is no file")
    kb_format = format_of(kb)
    if kb_format not in KB_FORMATS:
        raise PelError(f"{kb}: the name of a KB file must end in .jsonl, .csv or .tsv, or in one of them and .gz")
    if encoder.startswith((".", "/", "~")) and not Path(encoder).is_dir():
        raise PelError(f"--encoder {encoder}: there is no such folder; name one, or a model on the Hugging Face hub")
    with warnings_shown():
        ids = {entity.id for entity in _read_kb(kb, kb_format)}
    train_mentions, dev_mentions = _mentions(corpus, dev, strip_prefix)
    linked = _check_gold(train_mentions, ids, kb, corpus)
    known = [not ids.isdisjoint(mention.ids) for mention in dev_mentions if mention.ids]
    tunings = ["tune-lexical"] * any(known) + ["tune-nil"] * (any(known) and not all(known))
    is_encoder_folder = Path(encoder).is_dir()

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
        "encoder_json": json.dumps(str(Path(encoder).absolute()) if is_encoder_folder else encoder),
        "mentions": f"{linked:,}",
        "steps_per_epoch": steps_per_epoch,
        "epochs": epochs,
        "total_steps": steps_per_epoch * epochs,
    }
    for name, place in FILES.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_Template((TEMPLATES / name).read_text("utf-8")).substitute(values), "utf-8")
    msg.good(f"Wrote {folder}: {epochs} epochs, {steps_per_epoch * epochs:,} steps of {BATCH} mentions")
    echo(f"Next: python -m spacy project run all {folder}")  # in one line, to be copied


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
