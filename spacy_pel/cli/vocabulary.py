"""A vocabulary as every command reads it: the same options, for entity records in any format or a KB that is built."""

import csv
import inspect
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import wraps
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ..errors import PelError
from .printing import msg

if TYPE_CHECKING:
    from ..kb.entity import Entity
    from ..kb.knowledge_base import KnowledgeBase
    from ..kb.readers.records import Records

Several = list[str] | None
NOTES = ("source", "release", "licence")


@dataclass(frozen=True)
class ReadAs:
    """The options that say how to read a vocabulary; `takes_vocabulary` gives them to a command."""

    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Of the entity records: jsonl, csv (.tsv: tabs), umls, mesh, obo, scispacy, zeshel, kilt [default: by "
            "the suffix]",
        ),
    ] = None
    language: Annotated[str, typer.Option(help="umls: language of the names [default: ENG]")] = ""
    sources: Annotated[Several, typer.Option(help="umls: vocabularies to take (MSH,NCI)")] = None
    types: Annotated[Several, typer.Option(help="umls: semantic types to take (T047,T191); zeshel: worlds")] = None
    subtree: Annotated[bool, typer.Option("--subtree", help="umls: with all types under --types")] = False
    preset: Annotated[str, typer.Option(help="umls: st21pv, the types and vocabularies of MedMentions ST21pv")] = ""
    definition_sources: Annotated[
        Several, typer.Option(help="umls: vocabularies whose definition is preferred, in order")
    ] = None
    id_prefix: Annotated[str, typer.Option(help="obo: take the xref with this prefix as id (UMLS)")] = ""
    scopes: Annotated[Several, typer.Option(help="obo: scopes of the synonyms to take [default: EXACT]")] = None
    columns: Annotated[Several, typer.Option(help="csv: columns with other names (id=CUI,name=STR)")] = None
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first record that is not right")] = False

    def records(self, source: Path, *, strict: bool = False) -> "Records":
        """The records of the file or folder `source`, or of the KB that is built there.

        Args:
            source: What to read.
            strict: The first record that is not right is an error, be `--strict` given or not.

        Raises:
            PelError: It cannot be read so.
        """
        from ..kb.readers import read
        from ..kb.readers.records import Records

        if (built := built_kb(source)) is not None:
            self._check_built(source)
            notes = {key: built.meta.get(key, "") for key in NOTES}
            return Records(built.entities(), retired=built.successors().items(), notes=notes)
        options = asdict(self)
        format = options.pop("format")
        values = {key: split_values(value) if isinstance(value, list) else value for key, value in options.items()}
        return read(format, source, **values | {"strict": self.strict or strict})

    def as_options(self) -> str:
        """Those that were given, as a shell takes them, each behind a space."""
        given = {f"--{name.replace('_', '-')}": value for name, value in asdict(self).items() if value}
        return "".join(f" {name}" if value is True else f" {name} {_quoted(value)}" for name, value in given.items())

    def kb_at(self, path: Path, vocabulary: Path, notes: dict[str, Any]) -> "KnowledgeBase":
        """The KB of `vocabulary`, written to the folder `path` without vectors: of its records, or a copy if it is a
        KB, or a pipeline with one. What was left out is printed.

        Args:
            path: The folder.
            vocabulary: What to read.
            notes: Kept with the KB, under the keys `NOTES`, "" for none; of a KB that is built its own are kept.

        Raises:
            PelError: It cannot be read so, or there are notes for a KB that is built.
        """
        from ..kb.knowledge_base import KnowledgeBase

        if (built := built_kb(vocabulary)) is not None:
            self._check_built(vocabulary)
            for key, note in notes.items():
                if note:
                    raise PelError(
                        f"--{key}: {vocabulary} is a KB that is built already, with notes of its own; leave it out, or "
                        f"write a copy with other notes with `spacy pel build-kb {vocabulary} OUT --{key} ...` first."
                    )
            return built.copy_to(path, indexes=())
        records = self.records(vocabulary)
        kb = KnowledgeBase.create(path, with_progress(records), retired=records.retired, **notes)
        print_skipped(records.skipped)
        return kb

    def _check_built(self, source: Path) -> None:
        given = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        if given:
            raise PelError(f"--{given[0].replace('_', '-')}: {source} is a KB that is built already; leave it out.")


def takes_vocabulary(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `ReadAs`; `function` gets them as one, its argument `read_as`."""
    hints = get_type_hints(function, include_extras=True)
    shared = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(ReadAs)
    ]
    own = inspect.signature(function).parameters.values()
    kept = [one.replace(annotation=hints[one.name]) for one in own if one.name != "read_as"]

    @wraps(function)
    def run(**given: Any) -> Any:
        read_as = ReadAs(**{one.name: given.pop(one.name) for one in shared})
        return function(**given, read_as=read_as)

    parameters = [*(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in kept), *shared]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def built_kb(path: Path) -> "KnowledgeBase | None":
    """The KB at `path`, or that of the pipeline at `path`, found without loading the pipeline; None where there is
    neither.

    Raises:
        PelError: It is a pipeline with more than one KB, or with none, or its KB is not where it was.
    """
    from ..kb.knowledge_base import KnowledgeBase
    from ..pipeline.component_files import sections_of_config
    from ..pipeline.kb_of_pipeline import find_kb, ways_to_give_kb

    if is_pipeline(path):
        sections = sections_of_config(path)
        linkers = [name for name in sorted(sections) if sections[name].get("factory") == "pel_linker"]
        found = [(kb, path / name) for name in linkers if (kb := find_kb(path / name)[0])]
        if not found:
            raise PelError(f"{path} has no pipe with a KB; run `spacy pel index` first.")
        if len(found) > 1:
            raise PelError(f"{path} has {len(found)} KBs; name one of them: {', '.join(str(kb) for kb, _ in found)}.")
        ((kb, component),) = found
        if not kb.exists() and (ways := ways_to_give_kb(component)):
            raise PelError(f"{path}: the KB of {component.name} is not at {kb} any more: give it one with {ways}")
        return KnowledgeBase(kb)
    return KnowledgeBase(path) if (path / "entities.sqlite").is_file() else None


def is_pipeline(path: Path) -> bool:
    return (path / "config.cfg").is_file()


def _quoted(value: str | list[str]) -> str:
    if isinstance(value, str):
        return shlex.quote(value)
    line = StringIO()
    csv.writer(line, lineterminator="").writerow(split_values(value))
    return shlex.quote(line.getvalue())


def split_values(values: Several) -> list[str]:
    """The values of an option that may be repeated and may hold several, with commas between them. One with a comma
    within stands in double quotes."""
    given = chain.from_iterable(csv.reader(value.splitlines(), skipinitialspace=True) for value in values or ())
    return [part.strip() for parts in given for part in parts if part.strip()]


def print_skipped(skipped: Counter[str]) -> None:
    for what, count in skipped.most_common():
        msg.warn(f"Left out: {count:,} {what}")


def with_progress(entities: "Iterable[Entity]") -> "Iterator[Entity]":
    """A bar that appears with the first entity, not before a refusal."""
    from tqdm import tqdm

    yield from tqdm(entities, desc="Entities", unit=" entities")
