"""`spacy pel kb …`: look into a KB, check it, and change it without training anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import PelError
from ..kb.names.name_rules import LABEL, MIN_LENGTH
from .app import command, pel_app
from .pipeline import CODE, GPU_ID, check_new_pipeline, folder_of, load_linker, warn_of_package, with_kb_of_its_own
from .printing import echo, msg
from .standard_input import STANDARD
from .vocabulary import ReadAs, built_kb, is_pipeline, print_skipped, takes_vocabulary

if TYPE_CHECKING:
    from ..kb.entity import Entity
    from ..kb.knowledge_base import KnowledgeBase
    from ..pipeline.linker import PelLinker
    from ..search.explanation import Explanation

kb_app = typer.Typer(help="Look into a KB, check it, and change it without training anything.", no_args_is_help=True)
pel_app.add_typer(kb_app, name="kb")

KB_PATH = Annotated[
    str, typer.Argument(help="A KB folder, or a pipeline with its KB: a folder or an installed package", metavar="PATH")
]
JSON_LINES = Annotated[
    Path, typer.Argument(help="The file to write, - for the terminal; an existing one is replaced", metavar="OUT.jsonl")
]
PIPELINE = Annotated[str, typer.Argument(help="A pipeline with its KB, which is changed in place")]
MOST_TYPES = 20
MANY_ADDED = 10_000  # entities that a search compares beside its index in under a millisecond


@command("info", kb_app)
def info(path: KB_PATH) -> None:
    """Print what a KB holds: its source, counts by type and source, vectors and their encoder.

    Example: python -m spacy pel kb info linker
    """
    kb = _open(path)
    meta = kb.meta
    notes = {key: meta[key] for key in ("source", "release", "licence") if meta.get(key)}
    counts = {what: f"{count:,}" for what, count in meta["counts"].items()}
    changes = {"added since": f"{kb.n_added:,}", "removed since": f"{kb.n_removed:,}"}
    index = {} if kb.indexes else {"vectors": "none: run `spacy pel index`"}
    for number, (fingerprint, one) in enumerate(kb.indexes.items(), start=1):
        which = f" {number}" if len(kb.indexes) > 1 else ""
        index[f"index{which}"] = f"{one.index_type}, {one.metric}, {one.dim} dimensions"
        missing = f", {one.n_missing:,} entities have none" if one.n_missing else ""
        index[f"vectors{which}"] = f"{one.n_vectors:,}, {one.size_bytes / 1e6:,.1f} MB{missing}"
        index[f"encoder{which}"] = fingerprint
    names = {"names": _names(meta.get("names"))}
    msg.table(
        {"path": str(kb.path)} | notes | counts | changes | names | index | {"size": f"{kb.size_bytes / 1e6:,.1f} MB"}
    )
    called = meta.get("type_names", {})
    types = [(kind, called.get(kind, ""), f"{count:,}") for kind, count in kb.type_counts().items()]
    sources = [(source or "-", "", f"{count:,}") for source, count in kb.source_counts().items()]
    codes = [(vocabulary, "", f"{count:,}") for vocabulary, count in kb.code_counts().items()]
    for header, rows in (("Type", types), ("Source", sources), ("Codes", codes)):
        if rows:
            rest = [("…", f"{len(rows) - MOST_TYPES} more", "")] if len(rows) > MOST_TYPES else []
            columns = (header, "", "Entities")
            msg.table([*rows[:MOST_TYPES], *rest], header=columns, aligns=("l", "l", "r"), divider=True, max_col=60)


@command("search", kb_app)
def search(
    path: KB_PATH,
    text: Annotated[str, typer.Argument(help="A name")],
    context: Annotated[str, typer.Option(help="A sentence that holds TEXT: the pipeline ranks candidates in it")] = "",
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="Candidates to print")] = 10,
    code: CODE = None,
) -> None:
    """Print the entities with the name or alias TEXT, and, given a pipeline, what that finds best.

    Example: python -m spacy pel kb search linker "cold" --context "The cold lasted a week."
    """
    if not text.strip():
        raise PelError("TEXT is empty; give a name.")
    folder = folder_of(path)
    kb = _open(path)
    if context and not is_pipeline(folder):
        raise PelError(f"--context: {path} is a KB, which has no encoder to read it; name a pipeline.")
    rows = [_row(entity, "by name") for entity in kb.named(text)]
    found = _explain(path, text, context or text, top_k, code) if is_pipeline(folder) else None
    if found:
        rows += [_row(kb[candidate.id], f"{candidate.score:.3f}") for candidate in found.candidates]
    if not rows:
        why = "name a pipeline to search with." if found is None else found.reason
        raise PelError(f'{path}: no entity has the name "{text}"; {why}')
    msg.table(rows, header=("Id", "Name", "Types", "Score"), divider=True, max_col=60)
    if found:
        msg.text(str(replace(found, candidates=[])))


@command("verify", kb_app)
def verify(path: KB_PATH) -> None:
    """Read a KB from end to end: hashes of records and vectors, counts, every vector finite and of unit length.

    Example: python -m spacy pel kb verify linker
    """
    from tqdm import tqdm

    from ..kb.verify import verify as problems_of

    kb = _open(path)
    with tqdm(total=len(kb), desc="Records", unit=" entities") as bar:
        problems = problems_of(kb, bar.update)
    if not kb.records.has_hashes:
        msg.warn("An older spacy-pel wrote this KB without hashes of its records: they were read, not compared")
    if problems:
        raise PelError("; ".join(problems) + ": build the KB again, or index it again if only vectors are wrong.")
    msg.good(f"{kb.path}: {len(kb):,} entities, all is well")


@command("compact", kb_app)
def compact(path: KB_PATH) -> None:
    """Write the vectors of a KB that was added to and removed from into one file again.

    Example: python -m spacy pel kb compact linker
    """
    kb = _open(path)
    warn_of_package(path)
    added, removed = kb.n_added, kb.n_removed
    kb.compact()
    msg.good(f"{kb.path}: took in {added:,} added entities, closed {removed:,} gaps")


@command("add", kb_app)
@takes_vocabulary
def add(
    pipeline: PIPELINE,
    file: Annotated[Path, typer.Argument(help="Records of new entities")],
    code: CODE = None,
    gpu_id: GPU_ID = -1,
    *,
    read_as: ReadAs,
) -> None:
    """Encode the new entities in FILE and add them to the KB of PIPELINE, all or none. FILE is always read as with
    --strict.

    Example: python -m spacy pel kb add linker new.jsonl
    """
    linker, kb = _linker(pipeline, gpu_id, code)
    _report(kb, f"added {_put(linker.add_entities, read_as, file)}")


@command("update", kb_app)
@takes_vocabulary
def update(
    pipeline: PIPELINE,
    file: Annotated[Path, typer.Argument(help="Records that replace those with the same ids")],
    code: CODE = None,
    gpu_id: GPU_ID = -1,
    *,
    read_as: ReadAs,
) -> None:
    """Encode the entities in FILE and put them in the place of those with the same ids, all or none. FILE is always
    read as with --strict.

    Example: python -m spacy pel kb update linker changed.jsonl
    """
    linker, kb = _linker(pipeline, gpu_id, code)
    _report(kb, f"updated {_put(linker.update_entities, read_as, file)}")


@command("remove", kb_app)
def remove(
    pipeline: PIPELINE,
    ids: Annotated[list[str], typer.Argument(help="Ids of the entities to remove")],
    code: CODE = None,
) -> None:
    """Remove entities from the KB of PIPELINE, all or none.

    Example: python -m spacy pel kb remove linker D001241 D009203
    """
    linker, kb = _linker(pipeline, -1, code)
    linker.remove_entities(ids)
    _report(kb, f"removed {_many(len(set(ids)))}")


@command("learn-names", kb_app)
def learn_names(
    pipeline: Annotated[str, typer.Argument(help="A pipeline with its KB, which is changed in place, unless OUT is")],
    corpus: Annotated[Path, typer.Argument(help="A corpus with gold mentions, .spacy or .jsonl")],
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the pipeline here, and leave PIPELINE as it is")
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-F", help="Replace the pipeline at OUT")] = False,
    code: CODE = None,
    gpu_id: GPU_ID = -1,
) -> None:
    """Give entities the texts of their annotated mentions in CORPUS as further names, all or none. Only these entities
    are encoded anew, and nothing is trained: train before, and tune afterwards, on other documents.

    Example: python -m spacy pel kb learn-names linker corrected.jsonl

    Example: python -m spacy pel kb learn-names training/linker corpus/train.spacy --output linker
    """
    from ..components import find_ranker
    from ..corpora.gold_corpus import read_gold

    if out is not None:
        check_new_pipeline(out, force)
    elif force:
        raise PelError(f"--force replaces what is at --output: give --output too, or leave it out to change {pipeline}")
    nlp, name, linker = load_linker(pipeline, gpu_id=gpu_id, code=code)
    docs = list(read_gold(corpus, nlp))
    kb = linker.require_kb()
    try:
        if out is None:
            warn_of_package(pipeline)
            learnt = linker.learn_names(docs)
        else:
            with with_kb_of_its_own(nlp, name, linker, kb, out, indexes=list(linker.fingerprints.values())):
                learnt = linker.learn_names(docs)
    except PelError as error:
        raise PelError(f"{corpus}: {error}") from error
    names = f"{learnt.n_names:,} {'name' if learnt.n_names == 1 else 'names'}"
    msg.good(f"{kb.path if out is None else out}: {_many(learnt.n_entities)} got {names} from {corpus}")
    if not learnt.n_names:
        return
    where = pipeline if out is None else str(out)
    _tell_of_changes(_open(where), where)
    ranked = ", and at last `tune-ranker`" if find_ranker(nlp) else ""
    msg.text(f"Fit what names count again, on other documents: `spacy pel tune-lexical`, and then `tune-nil`{ranked}.")


@command("patterns", kb_app)
def patterns(
    path: KB_PATH,
    out: JSON_LINES,
    label: Annotated[str, typer.Option(help="Label that the found spans get")] = LABEL,
    min_length: Annotated[int, typer.Option(help="Leave shorter names out", min=1)] = MIN_LENGTH,
    lang: Annotated[str, typer.Option(help="Language whose stop words are left out")] = "en",
) -> None:
    """Write the names of a KB as patterns of spaCy's `span_ruler` or `entity_ruler`, which find mentions without NER.

    Example: python -m spacy pel kb patterns linker patterns.jsonl
    """
    import srsly
    from spacy.util import get_lang_class

    from ..kb.names.patterns import patterns as patterns_of

    try:
        stop_words = get_lang_class(lang).Defaults.stop_words
    except ImportError as error:
        raise PelError(f"--lang {lang}: spaCy does not know this language") from error
    found = patterns_of(_open(path).entities(), label=label, min_length=min_length, stop_words=stop_words)
    _write_lines(out, map(srsly.json_dumps, found), "{:,} patterns".format)


@command("export", kb_app)
def export(
    path: KB_PATH,
    out: JSON_LINES,
) -> None:
    """Write the entities of a KB, with all that was added since, as JSON lines that `build-kb` reads.

    Example: python -m spacy pel kb export linker entities.jsonl
    """
    import srsly

    if out.suffix != ".jsonl" and out != STANDARD:
        raise PelError(f"{out}: what is written are JSON lines; name a .jsonl file, or - for the terminal.")
    kb = _open(path)
    lines = (srsly.json_dumps({key: value for key, value in asdict(one).items() if value}) for one in kb.entities())
    _write_lines(out, lines, _many)


def _write_lines(out: Path, lines: Iterable[str], many: Callable[[int], str]) -> None:
    from ..files.atomic import check_writable, write_lines

    if out == STANDARD:
        for line in lines:
            echo(line.replace("\x7f", "\\u007f"))  # of what `echo` shows otherwise, all that JSON leaves as it is
        return
    check_writable(out)
    msg.good(f"Wrote {many(write_lines(out, lines))} to {out}")


def _names(index: dict[str, Any] | None) -> str:
    """What is said of the index of the names in `meta`."""
    if index is None:
        return "not indexed: run `spacy pel kb compact` to search by them"
    if index["rows"] or "file" in index:
        return f"{index['names']:,} searched by 3-grams"
    return "not searched by 3-grams, since an older spacy-pel indexed them: run `spacy pel kb compact`"


def _open(path: str) -> KnowledgeBase:
    """The KB at `path`, or that of the pipeline at `path` or of that name."""
    from ..kb.knowledge_base import KnowledgeBase

    folder = folder_of(path)
    if not folder.exists():
        raise PelError(
            f"{path}: there is nothing of that name; name a KB folder, the folder of a pipeline with its KB, or an "
            "installed package."
        )
    kb = built_kb(folder)
    return KnowledgeBase(folder) if kb is None else kb  # which says what is wrong with it


def _linker(pipeline: str, gpu_id: int, code: Path | None) -> tuple[PelLinker, KnowledgeBase]:
    """The linker whose KB is to be changed, and that KB."""
    _, _, linker = load_linker(pipeline, gpu_id=gpu_id, code=code)
    assert linker.kb is not None  # load_linker saw to it
    warn_of_package(pipeline)
    return linker, linker.kb


def _row(entity: Entity, score: str) -> tuple[str, str, str, str]:
    return entity.id, entity.name, ", ".join(entity.type_names or entity.types), score


def _explain(pipeline: str, text: str, context: str, top_k: int, code: Path | None) -> Explanation:
    from spacy.tokens import Span

    from ..components import read_upstream
    from ..mentions.tokens import check_length

    nlp, _, linker = load_linker(pipeline, code=code)
    check_length(nlp, context)
    starts = [match.start() for match in re.finditer(re.escape(text), context)]
    if not starts:
        raise PelError(f'--context: "{context}" does not hold "{text}"; give a sentence with it.')
    (doc,) = read_upstream(nlp, [nlp.make_doc(context)])
    whole = (doc.char_span(start, start + len(text)) for start in starts)
    widened = doc.char_span(starts[0], starts[0] + len(text), alignment_mode="expand")
    span = next((one for one in whole if one is not None), widened)
    assert isinstance(span, Span)
    return linker.explain(span, top_k)


def _put(put: Callable[[list[Entity]], None], read_as: ReadAs, file: Path) -> str:
    """Give `put` the records of `file`; how many they were."""
    from ..kb.readers.records import LONGEST_NAME, NO_NAME

    records = read_as.records(file, strict=True)
    entities = list(records)
    if nameless := records.skipped[NO_NAME]:
        raise PelError(
            f"{file}: {_many(nameless)} without a name of up to {LONGEST_NAME:,} characters; give one to each."
        )
    put(entities)
    print_skipped(records.skipped)
    if retired := sum(1 for _ in records.retired):
        msg.text(f"{retired:,} retired ids of {file} are not kept: only `build-kb` reads them.")
    return _many(len(entities))


def _report(kb: KnowledgeBase, done: str) -> None:
    msg.good(f"{kb.path}: {done}; it has {len(kb):,} now")
    _tell_of_changes(kb, str(kb.path))


def _tell_of_changes(kb: KnowledgeBase, where: str) -> None:
    """Say what changes have left to do in `kb`, which is that of `where`."""
    if kb.n_added > MANY_ADDED:
        msg.text(
            f"{kb.n_added:,} entities were added since its index was written, and every search compares all of them: "
            f"`spacy pel kb compact {where}` takes them into the index."
        )
    if missing := max((index.n_missing for index in kb.indexes.values()), default=0):
        msg.warn(
            f"{where}: other linkers read this KB too, and {missing:,} of its entities have no vectors of theirs: they "
            "cannot find these until they index the KB again (`spacy pel kb info` shows it)"
        )


def _many(count: int) -> str:
    return f"{count:,} {'entity' if count == 1 else 'entities'}"
