"""`spacy pel ground`: a list of terms, without documents, to ids."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PelError
from .app import command
from .codes import CODES, vocabularies_given
from .out_file import check_out
from .pipeline import CODE, GPU_ID, load_linker
from .printing import echo
from .standard_input import STANDARD, format_of, standard_input

if TYPE_CHECKING:
    from spacy.language import Language

    from ..kb.knowledge_base import KnowledgeBase
    from ..linking.output import CodesOf
    from ..linking.term_list import TermList
    from ..mentions.links import Link


class Format(str, Enum):
    """The formats that can be read."""

    csv = "csv"
    tsv = "tsv"
    txt = "txt"


@command("ground")
def ground(
    pipeline: Annotated[str, typer.Argument(help="A pipeline with a pel_linker and its KB")],
    source: Annotated[
        Path,
        typer.Argument(help=".csv or .tsv with a header, or .txt, a term a line; - is standard input", metavar="TERMS"),
    ],
    out: Annotated[Path, typer.Argument(help=".csv or .tsv to write; - is standard output, as CSV")] = STANDARD,
    column: Annotated[str | None, typer.Option(help="Of the terms [default: the only one there is]")] = None,
    format: Annotated[Format | None, typer.Option(help="Of TERMS [default: by the suffix; txt for -]")] = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="Candidates to write of each term")] = 1,
    codes: CODES = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Terms that are linked together")] = 256,
    force: Annotated[bool, typer.Option("--force", "-F", help="Replace the file at OUT")] = False,
    code: CODE = None,
    gpu_id: GPU_ID = -1,
) -> None:
    """Link a list of terms, without any text around them. OUT has the rows of TERMS, in their order and with all their
    columns, and kb_id ("NIL" where the KB has no entity), kb_name, kb_score (of the best candidate), kb_prob where
    tune-nil has been, kb_named (how many entities have the term as a name), and with --codes kb_ICD10CM and so on, with
    "|" between several codes.

    A --top-k of 3 adds kb_id_1, kb_name_1, kb_score_1 to kb_score_3: the best candidates, also of a term that is NIL.

    Each term is a mention that is all of its text. Only the linker is run, and a ranker behind it. Equal terms are
    linked once. A row without a term gets empty cells.

    Example: python -m spacy pel ground linker diagnoses.csv coded.csv --column diagnosis --codes ICD10CM

    Example: echo "heart attack" | python -m spacy pel ground linker -
    """
    format_name = format.value if format else format_of(source, Format, Format.txt)
    out_format = _checked_out(out, source, force)
    terms = _read(source, format_name, column)
    nlp, name, linker = load_linker(pipeline, gpu_id=gpu_id, code=code)

    from tqdm import tqdm

    from ..evaluation.reranked import with_ranker
    from ..files.atomic import write_atomically
    from ..kb.codes import codes_finder
    from ..linking.term_list import DELIMITERS, other_delimiter, table_bytes
    from ..linking.terms import link_terms

    if top_k > linker.top_k:
        raise PelError(
            f"--top-k {top_k} is more than the {linker.top_k} candidates that the linker searches (its top_k); lower "
            f"it, or raise top_k of [components.{name}] in the config.cfg of {pipeline}."
        )
    _check_lengths(nlp, terms, source)
    if mark := other_delimiter(terms.columns, format_name):
        echo(
            f'⚠ {source}: its header, "{terms.columns[0]}", is read as one column, but {mark!r} seems to part the '
            f"cells: if so, save it with {DELIMITERS[format_name]!r} between them.",
            err=True,
        )
    kb = linker.require_kb()
    if len(terms.columns) == 1 and format_name in DELIMITERS and kb.named(terms.columns[0]):
        echo(
            f'⚠ {source}: its first row, "{terms.columns[0]}", is read as the header, and the KB has that name: if it '
            "is a term, add a header or --format txt.",
            err=True,
        )
    vocabularies = vocabularies_given(kb, codes)
    linker.max_candidates = max(top_k, linker.max_candidates)
    with_prob = with_ranker(nlp, linker).tuned.gives_probabilities
    cells = _Cells(kb, top_k, vocabularies, codes_finder(kb, vocabularies), with_prob)
    if twice := [one for one in cells.columns if one in terms.columns]:
        raise PelError(f'{source}: has a column "{twice[0]}" already; rename it, or leave it out.')
    distinct, start = list(dict.fromkeys(filter(None, terms.terms))), perf_counter()
    bar = tqdm(distinct, desc="Linking", unit=" terms", smoothing=0, disable=None)
    links = dict(link_terms(nlp, name, linker, bar, batch_size=batch_size))
    seconds = perf_counter() - start
    added = {term: cells.of(term, link) for term, link in links.items()} | {"": [""] * len(cells.columns)}
    rows = [[*row, *added[term]] for row, term in zip(terms.rows, terms.terms, strict=True)]
    data = table_bytes([*terms.columns, *cells.columns], rows, out_format)
    if out == STANDARD:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write_atomically(out, data)
    _sum_up(out, terms.terms, links, len(distinct) / seconds)


class _Cells:
    """The cells that a row gets.

    Attributes:
        columns: Their names.
    """

    def __init__(
        self, kb: KnowledgeBase, top_k: int, vocabularies: list[str], codes_of: CodesOf | None, with_prob: bool
    ) -> None:
        self._kb, self._codes_of, self._with_prob = kb, codes_of, with_prob
        self._n = top_k if top_k > 1 else 0
        self.columns = ["kb_id", "kb_name", "kb_score", *(["kb_prob"] if with_prob else []), "kb_named"]
        self.columns += [f"kb_{vocabulary}" for vocabulary in vocabularies]
        self.columns += [f"kb_{what}_{i}" for i in range(1, self._n + 1) for what in ("id", "name", "score")]

    def of(self, term: str, link: Link) -> list[str]:
        score = _number(link.candidates[0][1] if link.candidates else None)
        cells = [link.kb_id, self._name(link.kb_id), score, *([_number(link.probability)] if self._with_prob else [])]
        cells.append(str(len(self._kb.named(term))))
        if self._codes_of:
            cells += map("|".join, self._codes_of(link.kb_id).values())
        for id, candidate_score in link.candidates[: self._n]:
            cells += id, self._name(id), _number(candidate_score)
        return cells + [""] * (len(self.columns) - len(cells))

    def _name(self, id: str) -> str:
        entity = self._kb.get(id)
        return entity.name if entity else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _read(source: Path, format_name: str, column: str | None) -> TermList:
    from ..files.lines import opened
    from ..linking.term_list import read_terms

    if source == STANDARD:
        return read_terms(standard_input(), Path("standard input"), format_name, column)
    if not source.is_file():
        raise PelError(f"{source} is no file; name one with a term a row.")
    with opened(source) as file:
        return read_terms(file, source, format_name, column)


def _check_lengths(nlp: Language, terms: TermList, source: Path) -> None:
    from ..mentions.tokens import check_length

    for line, term in zip(terms.lines, terms.terms, strict=True):
        try:
            check_length(nlp, term)
        except PelError as error:
            where = "standard input" if source == STANDARD else source
            raise PelError(f"{where}:{line}: {error}.") from error


def _checked_out(out: Path, source: Path, force: bool) -> str:
    """The format of `out`.

    Raises:
        PelError: It should not be written, or as nothing that can be.
    """
    if out == STANDARD:
        return Format.csv.value
    if out.suffix not in (".csv", ".tsv"):
        raise PelError(f"{out}: a .csv or .tsv is written; name it so.")
    check_out(out, source, "TERMS", force)
    return out.suffix.removeprefix(".")


def _sum_up(out: Path, terms: list[str], links: dict[str, Link], speed: float) -> None:
    from ..kb.entity import NIL

    nil = sum(link.kb_id == NIL for link in links.values())
    where = "standard output" if out == STANDARD else out
    echo(
        f"✔ Wrote {where}: {len(terms):,} rows with {len(links):,} distinct terms, {nil:,} of them NIL ({speed:,.0f} "
        "terms/s).",
        err=True,
    )
    if empty := terms.count(""):
        echo(f"⚠ Rows without a term, left empty: {empty:,}.", err=True)
