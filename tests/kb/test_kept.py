"""`KeptByArray`: something is made of an array once."""

from __future__ import annotations

import numpy as np

from spacy_pel.kb.kept import MOST, KeptByArray


def test_it_is_made_once_of_each_array_told_by_identity():
    made = []
    kept = KeptByArray(lambda array: made.append(array) or len(made))
    one, equal = np.arange(3), np.arange(3)
    assert [kept(one), kept(equal), kept(one), kept(equal)] == [1, 2, 1, 2]


def test_few_are_kept():
    made = []
    kept = KeptByArray(lambda array: made.append(array))
    arrays = [np.array([i]) for i in range(MOST)]
    for array in [*arrays, *arrays]:
        kept(array)
    assert len(made) == MOST
    kept(np.array([9]))
    kept(arrays[0])
    assert len(made) == MOST + 2
