"""What `render_links` draws: names, ids and addresses from the KB, NIL apart, and nothing that is not escaped."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from types import SimpleNamespace

import pytest
import spacy
from spacy.tokens import Span
from tiny import make_kb, make_pipeline, write_encoder

from spacy_pel import render_links
from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity

NLP = spacy.blank("en")
KB = {
    "D1": Entity("D1", "Aspirin"),
    "D2": Entity("D2", 'pH < 7 & "acid"'),
    "A/B 1": Entity("A/B 1", "Ångström"),
}
URL = "https://kb.example/{}?a=1&b=2"
NIL_COLOUR = "#ffb8a8"


def make_doc(*linked, title=None):
    """A Doc of these words with "and" before each; an entity of (word, label, kb_id)."""
    doc = spacy.tokens.Doc(NLP.vocab, words=[word for one, *_ in linked for word in ("and", one)])
    doc.ents = [Span(doc, 2 * i + 1, 2 * i + 2, label=label, kb_id=kb_id) for i, (_, label, kb_id) in enumerate(linked)]
    if title is not None:
        doc.user_data["title"] = title
    return doc


def marks(html):
    """The entities: their colour and all their HTML."""
    return re.findall(r'<mark class="entity" style="background: (.*?);.*?>(.*?)</mark>', html, re.DOTALL)


def text(html):
    return " ".join(unescape(re.sub(r"<.*?>", "", html)).split())


def links(html):
    return [(unescape(href), text(inner)) for href, inner in re.findall(r'<a [^>]*href="(.*?)">(.*?)</a>', html)]


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, spacy_pel; assert not {'spacy', 'torch', 'faiss'} & set(sys.modules); spacy_pel.render_links"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
    with pytest.raises(ImportError):
        from spacy_pel import nothing  # noqa: F401


def test_a_link_and_nil():
    html = render_links(make_doc(("ASA", "DRUG", "D1"), ("foo", "DRUG", "NIL")), KB, kb_url_template=URL)
    (linked_colour, linked), (nil_colour, nil) = marks(html)
    assert (text(linked), text(nil)) == ("ASA DRUG Aspirin · D1", "foo DRUG NIL")
    assert links(html) == [("https://kb.example/D1?a=1&b=2", "Aspirin · D1")]
    assert nil_colour == NIL_COLOUR != linked_colour
    assert "<html" not in html and text(html).startswith("and ASA")


def test_everything_is_escaped():
    doc = make_doc(("a<b", "L&<i>", "D2"), ("{x}", "DRUG", "A/B 1"), ("y", "DRUG", "<gone>"), title="<b>T</b> & {t}")
    html = render_links(doc, KB, kb_url_template=URL)
    assert text(html) == (
        '<b>T</b> & {t} and a<b L&<i> pH < 7 & "acid" · D2 and {x} DRUG Ångström · A/B 1 and y DRUG <gone>'
    )
    assert [href for href, _ in links(html)] == [
        "https://kb.example/D2?a=1&b=2",
        "https://kb.example/A/B%201?a=1&b=2",
        "https://kb.example/%3Cgone%3E?a=1&b=2",
    ]
    assert not re.search(r"<b>|<i>|<gone>|a<b|&(?!\w+;|#)", html)


@pytest.mark.parametrize(
    ("template", "id_", "is_link"),
    [
        *(("{}", id_, False) for id_ in ("javascript:alert(1)//", "JavaScript:alert(1)", "data:text/html,x", " x:y")),
        *(
            ("java\nscript:{}", "D1", False),
            ("{}", "https://kb.example/D1", True),
            ("HTTP://kb.example/{}", "a:b", True),
        ),
        *(("{}", "D1", True), ("/kb/{}", "a:b", True), ("?id={}", "a:b", True), ("#{}", "javascript:x", True)),
    ],
)
def test_only_addresses_of_the_web_and_relative_ones_are_links(template, id_, is_link):
    html = render_links(make_doc(("ASA", "DRUG", id_)), kb_url_template=template)
    assert len(links(html)) == is_link and id_ in unescape(html)


def test_ids_alone_and_entities_that_nothing_has_linked():
    html = render_links(make_doc(("ASA", "DRUG", "D1"), ("x", "DRUG", ""), ("both", "DRUG", "D1|D9")))
    assert [text(inner) for _, inner in marks(html)] == ["ASA DRUG D1", "x DRUG", "both DRUG D1 D9"]
    assert links(html) == []


def test_colours_and_labels_are_those_of_displacy():
    doc = make_doc(("x", "A&B", "D1"), ("y", "GENE", "D1"), ("z", "A&B", "NIL"))
    html = render_links(doc, KB, options={"colors": {"A&B": "#111", "nil": "#222"}, "ents": ["A&B"]})
    assert [(colour, text(inner)) for colour, inner in marks(html)] == [
        ("#111", "x A&B Aspirin · D1"),
        ("#222", "z A&B NIL"),
    ]
    assert "and y and" in text(html)


def test_nil_is_a_label_too():
    html = render_links(make_doc(("x", "A", "D1"), ("z", "A", "NIL")), KB, options={"ents": ["NIL"]})
    assert [text(inner) for _, inner in marks(html)] == ["z A NIL"] and "and x and" in text(html)


def test_a_group_of_spans_is_drawn_without_overlap():
    doc = make_doc(("ASA", "DRUG", "D1"), ("foo", "DRUG", "NIL"))
    doc.spans["found"] = [
        Span(doc, start, end, label, kb_id=kb_id)
        for start, end, label, kb_id in ((1, 2, "X", "D1"), (1, 4, "Y", "D2"), (0, 1, "X", "NIL"))
    ]
    drawn = render_links(doc, KB, spans_key="found")
    assert [text(inner) for _, inner in marks(drawn)] == ["and X NIL", 'ASA and foo Y pH < 7 & "acid" · D2']
    (part,) = marks(render_links(doc[1:4], KB, spans_key="found"))
    assert text(part[1]).startswith("ASA and foo Y")
    with pytest.raises(PelError, match=r"no group 'other' .*'found'"):
        render_links(doc, KB, spans_key="other")


def test_a_page_is_ascii_and_the_file_is_the_page(tmp_path):
    docs = [make_doc(("µ", "L", "A/B 1"), title="Größe"), NLP("No entity.")]
    with pytest.warns(UserWarning, match="W006"):  # displaCy's, for the second
        page = render_links(docs, KB, page=True)
        assert render_links(iter(docs), KB, output=tmp_path / "new" / "page.html") is None
    assert page.isascii() and page.startswith("<!DOCTYPE html>") and page.count("<figure") == 2
    assert text(page.split("<body")[1].split(">", 1)[1]) == "Größe and µ L Ångström · A/B 1 No entity."
    assert (tmp_path / "new" / "page.html").read_bytes() == page.encode()


def test_spans_are_cut_out():
    doc = make_doc(("ASA", "DRUG", "D1"), ("foo", "DRUG", "NIL"), title="T")
    assert text(render_links(doc[2:], KB)) == "T and foo DRUG NIL"


def test_a_notebook_shows_it(monkeypatch, tmp_path):
    shown = []
    stub = SimpleNamespace(HTML=str, display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython.display", stub)
    monkeypatch.setattr("spacy.displacy.is_in_jupyter", lambda: True)
    doc = make_doc(("ASA", "DRUG", "D1"))
    assert render_links(doc, KB) is None
    assert "Aspirin · D1" in shown.pop()
    assert "Aspirin · D1" in render_links(doc, KB, jupyter=False)
    render_links(doc, KB, output=tmp_path / "page.html")
    assert not shown


def test_the_names_come_from_a_kb_a_linker_or_a_pipeline(tmp_path):
    nlp, linker, *_ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    doc = make_doc(("MI", "DISEASE", "D009203"))
    for kb in (linker.kb, linker, nlp):
        assert "Myocardial Infarction · D009203" in render_links(doc, kb)


def test_of_two_linkers_the_one_of_the_group_that_is_drawn_gives_the_names(tmp_path):
    nlp = spacy.blank("en")
    for name, spans_key, entity in (("one", "sc", "Aspirin"), ("two", None, "Acetylsalicylic acid")):
        kb = make_kb(tmp_path / name, [Entity("D1", entity)])
        nlp.add_pipe("pel_linker", name=name, config={"spans_key": spans_key}).set_kb(kb)
    doc = make_doc(("ASA", "DRUG", "D1"))
    for key, name in ((None, "Acetylsalicylic acid"), ("sc", "Aspirin"), ("third", "Aspirin")):
        doc.spans.update({} if key is None else {key: list(doc.ents)})
        assert f"{name} · D1" in render_links(doc, nlp, spans_key=key)


@pytest.mark.parametrize(
    ("docs", "kb", "template", "error"),
    [
        ("She took aspirin.", None, None, "docs: str is neither"),
        (None, None, None, "docs: NoneType is neither"),
        (NLP("x"), NLP, None, "there is no KB in it"),
        (NLP("x"), "kb/", None, "there is no KB in it"),
        (NLP("x"), KB, "https://kb.example/", "has no {}"),
    ],
)
def test_refusals(docs, kb, template, error):
    with pytest.raises(PelError, match=re.escape(error)) as raised:
        render_links(docs, kb, kb_url_template=template)
    assert "\n" not in str(raised.value)
