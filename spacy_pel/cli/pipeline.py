"""A pipeline loaded for a command, and the linker in it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import PelError, first_line
from .printing import msg

if TYPE_CHECKING:
    from spacy.language import Language

    from ..kb.knowledge_base import KnowledgeBase
    from ..pipeline.linker import PelLinker

GPU_ID = Annotated[int, typer.Option("--gpu-id", "-g", help="GPU to use, or -1 for the CPU")]
CODE = Annotated[
    Path | None,
    typer.Option("--code", "-c", help="Python file to import first, for components that register themselves so"),
]

# What spaCy writes into a pipeline, and what goes into its package, beside its components
OF_PIPELINES = ("config.cfg", "meta.json", "tokenizer", "vocab", "README.md", "LICENSE", "LICENSES_SOURCES")
UNKNOWN_FACTORY = re.compile(r"\[E002\] Can't find factory for '(.+?)'")
# Factories that are only known once their module is imported, or their package installed: the extra and the module
MODULES = {
    "abbreviation_detector": ("scispacy", "scispacy.abbreviation"),
    "hyponym_detector": ("scispacy", "scispacy.hyponym_detector"),
    "scispacy_linker": ("scispacy", "scispacy.linking"),
    "transformer": ("spacy-transformers", "spacy_transformers"),
    "curated_transformer": ("curated-transformers", "spacy_curated_transformers"),
}


def load_linker(
    pipeline: str, *, needs_kb: bool = True, gpu_id: int = -1, code: Path | None = None
) -> tuple[Language, str, PelLinker]:
    """Load a pipeline and find its linker.

    Args:
        pipeline: A folder or an installed package.
        needs_kb: False to load the linker without its KB, in whatever state that is.
        gpu_id: The GPU to load it to; -1 for the CPU.
        code: A Python file to import first.

    Returns:
        The pipeline, the linker's name in it, and the linker.

    Raises:
        PelError: If nothing can be loaded, or unless there is exactly one `pel_linker`, with a KB if needed.
    """
    from ..components import find_linker
    from ..pipeline.kb_of_pipeline import ways_to_give_kb

    use_gpu(gpu_id)
    if code is not None:
        _import(code)
    nlp = _load(pipeline, needs_kb)
    try:
        name, linker = find_linker(nlp, needs_kb=False)
    except PelError as error:
        raise PelError(f"{pipeline}: {error}") from error
    if needs_kb and linker.kb is None:
        ways = [ways_to_give_kb(nlp.path / name), f"`spacy pel index {pipeline} KB OUT`"]
        raise PelError(f"{pipeline}: {linker.why_no_kb}: give it one with {', or with '.join(filter(None, ways))}")
    return nlp, name, linker


def folder_of(pipeline: str) -> Path:
    """The folder of an installed package's pipeline, found as `spacy.load` finds it; else the path `pipeline`."""
    from importlib.util import find_spec

    from spacy.util import get_model_meta, is_package

    module = find_spec(pipeline) if is_package(pipeline) else None
    if module is None or module.origin is None:
        return Path(pipeline)
    package = Path(module.origin).parent
    if not (package / "meta.json").is_file():
        return Path(pipeline)
    meta = get_model_meta(package)
    return package / f"{meta['lang']}_{meta['name']}-{meta['version']}"


def warn_of_package(pipeline: str) -> None:
    """Say what becomes of a change, where `pipeline` is an installed package."""
    from spacy.util import is_package

    if is_package(pipeline):
        msg.warn(
            f"{pipeline} is an installed package: all who use this environment get the change, and the next `pip "
            "install` of it undoes it. To keep it, save the pipeline to a folder (nlp.to_disk) and change that."
        )


def blank(lang: str) -> Language:
    """A pipeline of that language with nothing but its tokenizer.

    Raises:
        PelError: spaCy has none.
    """
    import spacy

    try:
        return spacy.blank(lang)
    except ImportError as error:
        raise PelError(f"--lang {lang}: spaCy has no tokenizer for it, or its extra package is missing") from error


def use_gpu(gpu_id: int) -> None:
    """Work on that GPU; -1: on the CPU.

    Raises:
        PelError: There is no cupy.
    """
    from spacy.cli._util import setup_gpu

    try:
        setup_gpu(gpu_id, silent=True)
    except ValueError as error:  # thinc's, without cupy
        raise PelError(f"--gpu-id {gpu_id}: {error}; see the extra `gpu` of spacy-pel, or leave it out") from error


