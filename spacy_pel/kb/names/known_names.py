"""Which of many texts are names in a KB, by its records on disk: nothing of the names is in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Protocol

from ..numbering import EntityRows
from .name_rules import NameRules, depends_on_writing
from .normal_form import form_key, normalized
from .plurals import singulars

Rows = Sequence[int]


class NamedRecords(Protocol):
    """What is asked of the records of a KB."""

    def rows_of_keys(self, keys: Iterable[int]) -> Mapping[int, Rows]: ...

    def written_names(self, rows: Iterable[int]) -> Mapping[int, Sequence[str]]: ...


def rows_of_forms(forms: Collection[str], records: NamedRecords) -> dict[str, Rows]:
    """The rows of the entities with a name of each of those normalised `forms` that any has, but for collisions of
    keys."""
    keys = {form: form_key(form) for form in forms}
    rows = records.rows_of_keys(sorted(keys.values()))
    return {form: rows[key] for form, key in keys.items() if key in rows}


def only_within(rows: Mapping[str, Rows], within: EntityRows) -> dict[str, Rows]:
    """Those of `rows` that are among `within`, of the forms that have any.

    Args:
        rows: Of each form.
        within: (n,) ascending.
    """

    def is_there(row: int) -> bool:
        place = bisect_left(within, row)
        return place < len(within) and bool(within[place] == row)

    kept = {form: [row for row in own if is_there(row)] for form, own in rows.items()}
    return {form: own for form, own in kept.items() if own}


def known_names(
    texts: Collection[str], rows: Mapping[str, Rows], records: NamedRecords, rules: NameRules, lang: str = ""
) -> set[str]:
    """Those of `texts` that are found by a name: their own, or the singular of a plural.

    Names as they are written are read only for texts where that matters.

    Args:
        texts: As they stand somewhere.
        rows: Of the entities that have a name of a normalised form, for the forms of `texts` and of their `singulars`.
        records: Of the KB.
        rules: Which names find texts.
        lang: The code of the language of `texts`.
    """
    read = {text: [text, *singulars(text, lang)] for text in texts if rules.allow(text)}
    owners = {
        one: rows[form]
        for one in set(chain.from_iterable(read.values()))
        if (form := normalized(one)) in rows and rules.allow(one)
    }
    in_doubt = {one for one in owners if depends_on_writing(one)}
    written = records.written_names({row for one in in_doubt for row in owners[one]})
    refuted = {
        one for one in in_doubt if not any(rules.fit(name, one) for row in owners[one] for name in written.get(row, ()))
    }
    names = owners.keys() - refuted
    return {text for text, own in read.items() if not names.isdisjoint(own)}
