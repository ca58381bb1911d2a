"""`spacy pel new-linker`: a vocabulary → a pipeline that links at once, with no annotated mention."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import PelError
from .app import command
from .encoder import ENCODER, TEMPLATE, encoder_named
from .index import Vectors
from .pipeline import GPU_ID, blank, check_new_pipeline, use_gpu, warnings_shown
from .printing import echo, msg
from .vocabulary import ReadAs, takes_vocabulary

if TYPE_CHECKING:
    from spacy.language import Language

    from ..kb.knowledge_base import KnowledgeBase

LINKER = "pel_linker"


@command("new-linker")
@takes_vocabulary
def new_linker(
    vocabulary: Annotated[Path, typer.Argument(help="Entity records in any format of build-kb, or a KB folder")],
    out: Annotated[Path, typer.Argument(help="The folder to write the pipeline to")],
    encoder: ENCODER = None,
    learn: Annotated[bool, typer.Option("--learn", help="Train on the names of the vocabulary first")] = False,
    texts: Annotated[
        list[Path] | None,
        typer.Option(help="Unannotated texts (.txt and .jsonl: one a line; .spacy) to read the names in"),
    ] = None,
    find: Annotated[bool, typer.Option("--find", help="Find the mentions too, by the names of the vocabulary")] = False,
    lang: Annotated[str, typer.Option(help="Language whose tokenizer and stop words are used")] = "en",
    template: TEMPLATE = None,
    vectors: Annotated[
        Vectors | None, typer.Option(help="What to encode: names, entity (its text), or both [default: by the KB]")
    ] = None,
    source_note: Annotated[str, typer.Option("--source", help="Note: where the records come from")] = "",
    release: Annotated[str, typer.Option("--release", help="Note: their release")] = "",
    licence: Annotated[str, typer.Option("--licence", help="Note: their licence")] = "",
    force: Annotated[bool, typer.Option("--force", "-F", help="Replace the pipeline at OUT")] = False,
    gpu_id: GPU_ID = -1,
    *,
    read_as: ReadAs,
) -> None:
    """Make a pipeline that links to a vocabulary, without any annotated mention: build the KB, and encode it.

    Names count first: exact ones, parts of them, and the long forms of abbreviations; the vectors of a pretrained
    encoder help where names do not decide. Nothing is NIL until a threshold is tuned. OUT is written whole or not at
    all.

    Example: python -m spacy pel new-linker products.csv linker --find

    Example: python -m spacy pel new-linker mesh.jsonl linker --learn --texts abstracts.txt

    Example: python -m spacy pel new-linker uberon.obo linker --encoder cambridgeltl/SapBERT-from-PubMedBERT-fulltext
    """
    from ..files.folders import new_folder
    from .from_names import choose, learn_names, started

    start = perf_counter()
    check_new_pipeline(out, force)
    source = vocabulary.resolve()
    if out.resolve() in (source, *source.parents):
        raise PelError(f"{vocabulary} is OUT, or lies in it, and would be replaced: choose another for OUT")
    blank(lang)  # before a large vocabulary is read
    if texts and not learn:
        raise PelError("--texts are read with --learn; give both, or neither.")
    for path in texts or ():
        if not path.exists():
            raise PelError(f"--texts {path} does not exist")
        if path.is_file() and not path.stat().st_size:
            raise PelError(f"--texts {path} is empty; leave it out, or name a file with texts")
    use_gpu(gpu_id)
    name = encoder_named(encoder)
    with new_folder(out.absolute()) as folder, warnings_shown():
        place = folder / LINKER / "kb"
        notes = {"source": source_note, "release": release, "licence": licence}
        kb = read_as.kb_at(place, vocabulary, notes)
        chosen = choose(kb, template, vectors and vectors.value)
        msg.info(chosen.why)
        nlp = started(kb, name, chosen, lang=lang, texts=texts or [])
        if learn:
            learn_names(nlp, gpu_id)
        linker: Any = nlp.get_pipe(LINKER)
        linker.index()
        if find:
            nlp.add_pipe("pel_finder", before=LINKER)
        n_entities = len(kb)  # it stands elsewhere in a moment
        _write(nlp, kb, folder, out)
    msg.good(f"{out}: {n_entities:,} entities in {perf_counter() - start:.0f} s")
    echo(_next(out, find))


def _write(nlp: Language, kb: KnowledgeBase, folder: Path, out: Path) -> None:
    """Save the pipeline in the new `folder`, with the paths that it will have as `out`."""
    nlp.config["paths"]["kb"] = str(out.absolute() / kb.path.relative_to(folder))
    nlp.to_disk(folder)


def _next(out: Path, find: bool) -> str:
    finds = "" if find else "  (after a component that finds mentions, such as an NER; --find adds one)"
    return (
        f'Load it:    nlp = spacy.load("{out}"){finds}\n'
        f"Correct it: python -m spacy pel link {out} texts.txt linked.jsonl, and mend the ids in linked.jsonl\n"
        f"Tune it:    python -m spacy pel tune-lexical {out} linked.jsonl, then tune-nil: until then nothing is NIL"
    )
