"""The semantic types of a UMLS release and their tree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ...errors import PelError
from .rrf import MRSTY

TUI = re.compile(r"T\d{3}")


class SemanticType(NamedTuple):
    """A semantic type.

    Attributes:
        name: As in "Disease or Syndrome".
        tree: Its tree number.
    """

    name: str
    tree: str


def semantic_types(path: Path) -> dict[str, SemanticType]:
    """The types that the MRSTY file at `path` has, by TUI.

    Raises:
        PelError: A TUI (with file and line) has another form, no name, or two of them.
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
