"""What is wanted of a UMLS release: a language, vocabularies and semantic types, one by one or by preset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...errors import PelError
from .faults import Faults
from .semantic_types import SemanticType, semantic_types, under

# TUI → tree number: a subset of a release may have descendants of a type and no row of the type itself.
ST21PV_TYPES = {
    "T005": "A1.1.4",
    "T007": "A1.1.2",
    "T017": "A1.2",
    "T022": "A2.1.4.1",
    "T031": "A1.4.2",
    "T033": "A2.2",
    "T037": "B2.3",
    "T038": "B2.2.1",
    "T058": "B1.3.1",
    "T062": "B1.3.2",
    "T074": "A1.3.1",
    "T082": "A2.1.5",
    "T091": "A2.6.1",
    "T092": "A2.7",
    "T097": "A2.9.1",
    "T098": "A2.9.2",
    "T103": "A1.4.1",
    "T168": "A1.4.3",
    "T170": "A2.4",
    "T201": "A2.3.1",
    "T204": "A1.1.3",
}
# fmt: off
ST21PV_SOURCES = (
    "CPT", "FMA", "GO", "HGNC", "HPO", "ICD10", "ICD10CM", "ICD9CM", "MDR", "MSH", "MTH", "NCBI", "NCI", "NDDF",
    "NDFRT", "OMIM", "RXNORM", "SNOMEDCT_US",
)
# fmt: on

PRESETS = {"st21pv": (ST21PV_SOURCES, ST21PV_TYPES)}


class Choice(NamedTuple):
    """What is wanted. No source stands for all, None for all types; `must_occur` are the sources that a user named."""

    language: str
    sources: frozenset[str]
    types: frozenset[str] | None
    must_occur: frozenset[str]


def choose(
    mrsty: Faults, language: str, sources: Sequence[str], types: Sequence[str], subtree: bool, preset: str
) -> Choice:
    """The choice that these options make in the release whose types are in the file of `mrsty`.

    Raises:
        PelError: There is no such preset or type, `subtree` comes without `types`, or too many rows are not right.
    """
    if preset and preset not in PRESETS:
        raise PelError(f'--preset: "{preset}" is not known; use {" or ".join(PRESETS)}.')
    if subtree and not types:
        raise PelError("--subtree: adds the descendants of --types; name some.")
    known = semantic_types(mrsty)
    if unknown := sorted(set(types) - known.keys()):
        raise PelError(
            f"--types {','.join(unknown)}: {mrsty.path} has no such type; it has {', '.join(sorted(known))}."
        )
    preset_sources, preset_types = PRESETS.get(preset, ((), {}))
    wanted = _with_subtrees(preset_types, known) if preset else None
    if types:
        trees = {tui: known[tui].tree for tui in types}
        wanted = _with_subtrees(trees, known) if subtree else frozenset(types)
    return Choice(language, frozenset(sources or preset_sources), wanted, frozenset(sources))


def _with_subtrees(trees: dict[str, str], known: dict[str, SemanticType]) -> frozenset[str]:
    return under((known[tui].tree if tui in known else tree for tui, tree in trees.items()), known)
