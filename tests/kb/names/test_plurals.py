"""What a text in the plural may be the plural of."""

from __future__ import annotations

import pytest

from spacy_pel.kb.names.plurals import plurals, singulars


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
def test_a_plural_has_its_singular(plural, singular):
    assert singular in singulars(plural, "en")
    assert singulars(plural, "de") == singulars(plural, "") == []


@pytest.mark.parametrize(
    "text",
    ["", "s", "a", "cis", "ras", "Gas", "AIDS", "CAS", "K-RAS", "TH1s", "IL-2s", "heart", "virus", "analysis", "loss"],
)
def test_names_of_genes_and_other_short_words_keep_their_s(text):
    assert singulars(text, "en") == []


def test_a_name_with_a_capital_is_the_plural_of_nothing_in_latin():
    assert singulars("California", "en") == singulars("southern California", "en") == singulars("Chianti", "en") == []
    assert singulars("Purkinje epithelia", "en") == ["Purkinje epithelium", "Purkinje epithelion"]
    assert singulars("Neurons", "en") == ["Neuron"]


def test_only_the_last_word_counts():
    assert singulars("cells of tumours", "en") == ["cells of tumour"]


def test_those_of_many_texts():
    texts = ["heart", "neurons", "data", "AIDS", "disease"]
    assert plurals(texts, "en") == {"neurons": ["neuron"], "data": ["datum", "daton"]}
    assert plurals(texts, "de") == {}
