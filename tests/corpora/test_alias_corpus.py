"""Training corpora made of a KB, and of a KB and annotated mentions together."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest
import spacy
from spacy.util import registry
from tiny import ENTITIES, make_docs, make_kb

from spacy_pel.corpora.alias_corpus import AliasCorpus
from spacy_pel.corpora.docbin import write_docs
from spacy_pel.corpora.mention_corpus import MentionCorpus
from spacy_pel.corpora.mixed_corpus import MixedCorpus
from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.mentions.gold import gold_mentions, training_mentions

NLP = spacy.blank("en")
NAMES = Counter((name, e.id) for e in ENTITIES for name in (e.name, *e.aliases))


@pytest.fixture
def kb(tmp_path):
    return make_kb(tmp_path / "kb")


@pytest.fixture
def texts(tmp_path):
    docs = [NLP.make_doc(text) for text in ("He had a Heart Attack twice .", "AF , fits and the af of it", "lithium")]
    write_docs(tmp_path / "texts.spacy", docs)
    return [tmp_path / "texts.spacy"]


def mentions(examples):
    return [(m.span.text, m.ids[0], m.span.doc.text) for eg in examples for m in gold_mentions(eg.reference)]


def test_every_name_once_alone_in_a_new_order_each_time(kb):
    corpus, again = AliasCorpus(kb.path), AliasCorpus(kb.path)
    first, second = mentions(corpus(NLP)), mentions(corpus(NLP))
    assert Counter((text, id_) for text, id_, _ in first) == NAMES and {len(set(one[::2])) for one in first} == {1}
    assert first != second and sorted(first) == sorted(second)
    assert first == mentions(again(NLP)) != mentions(AliasCorpus(kb.path, seed=1)(NLP))
    assert mentions(AliasCorpus(kb.path, limit=3)(NLP)) == first[:3]


def test_they_are_what_training_reads(kb):
    for example in AliasCorpus(kb.path)(NLP):
        (mention,) = training_mentions(example, use_gold_ents=True)
        assert mention.span.text == example.predicted.text and not example.predicted.ents


def test_names_in_passages(kb, texts):
    """Those of the entity where there are any, else of one with the same types; abbreviations are not looked for."""
    found = mentions(AliasCorpus(kb.path, texts=texts, in_text=1.0)(NLP))
    assert Counter((text, id_) for text, id_, _ in found) == NAMES
    by_name = {(text, id_): whole for text, id_, whole in found}
    assert by_name["MI", "D009203"] == "He had a MI twice ."
    assert by_name["myocardial infarction".title(), "D009203"] == "He had a Myocardial Infarction twice ."
    assert by_name["convulsions", "D012640"] in {"AF , convulsions and the af of it"}
    assert by_name["Naloxone", "D009270"] == "Naloxone"  # in the place of lithium, which is a chemical too
    assert by_name["Cyanosis", "D003490"] == "Cyanosis"  # no text names a sign
    af = {whole.replace("atrial fibrillation".title(), "AF") for (_, id_), whole in by_name.items() if id_ == "D001281"}
    assert all("AF of it" not in whole for whole in af)  # "af" is no name, and none of AF's own was found


def test_definitions_of_other_entities_are_passages(tmp_path):
    entities = [
        Entity("A", "Fever", ("pyrexia",), ("Sign",), "Fever is heat."),
        Entity("B", "Malaria", (), ("Disease",), "An infection with high fever and chills."),
    ]
    corpus = AliasCorpus(make_kb(tmp_path / "kb", entities).path, in_text=1.0)
    found = {text: whole for text, _, whole in mentions(corpus(NLP))}
    assert found == {
        "Fever": "An infection with high Fever and chills.",
        "pyrexia": "An infection with high pyrexia and chills.",
        "Malaria": "Malaria",
    }


def test_the_window_and_the_share(kb, texts):
    corpus = AliasCorpus(kb.path, texts=texts, in_text=1.0, window=1)
    assert ("MI", "D009203", "a MI twice ") in mentions(corpus(NLP))
    half = AliasCorpus(kb.path, texts=texts, in_text=0.5)
    many = [found for _ in range(30) for found in mentions(half(NLP))]
    alone = [text == whole for text, id_, whole in many if id_ == "D009203"]
    assert 0.3 < sum(alone) / len(alone) < 0.7


def test_a_name_that_two_entities_have_is_right_for_both_and_no_passage(tmp_path, texts):
    entities = [Entity("A", "Heart attack", (), ("Disease",)), Entity("B", "heart attack", ("infarct",), ("Disease",))]
    corpus = AliasCorpus(make_kb(tmp_path / "kb", entities).path, texts=texts, in_text=1.0)
    found = {m.span.text: (m.ids, m.span.doc.text) for eg in corpus(NLP) for m in gold_mentions(eg.reference)}
    assert found == {
        "Heart attack": (("A", "B"), "Heart attack"),
        "heart attack": (("A", "B"), "heart attack"),
        "infarct": (("B",), "infarct"),
    }


def test_in_the_place_of_another_name_all_of_those_types_are_right(tmp_path, texts):
    """`texts` name Naloxone's like, lithium, and neither entity that is called Ether."""
    entities = [
        Entity("A", "Lithium", (), ("Chemical",)),
        Entity("B", "Ether", (), ("Chemical",)),
        Entity("C", "ether", (), ("Chemical",)),
        Entity("D", "Ether", (), ("Disease",)),
    ]
    corpus = AliasCorpus(make_kb(tmp_path / "kb", entities).path, texts=texts, in_text=1.0)
    found = {m.span.text: m.ids for eg in corpus(NLP) for m in gold_mentions(eg.reference) if m.ids != ("B", "C", "D")}
    assert found == {"Lithium": ("A",), "Ether": ("B", "C"), "ether": ("B", "C")}


