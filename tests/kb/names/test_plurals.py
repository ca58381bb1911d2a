"""What a text in the plural may be the plural of."""

from __future__ import annotations

import pytest

from spacy_pel.kb.names.plurals import readings


@pytest.mark.parametrize(
    ("plural", "singular"),
    [
        ("neurons", "neuron"),
        ("ES cells", "ES cell"),
        ("β-cells", "β-cell"),
        ("ovaries", "ovary"),
        ("carcasses", "carcass"),
        ("axes", "axis"),
        ("helixes", "helix"),
        ("branches", "branch"),
        ("mitral valve stenoses", "mitral valve stenosis"),
        ("vertebrae", "vertebra"),
        ("quantitative trait loci", "quantitative trait locus"),
        ("epithelia", "epithelium"),
        ("spermatozoa", "spermatozoon"),
        ("MSCs", "MSC"),
        ("mRNAs", "mRNA"),
    ],
)
def test_a_plural_is_read_in_its_singular_too(plural, singular):
    first, *others = readings(plural, "en")
    assert first == plural and singular in others
    assert readings(plural, "de") == readings(plural, "") == [plural]


@pytest.mark.parametrize(
    "text", ["", "s", "a", "cis", "ras", "Gas", "AIDS", "CAS", "K-RAS", "FAS", "TH1s", "IL-2s", "heart", "cells)", "2s"]
)
def test_names_of_genes_and_other_short_words_keep_their_s(text):
    assert readings(text, "en") == [text]


def test_only_the_last_word_counts():
    assert readings("cells of tumours", "en") == ["cells of tumours", "cells of tumour"]
