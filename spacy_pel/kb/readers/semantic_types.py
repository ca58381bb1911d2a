"""The semantic types of a UMLS release and their tree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ...errors import PelError
from .faults import Faults
from .rrf import MRSTY, Row

TUI = re.compile(r"T\d{3}")


class SemanticType(NamedTuple):
    """A semantic type.

    Attributes:
        name: As in "Disease or Syndrome".
        tree: Its tree number.
    """

    name: str
    tree: str


def semantic_types(faults: Faults) -> dict[str, SemanticType]:
    """The types that the file MRSTY has, by TUI.

    A row whose TUI has another form, no name, or two of them is a fault.
    """
    types: dict[str, SemanticType] = {}
    columns = MRSTY.at("TUI", "STY", "STN")

    def take(row: Row) -> None:
        tui, name, tree = columns(row)
        known = types.get(tui)
        if known is None:
            if not TUI.fullmatch(tui) or not name.strip():
                raise PelError(f'"{tui}|{name}" is no semantic type like "T047|Disease or Syndrome"; mend the row')
            types[tui] = SemanticType(name, tree)
        elif known.name != name:
            raise PelError(f'{tui} is "{name}" here and "{known.name}" before; mend the file')

    for _ in MRSTY.rows(faults, take):
        pass
    return types


def under(trees: Iterable[str], types: dict[str, SemanticType]) -> frozenset[str]:
    """Those of `types` that stand at or under one of the tree numbers, by TUI."""
    roots = tuple(trees)
    return frozenset(tui for tui, type in types.items() if any(_is_under(type.tree, root) for root in roots))


def _is_under(tree: str, root: str) -> bool:
    # The two roots of the network, A and B, have no dot after them.
    return tree == root or tree.startswith(root if len(root) == 1 else f"{root}.")
