"""The options that say how to read a vocabulary."""

from __future__ import annotations

import shlex

import pytest

from spacy_pel.cli.vocabulary import ReadAs, split_values


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (None, []),
        (["T041,T058", " T191 ", ","], ["T041", "T058", "T191"]),
        (['"A, B, and C",D', '"E"'], ["A, B, and C", "D", "E"]),
        (['D, "A, B"'], ["D", "A, B"]),
        (['"A, B', "C"], ["A, B", "C"]),
        (['a "b" c', 'it"s'], ['a "b" c', 'it"s']),
    ],
)
def test_values_with_commas_between_and_within_them(given, values):
    assert split_values(given) == values


def test_the_options_of_a_vocabulary_are_read_again_as_they_were_given():
    read_as = ReadAs(types=['"A, B",C', "it's", '"A ""x"", B"'], scopes=["EXACT"], strict=True)
    name, types, *others = shlex.split(read_as.as_options())
    assert (name, split_values([types])) == ("--types", ["A, B", "C", "it's", 'A "x", B'])
    assert others == ["--scopes", "EXACT", "--strict"]
