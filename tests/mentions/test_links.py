"""Groups of spans in place of entities, and abbreviations with their long forms."""

from __future__ import annotations

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span, SpanGroup
from tiny import make_kb, make_pipeline, train, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.evaluation.evaluate import evaluate
from spacy_pel.linking.output import linked_record
from spacy_pel.mentions.abbreviations import long_forms
from spacy_pel.mentions.gold import GOLD_GROUP
from spacy_pel.mentions.links import WRITTEN, links_of

TEXT = "She took aspirin after the heart attack ."
ASPIRIN, HEART_ATTACK = "D001241", "D009203"


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mentions")
    encoder, kb = write_encoder(folder / "encoder"), make_kb(folder / "kb")
    nlp, linker, examples, optimizer = make_pipeline(encoder, kb, model={"context": 0})  # texts may differ
    train(nlp, examples, optimizer, steps=200)
    linker.index(progress=False)
    return nlp


@pytest.fixture
def linker(pipeline):
    linker = pipeline.get_pipe("pel_linker")
    before = dict(vars(linker))
    yield linker
    vars(linker).update(before)


def with_group(nlp, *spans, key="found"):
    """A Doc of which a group has these (start, end, label)."""
    doc = nlp.make_doc(TEXT)
    doc.spans[key] = [Span(doc, start, end, label=label, span_id=f"s{start}") for start, end, label in spans]
    return doc


def test_a_group_is_linked_where_spans_overlap(pipeline, linker):
    linker.spans_key = "found"
    doc = linker(with_group(pipeline, (2, 3, "DRUG"), (4, 7, "X"), (5, 7, "X")))
    group = doc.spans["found"]
    assert [span.kb_id_ for span in group][::2] == [ASPIRIN, HEART_ATTACK] and group[1].kb_id_
    assert (group[0].text, group[0].label_, group[0].id_) == ("aspirin", "DRUG", "s2")
    assert [span._.kb_ents[0][0] for span in group] == [span.kb_id_ for span in group]
    assert group.name == "found" and doc.ents == ()


def test_results_are_kept_for_spans_with_the_same_offsets(pipeline, linker):
    """Extension values belong to offsets; the group has those of each span."""
    linker.spans_key, linker.types_by_label = "found", {"DRUG": ["Chemical"], "ILLNESS": ["Disease"]}
    doc = linker(with_group(pipeline, (2, 3, "DRUG"), (2, 3, "ILLNESS")))
    again = next(DocBin(docs=[doc], store_user_data=True).get_docs(pipeline.vocab))
    types = {e.id: e.types for e in linker.kb.entities()}
    for group in (doc.spans["found"], again.spans["found"]):
        assert group[0].kb_id_ == ASPIRIN and types[group[1].kb_id_] == ("Disease",)
        for span, candidates, kind in zip(group, group.attrs["kb_ents"], ("Chemical", "Disease"), strict=True):
            assert candidates[0][0] == span.kb_id_ and {types[id_] for id_, _ in candidates} == {(kind,)}
        assert group.attrs["kb_prob"] == [None, None]


def test_spans_with_the_same_offsets_keep_their_own_candidates(pipeline, linker):
    linker.spans_key, linker.types_by_label = "found", {"DRUG": ["Chemical"], "ILLNESS": ["Disease"]}
    doc = linker(with_group(pipeline, (2, 3, "DRUG"), (2, 3, "ILLNESS")))
    drug, illness = linked_record(doc, {}, "found")["ents"]
    assert drug["kb_ents"][0][0] == drug["kb_id"] == ASPIRIN
    assert illness["kb_ents"][0][0] == illness["kb_id"] != ASPIRIN

    before = [dict(doc.spans["found"].attrs), [span.kb_id_ for span in doc.spans["found"]]]
    linker.overwrite = False
    doc = linker(doc)
    assert [dict(doc.spans["found"].attrs), [span.kb_id_ for span in doc.spans["found"]]] == before
    doc.spans["found"].append(Span(doc, 5, 7, label="X"))  # the lists no longer fit the group
    assert len(linked_record(doc, {}, "found")["ents"]) == 3


def test_ids_that_are_there_are_kept_without_overwrite(pipeline, linker):
    linker.spans_key, linker.overwrite = "found", False
    doc = with_group(pipeline, (2, 3, "X"))
    doc.spans["found"] = [Span(doc, 2, 3, label="X", kb_id="MINE"), Span(doc, 5, 7, label="X")]
    assert [span.kb_id_ for span in linker(doc).spans["found"]] == ["MINE", HEART_ATTACK]
    assert [bool(found) for found in doc.spans["found"].attrs["kb_ents"]] == [False, True]


def test_pipe_equals_call(pipeline, linker):
    linker.spans_key = "found"
    spans = [((2, 3, "X"),), (), ((5, 7, "X"), (4, 7, "X"))]
    one_by_one = [linker(with_group(pipeline, *own)) for own in spans]
    for one, other in zip(one_by_one, linker.pipe(with_group(pipeline, *own) for own in spans), strict=True):
        assert [span.kb_id_ for span in one.spans["found"]] == [span.kb_id_ for span in other.spans["found"]]


