"""Which of many texts are names in a KB, by its records on disk: nothing of the names is in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from .name_rules import NameRules, may_be_abbreviation
from .normal_form import alias_key


class NamedRecords(Protocol):
    """What is asked of the records of a KB."""

    def rows_of_keys(self, keys: Iterable[int]) -> Mapping[int, Sequence[int]]: ...

    def written_names(self, rows: Iterable[int]) -> Mapping[int, Sequence[str]]: ...


def known_names(texts: Collection[str], records: NamedRecords, rules: NameRules) -> set[str]:
    """Those of `texts` that an entity has as name or alias, once both are normalised.

    Names as they are written are read only where their case may count: for the other texts an `alias_key` decides.
    """
    keys = {text: alias_key(text) for text in texts if rules.allow(text)}
    rows = records.rows_of_keys(sorted(set(keys.values())))
    found = {text for text, key in keys.items() if key in rows}
    in_doubt = {text: rows[keys[text]] for text in found if may_be_abbreviation(text)}
    written = records.written_names({row for own in in_doubt.values() for row in own})
    refuted = {
        text
        for text, own in in_doubt.items()
        if not any(rules.fit(name, text) for row in own for name in written.get(row, ()))
    }
    return found - refuted
