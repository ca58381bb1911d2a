"""Settings of a linker under the names that scispaCy has for them, so that code for its linker runs on."""

from __future__ import annotations


class ScispacySettings:
    """`PelLinker`, as scispaCy calls two of its settings."""

    top_k: int
    max_candidates: int

    @property
    def k(self) -> int:
        return self.top_k

    @k.setter
    def k(self, value: int) -> None:
        self.top_k = value

    @property
    def max_entities_per_mention(self) -> int:
        return self.max_candidates

    @max_entities_per_mention.setter
    def max_entities_per_mention(self, value: int) -> None:
        self.max_candidates = value