def test_a_group_that_is_not_there(pipeline, linker):
    linker.spans_key = "sc"
    with pytest.warns(UserWarning, match=r"doc.spans\['sc'\].*groups: 'found'.*correct the key"):
        doc = linker(with_group(pipeline, (2, 3, "X")))
    assert "sc" not in doc.spans and doc.spans["found"][0].kb_id_ == ""


def test_a_group_without_spans_has_empty_results(pipeline, linker):
    linker.spans_key = "found"
    doc = linker(with_group(pipeline, (2, 3, "X")))
    assert {name: len(doc.spans["found"].attrs[name]) for name in WRITTEN} == dict.fromkeys(WRITTEN, 1)
    doc.spans["found"] = SpanGroup(doc, name="found", attrs=doc.spans["found"].attrs)
    assert linker(doc).spans["found"].attrs == {name: [] for name in WRITTEN}
    assert linker(with_group(pipeline)).spans["found"].attrs == {name: [] for name in WRITTEN}


def test_it_is_a_setting_of_the_config(pipeline, tmp_path):
    pipeline.to_disk(tmp_path / "linker")
    nlp = spacy.load(tmp_path / "linker", config={"components.pel_linker.spans_key": "sc"})
    assert nlp.get_pipe("pel_linker").spans_key == "sc"
    ruler = nlp.add_pipe("span_ruler", first=True, config={"spans_key": "sc"})
    ruler.add_patterns([{"label": "X", "pattern": "aspirin"}, {"label": "X", "pattern": "the heart attack"}])
    doc = nlp(TEXT)
    assert doc.spans["sc"][0].kb_id_ == ASPIRIN


@pytest.fixture
def abbreviations():
    """The extensions of scispaCy's detector, as it sets them."""
    had = {
        name: kind.get_extension(name)
        for kind, name in ((Doc, "abbreviations"), (Span, "long_form"))
        if kind.has_extension(name)
    }
    Doc.set_extension("abbreviations", default=[], force=True)
    Span.set_extension("long_form", default=None, force=True)
    yield
    for kind, name in ((Doc, "abbreviations"), (Span, "long_form")):
        kind.remove_extension(name)
        if name in had:
            default, method, getter, setter = had[name]
            kind.set_extension(name, default=default, method=method, getter=getter, setter=setter)


def abbreviated(nlp, *, serializable=False):
    """A Doc in which ZQ is short for heart attack."""
    doc = nlp.make_doc("She took aspirin after the heart attack . ZQ came again .")
    short, long = doc[8:9], doc[5:7]
    if serializable:
        doc._.abbreviations = [{"short_start": 8, "short_end": 9, "long_start": 5, "long_end": 7}]
    else:
        short._.long_form = long
        doc._.abbreviations = [short]
    doc.ents = [Span(doc, 2, 3, label="X"), Span(doc, 8, 9, label="X")]
    return doc


@pytest.mark.parametrize("serializable", [False, True])
def test_an_abbreviation_is_read_by_its_long_form(pipeline, linker, abbreviations, serializable):
    doc = linker(abbreviated(pipeline, serializable=serializable))
    assert [ent.kb_id_ for ent in doc.ents] == [ASPIRIN, HEART_ATTACK]
    long = Span(doc, 5, 7, label="X")
    assert doc.ents[1]._.kb_ents[0] == (HEART_ATTACK, pytest.approx(linker.rank([long], 1)[0][0][1], abs=1e-5))
    explanation = linker.explain(doc.ents[1])
    assert explanation.long_form == "heart attack" and "ZQ (read as 'heart attack')" in str(explanation)
    assert linker.explain(doc.ents[0]).long_form is None

    linker.resolve_abbreviations = False
    (short,) = linker.rank([doc.ents[1]], 1)
    assert short[0][1] < doc.ents[1]._.kb_ents[0][1]
    assert linker.explain(doc.ents[1]).long_form is None


def test_an_abbreviation_is_found_where_tokens_were_merged_behind_the_detector(pipeline, abbreviations):
    doc = abbreviated(pipeline)
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[1:3])
        retokenizer.merge(doc[4:7])
    ((place, long),) = long_forms(doc).items()
    assert (doc[slice(*place)].text, long.text) == ("ZQ", "the heart attack")


def test_places_of_tokens_that_were_merged_behind_the_detector_are_not_believed(pipeline, abbreviations):
    doc = pipeline.make_doc("She took aspirin after the heart attack ( HA ) . HA came again .")
    places = {"short_start": 11, "short_end": 12, "long_start": 5, "long_end": 7}
    doc._.abbreviations = [places | {"short_text": "HA", "long_text": "heart attack"}]
    assert long_forms(doc) == {(11, 12): doc[5:7]}
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:3])
    assert long_forms(doc) == {(6, 7): doc[3:5], (9, 10): doc[3:5]}


