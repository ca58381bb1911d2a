"""The semantic types of a UMLS release, and choices of them by TUI, subtree or preset."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ...errors import PelError
from .rrf import MRSTY

TUI = re.compile(r"T\d{3}")

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


class SemanticType(NamedTuple):
    """Name and tree number of a TUI."""

    name: str
    tree: str


def semantic_types(path: Path) -> dict[str, SemanticType]:
    """The types that the MRSTY file at `path` has, by TUI.

    RAISES: `PelError`, with file and line, for a TUI of another form, without a name, or with two of them.
    """
    types: dict[str, SemanticType] = {}
    columns = MRSTY.at("TUI", "STY", "STN")
    for number, row in MRSTY.rows(path):
        tui, name, tree = columns(row)
        known = types.get(tui)
        if known is None:
            if not TUI.fullmatch(tui) or not name.strip():
                raise PelError(f'{path}:{number}: "{tui}|{name}" is no semantic type like "T047|Disease or Syndrome".')
            types[tui] = SemanticType(name, tree)
        elif known.name != name:
            raise PelError(f'{path}:{number}: {tui} is "{name}" here and "{known.name}" before; mend the file.')
    return types


def under(trees: Iterable[str], types: dict[str, SemanticType]) -> frozenset[str]:
    """Those of `types` that stand at or under one of the tree numbers, by TUI."""
    roots = tuple(trees)
    return frozenset(tui for tui, type in types.items() if any(_is_under(type.tree, root) for root in roots))


def _is_under(tree: str, root: str) -> bool:
    # The two roots of the network, A and B, have no dot after them.
    return tree == root or tree.startswith(root if len(root) == 1 else f"{root}.")
