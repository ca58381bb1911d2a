"""Extensions of somebody else's under our names: they stay as they are, and linking goes on under others."""

from __future__ import annotations

import warnings

import pytest
import spacy
from spacy.tokens import Doc, Span

from spacy_pel.mentions.abbreviations import long_forms
from spacy_pel.mentions.extensions import extension, is_nil, other_name, set_extensions
from spacy_pel.mentions.links import Link, links_of, write_links

NLP = spacy.blank("en")
LINKS = [Link("D1", [("D1", 0.5), ("D2", 0.25)], 0.9), Link("NIL", [], 0.1)]


@pytest.fixture
def theirs():
    """Registers extensions of somebody else's for one test."""
    set_extensions()
    before = {name: Span.get_extension(name) for name in ("kb_ents", "kb_prob", "is_nil")}

    def register(name, **kind):
        other_name.cache_clear()
        Span.set_extension(name, force=True, **kind)

    yield register
    for name, (default, _, getter, _) in before.items():
        Span.set_extension(name, force=True, **({"default": default} if getter is None else {"getter": getter}))
    other_name.cache_clear()


@pytest.fixture
def doc():
    doc = NLP("Lithium and aspirin")
    doc.ents = [Span(doc, 0, 1, label="X"), Span(doc, 2, 3, label="X")]
    doc.spans["found"] = list(doc.ents)
    return doc


@pytest.mark.parametrize("spans_key", [None, "found"])
@pytest.mark.parametrize(
    "kind", [{"default": "mine"}, {"default": None}, {"getter": lambda span: 7}, {"method": lambda span: 7}]
)
def test_one_that_is_not_ours_stays_as_it_is_and_links_have_another(theirs, doc, kind, spans_key):
    theirs("kb_ents", **kind)
    if "default" in kind:
        doc.ents[0]._.kb_ents = "hands off"
    before = doc.ents[0]._.kb_ents if "method" not in kind else None
    with pytest.warns(UserWarning, match=r"span\._\.kb_ents is an extension of somebody else's.*span\._\.pel_kb_ents"):
        write_links(doc, LINKS, spans_key, overwrite=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        write_links(doc, LINKS, spans_key, overwrite=True)
        assert links_of(doc, spans_key) == LINKS
    spans = doc.ents if spans_key is None else doc.spans[spans_key]
    assert spans[0]._.pel_kb_ents == LINKS[0].candidates and spans[0]._.kb_prob == 0.9
    if "method" not in kind:
        assert doc.ents[0]._.kb_ents == before


def test_is_nil_of_another_is_left(theirs, doc):
    theirs("is_nil", default="theirs")
    with pytest.warns(UserWarning, match=r"pel_is_nil"):
        set_extensions()
    write_links(doc, LINKS, None, overwrite=True)
    assert [ent._.is_nil for ent in doc.ents] == ["theirs"] * 2 and [e._.pel_is_nil for e in doc.ents] == [False, True]


def test_that_of_scispacy_is_shared(theirs, doc):
    theirs("kb_ents", default=[])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_links(doc, LINKS, None, overwrite=True)
    assert doc.ents[0]._.kb_ents == LINKS[0].candidates and extension("is_nil") == "is_nil" and is_nil(doc.ents[1])


def test_attributes_of_a_group_that_are_somebody_else_s(doc):
    set_extensions()
    doc.spans["found"].attrs["kb_ents"] = 5
    write_links(doc, LINKS, "found", overwrite=True)
    assert links_of(doc, "found") == LINKS


ODD = [
    *("text", ["HA"], {"HA": "heart attack"}, 5, [None], [{}], [{"short_start": 0}], object(), [[1, 2]]),
    [{"short_start": 0, "short_end": 1, "long_start": 5, "long_end": 99}],
    [{"short_start": 0, "short_end": 1, "long_start": "a", "long_end": "b"}],
]


@pytest.mark.parametrize("value", [None, *ODD])
def test_abbreviations_of_the_user_s_own_are_passed_over(value):
    from spacy_pel.mentions import abbreviations

    abbreviations.say_so.cache_clear()
    doc = NLP("The heart attack (HA) was no HA .")
    Doc.set_extension("abbreviations", default=value, force=True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = [long_forms(doc) for _ in range(2)]
        assert len(caught) == (value is not None)
        assert all({doc[a:b].text for a, b in one} == {"HA"} for one in found)
        spans = [doc[4:5], Span(doc, 0, 1)]
        Doc.set_extension("abbreviations", getter=lambda doc: spans, force=True)  # Spans without a long form
        assert set(long_forms(doc)) == {(4, 5), (8, 9)}
    finally:
        Doc.remove_extension("abbreviations")


def test_many_abbreviations_are_looked_for_in_one_pass(monkeypatch):
    """Four times as many abbreviations in a text four times as long take about four times the look-ups."""

    def look_ups(n):
        count = 0

        class Text(dict):
            def __contains__(self, form):
                nonlocal count
                count += 1
                return super().__contains__(form)

        from spacy_pel.mentions import abbreviations

        defined = abbreviations.defined
        monkeypatch.setattr(abbreviations, "defined", lambda doc: Text(defined(doc)))
        doc = NLP(" ".join(f"quick alarm {chr(97 + i % 26)}x{i} (QA{chr(65 + i % 26)}{i})" for i in range(n)))
        long_forms(doc)
        monkeypatch.setattr(abbreviations, "defined", defined)
        return count

    few, many = look_ups(50), look_ups(200)
    assert few and many < 8 * few