@contextmanager
def warnings_shown() -> Iterator[None]:
    """What is warned of in this block is printed behind it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            msg.warn(str(warning.message))


@contextmanager
def with_kb_of_its_own(
    nlp: Language, name: str, linker: PelLinker, kb: KnowledgeBase, out: Path, *, indexes: Collection[str]
) -> Iterator[Path]:
    """In this block the linker `name` of `nlp` has a copy of `kb`, with these `indexes` of it, in a folder, which is
    given. Behind it the pipeline is written there too, and the folder becomes `out`, whole or not at all."""
    from ..files.folders import new_folder

    with new_folder(out.absolute()) as folder:
        (folder / name).mkdir()
        with warnings_shown():
            linker.set_kb(kb.copy_to(folder / name / "kb", indexes=indexes))
        yield folder
        linker.save_kb = nlp.get_pipe_config(name)["save_kb"] = True
        nlp.to_disk(folder)


def check_new_pipeline(out: Path, force: bool) -> None:
    """Check that a pipeline can be written to `out`.

    Raises:
        PelError: Something is there, unless it is a pipeline, with nothing else beside it, that `force` replaces.
    """
    from ..files.folders import strangers
    from ..pipeline.component_files import sections_of_config

    if not out.exists():
        return
    if not (out / "config.cfg").is_file():
        raise PelError(f"{out} is there already and is no pipeline; name another folder.")
    sections = sections_of_config(out)
    if not sections:
        raise PelError(f"{out}: its config.cfg names no component; remove the folder yourself, or name another.")
    if others := strangers(out, "|".join(map(re.escape, (*OF_PIPELINES, *sections)))):
        raise PelError(f'{out} holds "{min(others)}", which is no part of a pipeline; name another folder.')
    if not force:
        raise PelError(f"{out} is there already; name another folder or add --force to replace it.")


def write_tuned(nlp: Language, name: str, state: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Write `state` into the `cfg` of a component that was loaded when that held the state `before`, and nothing else
    into its pipeline, and say so.

    Raises:
        PelError: Another command has changed it meanwhile.
    """
    from ..files.parts import STATE, write_state

    write_state(nlp.path / name, state, before=before)
    msg.good(f"Wrote {nlp.path / name / STATE}")


def _import(code: Path) -> None:
    from spacy.util import import_file

    if not code.is_file():
        raise PelError(f"--code {code}: there is no such file")
    try:
        import_file("python_code", code)
    except Exception as error:
        own = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(code)]
        where = f" (line {own[-1]})" if own else ""
        raise PelError(f"--code {code} cannot be imported{where}: {error!r}") from error


def _load(pipeline: str, with_kb: bool) -> Language:
    import spacy

    from ..pipeline.kb_of_pipeline import kb_ignored

    try:
        with nullcontext() if with_kb else kb_ignored():
            return spacy.load(pipeline)
    except PelError:
        raise
    except OSError as error:  # spaCy's E050 and E053, or a file of the pipeline that is missing
        if (folder_of(pipeline) / "config.cfg").is_file():
            reason = first_line(error)
            raise PelError(f"{pipeline} cannot be loaded: {reason}; write it again, or name another") from error
        raise PelError(f"{pipeline} is no pipeline: {_hint(Path(pipeline))}") from error
    except ValueError as error:
        if missing := UNKNOWN_FACTORY.search(str(error)):
            raise PelError(_without(pipeline, missing[1])) from error
        # what spaCy and confection raise for a config that does not hold
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise PelError(f"{pipeline} cannot be loaded: {' '.join(lines[:3])}") from error


def _without(pipeline: str, factory: str) -> str:
    """What to do about a component of `pipeline` whose factory nobody has registered."""
    extra, module = MODULES.get(factory, ("", ""))
    install = f"install spacy-pel[{extra}]" if extra else "install the package that it comes from"
    imported = f"`import {module}`" if module else "an import of its module"
    return (
        f'{pipeline} has a component "{factory}" that spaCy does not know: {install}, and if that is not enough, give '
        f"a file with {imported} as --code (in Python: import it before spacy.load)"
    )


def _hint(path: Path) -> str:
    """What may be meant by a path that is no pipeline."""
    if (path / "model-last").is_dir():
        return f"name {path / 'model-last'}, which `spacy train` wrote there"
    if (path.parent / "config.cfg").is_file():
        return f"it is a part of one, so name {path.parent}"
    if (path / "entities.sqlite").is_file():
        return (
            f"it is a KB; name a pipeline that has it, such as `spacy pel index PIPELINE {path} OUT` writes "
            "(`kb info`, `kb verify` and `kb search` take a KB)"
        )
    there = "it has no config.cfg" if path.exists() else "there is nothing of that name"
    return f"{there}; name a folder that `spacy train` or `spacy pel index` wrote, or an installed package"
