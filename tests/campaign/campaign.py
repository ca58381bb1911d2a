"""How much is tried, and how what came of it is printed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from wasabi import table

FACTOR = float(os.environ.get("SPACY_PEL_CAMPAIGN", "1"))
SEED = int(os.environ.get("SPACY_PEL_CAMPAIGN_SEED", "0"))


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print what was tried and what came of it: shown by `pytest -s`, and of a test that fails."""
    print(table([[str(cell) for cell in row] for row in rows], header=header, divider=True, max_col=120))
