"""What `spacy pel link` says on standard error: a bar, broken lines, and the counts at the end."""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from tqdm import tqdm

from ..errors import PelError
from ..mentions.extensions import is_nil
from ..mentions.links import mentions_of
from ..visible import visible

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ..linking.texts import Line

BROKEN_SHOWN = 20


class LinkReport:
    """Counts texts, mentions and broken lines. size: of the input in bytes, if known, for the time left. spans_key: of
    the linker."""

    def __init__(self, source: Path, size: int | None, spans_key: str | None = None) -> None:
        self.source = source
        self.spans_key = spans_key
        self.texts = self.mentions = self.nil = self.broken = 0
        self._start = perf_counter()
        self._bar = tqdm(desc="Linking", total=size, unit="B", unit_scale=True, smoothing=0, disable=None)

    @property
    def speed(self) -> str:
        return f"{self.mentions / (perf_counter() - self._start):,.0f} mentions/s"

    def add(self, doc: Doc, line: Line) -> None:
        """Count a text that was linked."""
        self.texts += 1
        mentions = mentions_of(doc, self.spans_key)
        self.mentions += len(mentions)
        self.nil += sum(map(is_nil, mentions))
        self._bar.set_postfix_str(self.speed, refresh=False)
        self._bar.update(line.end - self._bar.n)

    def add_broken(self, number: int, error: PelError) -> None:
        """Count a broken line, and show it if it is one of the first."""
        self.broken += 1
        if self.broken <= BROKEN_SHOWN:
            say(f"⚠ {self.source}:{number}: {error}.")
        elif self.broken == BROKEN_SHOWN + 1:
            say("⚠ Further broken lines are only counted.")

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()

    def sum_up(self, out: str, *, stopped: bool) -> None:
        """Print the counts.

        Raises:
            PelError: If the whole input had no text to link.
        """
        if not self.texts and not stopped:
            found = f"all its {self.broken:,} lines are broken" if self.broken else "it is empty"
            raise PelError(f"{self.source}: {found}; write one text a line; --format txt if they are plain.")
        counts = f"{self.texts:,} texts with {self.mentions:,} mentions, {self.nil:,} of them NIL ({self.speed})."
        if stopped:
            say(f"⚠ Stopped. Linked and written to {out}: {counts}")
        else:
            say(f"✔ Wrote {out}: {counts}")
        if self.broken:
            say(f"⚠ Broken lines, left out: {self.broken:,}.")
        if self.texts and not self.mentions:
            say('⚠ No mention was found: give the pipeline an `ner` or the like, or the lines their "ents".')


def say(message: str) -> None:
    """Print a line on standard error, above the bar."""
    tqdm.write(visible(message), file=sys.stderr)