def test_templates_where_there_is_no_passage(tmp_path, texts):
    """They say nothing of types, so that a name in them is right for all that have it."""
    entities = [
        Entity("A", "Ether", (), ("Sign",)),
        Entity("B", "ether", (), ("Disease",)),
        Entity("C", "Heart Attack", ("MI",), ("Event",)),
    ]
    templates = ["{name} was seen.", "Treated (for {name}) twice"]
    path = make_kb(tmp_path / "kb", entities).path
    corpus = AliasCorpus(path, texts=texts, templates=templates, in_text=1.0)
    many = [
        (m.span.text, m.ids, m.span.doc.text)
        for _ in range(9)
        for eg in corpus(NLP)
        for m in gold_mentions(eg.reference)
    ]
    assert {(ids, whole) for text, ids, whole in many if text == "ether"} == {
        (("A", "B"), "ether was seen."),
        (("A", "B"), "Treated (for ether) twice"),
    }
    assert {(ids, whole) for text, ids, whole in many if text == "MI"} == {(("C",), "He had a MI twice .")}
    assert all(text == whole for text, _, whole in mentions(AliasCorpus(path, templates=templates)(NLP)))


def test_mixed_with_annotated_mentions(kb, tmp_path):
    write_docs(tmp_path / "train.spacy", make_docs(NLP))
    annotated = sorted(mentions(MentionCorpus(tmp_path / "train.spacy")(NLP)))

    def mixed(ratio):
        readers = MentionCorpus(tmp_path / "train.spacy"), AliasCorpus(kb.path)
        return mentions(MixedCorpus(*readers, ratio)(NLP))

    kinds = [text == whole for text, _, whole in mixed(0.5)]
    assert len(annotated) == 12 and kinds == [False, False, True] * 6
    assert sorted(one for one in mixed(0.5) if one[0] != one[2]) == annotated == sorted(mixed(0))
    assert len(mixed(0.75)) == 12 + 9 and len(mixed(100)) == 12 + len(NAMES)


def test_names_before_the_first_mention(kb, tmp_path):
    write_docs(tmp_path / "train.spacy", make_docs(NLP))
    corpus = MixedCorpus(MentionCorpus(tmp_path / "train.spacy"), AliasCorpus(kb.path), ratio=0, first=40)
    kinds = [text == whole for text, _, whole in mentions(corpus(NLP))]
    assert len(NAMES) < 40 and kinds == [True] * 40 + [False] * 12
    assert len(mentions(corpus(NLP))) == 12  # the next epoch


def test_what_is_refused(kb, tmp_path):
    with pytest.raises(PelError, match="in_text = 2"):
        AliasCorpus(kb.path, in_text=2)
    for template in ("no place", "{name} and {name}"):
        with pytest.raises(PelError, match=r"needs one \{name\}"):
            AliasCorpus(kb.path, templates=[template], in_text=1)
    with pytest.raises(PelError, match="longer token"):
        list(AliasCorpus(kb.path, templates=["non{name}s"], in_text=1)(NLP))
    for key in ("window", "seed", "limit"):
        with pytest.raises(PelError, match=f"{key} = -1; it must be at least 0"):
            AliasCorpus(kb.path, **{key: -1})
    for key in ("texts", "templates"):
        with pytest.raises(PelError, match=rf'{key} .* make it \["She has {{name}}\."\]'):
            AliasCorpus(kb.path, **{key: "She has {name}."})
    for setting in ({"ratio": -1}, {"first": -1}):
        with pytest.raises(PelError, match=r"= -1; it must be .*at least 0"):
            MixedCorpus(lambda nlp: [], lambda nlp: [], **setting)
    with pytest.raises(PelError, match="nowhere"):
        list(AliasCorpus(tmp_path / "nowhere")(NLP))
    with pytest.raises(PelError, match=r"no\.spacy"):
        list(AliasCorpus(kb.path, texts=[tmp_path / "no.spacy"], in_text=1)(NLP))


def test_they_are_registered_and_pickle(kb):
    aliases = registry.readers.get("spacy_pel.AliasCorpus.v1")(kb.path)
    mixed = registry.readers.get("spacy_pel.MixedCorpus.v1")(aliases, aliases)
    assert mentions(pickle.loads(pickle.dumps(aliases))(NLP)) == mentions(aliases(NLP))
    assert mixed.ratio == 1 and mentions(pickle.loads(pickle.dumps(mixed))(NLP)) == mentions(mixed(NLP)) != []