def test_what_the_text_defines_needs_no_detector(pipeline, linker):
    doc = pipeline.make_doc("She took aspirin after the heart attack ( HA ) . HA came again .")
    doc.ents = [Span(doc, 11, 12, label="X")]
    assert linker(doc).ents[0].kb_id_ == HEART_ATTACK
    assert linker.explain(doc.ents[0]).long_form == "heart attack"


@pytest.mark.parametrize("text", ["She took aspirin ( ZQ ) . ZQ helped .", "She took ZQ ( aspirin ) . ZQ helped ."])
def test_another_name_in_brackets_is_read_too(pipeline, linker, text):
    doc = pipeline.make_doc(text)
    doc.ents = [Span(doc, i, i + 1, label="X") for i in (2, 4, 7)]
    doc = linker(doc)
    name, *others = sorted(doc.ents, key=lambda ent: ent.text != "aspirin")
    assert {ent.kb_id_ for ent in doc.ents} == {ASPIRIN}
    assert {ent._.kb_read for ent in doc.ents} == {"aspirin"}
    assert others[1]._.kb_ents == name._.kb_ents
    assert linker.explain(others[1]).long_form == "aspirin" and linker.explain(name).long_form is None
    assert linker.rank([others[1]], 1) == [name._.kb_ents[:1]]

    linker.resolve_abbreviations = False
    doc = linker(doc)
    assert [ent._.kb_read for ent in doc.ents] == [ent.text for ent in doc.ents]
    assert others[1]._.kb_ents[0][1] < name._.kb_ents[0][1]


def test_another_name_is_a_mention_of_the_same_group(pipeline, linker):
    linker.spans_key = "found"
    doc = pipeline.make_doc("She took aspirin ( ZQ ) .")
    doc.spans["found"] = [Span(doc, 2, 3, label="X"), Span(doc, 4, 5, label="X")]
    group = linker(doc).spans["found"]
    assert [span.kb_id_ for span in group] == [ASPIRIN, ASPIRIN] and group.attrs["kb_read"] == ["aspirin"] * 2
    again = next(DocBin(docs=[doc], store_user_data=True).get_docs(pipeline.vocab))
    assert [link.read for link in links_of(again, "found")] == ["aspirin"] * 2
    linker.spans_key = None  # there are no entities
    assert linker.find([group[1]], 1)[0].read.text == "ZQ"
    assert [found.read.text for found in linker.find(list(group), 1)] == ["aspirin"] * 2


def test_what_an_older_version_wrote_of_a_group_counts(pipeline, linker):
    linker.spans_key, linker.types_by_label = "found", {"DRUG": ["Chemical"], "ILLNESS": ["Disease"]}
    doc = linker(with_group(pipeline, (2, 3, "DRUG"), (2, 3, "ILLNESS")))
    before = [link.candidates for link in links_of(doc, "found")]
    del doc.spans["found"].attrs["kb_read"]
    assert [link.candidates for link in links_of(doc, "found")] == before and before[0] != before[1]


def test_gold_mentions_have_other_names_too(pipeline, linker):
    """They stand in a group of their own, which no pipeline links."""
    doc = pipeline.make_doc("She took ZQ ( aspirin ) . ZQ helped .")
    doc.spans[GOLD_GROUP] = [Span(doc, i, i + 1, label="X", kb_id=ASPIRIN) for i in (2, 4, 7)]
    assert evaluate(pipeline, [doc])["recall_at_1"] == 1


def test_a_long_form_that_is_shorter_is_none(pipeline, linker, abbreviations):
    doc = abbreviated(pipeline)
    doc[5:7]._.long_form = doc[8:9]  # the wrong way round
    doc._.abbreviations = [doc[5:7]]
    doc.ents = [Span(doc, 5, 7, label="X")]
    assert linker(doc).ents[0].kb_id_ == HEART_ATTACK
    assert linker.explain(doc.ents[0]).long_form is None


def test_scispacy_finds_them(pipeline, linker):
    """The detector itself, in a pipeline of its own."""
    abbreviation = pytest.importorskip("scispacy.abbreviation", reason="the extra `scispacy` is not installed")
    nlp = spacy.blank("en")
    nlp.add_pipe("abbreviation_detector")
    assert abbreviation.AbbreviationDetector
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "X", "pattern": "TR"}])
    doc = linker(nlp("Severe tricuspid regurgitation (TR) was seen. TR is a leaking valve."))
    assert [ent.kb_id_ for ent in doc.ents] == ["D014262", "D014262"]
    assert linker.explain(doc.ents[1]).long_form == "tricuspid regurgitation"


def test_settings_have_scispacys_names_too(linker):
    assert (linker.k, linker.max_entities_per_mention) == (linker.top_k, linker.max_candidates)
    linker.k, linker.max_entities_per_mention = 7, 2
    assert (linker.top_k, linker.max_candidates) == (7, 2)
    with pytest.raises(PelError, match=r"set nil_threshold = 0\.7"):
        linker.threshold = 0.7
