"""The setting `vectors`: those of names beside, or in place of, those of entities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import spacy
from tiny import ENTITIES, SENTENCES, links, make_docs, make_kb, make_pipeline, train, write_encoder

from spacy_pel.cli import pel_app
from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.verify import verify
from spacy_pel.models.encoding import encode_entities, encode_spans
from spacy_pel.models.storage import fingerprint

SHARED = [  # names that several have, and one that an entity has twice
    Entity("M1", "Mercury", ("Hg", "quicksilver"), ("Chemical",), "A metal."),
    Entity("M2", "mercury", ("planet",), ("Sign",), "A planet."),
    Entity("M3", "Heart-attack", ("HG", "hg"), ("Disease",)),
]


FIRST_WRITTEN = {"Heart-attack": "heart attack"}  # one vector for both
ENGLISH = spacy.blank("en")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    nlp, linker, examples, optimizer = make_pipeline(
        write_encoder(folder / "encoder"), make_kb(folder / "kb", [*ENTITIES, *SHARED]), top_k=8
    )
    train(nlp, examples, optimizer, 12)
    linker.index(progress=False)
    nlp.to_disk(folder / "entity")
    return folder


@pytest.fixture(params=["entity", "names", "both"])
def vectors(request):
    return request.param


def load(trained, tmp_path, vectors):
    pel_app(
        ["index", str(trained / "entity"), str(trained / "kb"), str(tmp_path / "linker"), "--vectors", vectors],
        standalone_mode=False,
    )
    nlp = spacy.load(tmp_path / "linker")
    return nlp, nlp.get_pipe("pel_linker")


def alone(text):
    """`text` as a mention that stands alone."""
    return ENGLISH(text)[:]


def similarities(linker, span) -> dict[str, dict[str, float]]:
    """By hand: for every entity of the KB the similarity of its vector, and the best of its names."""
    entities = list(linker.kb.entities())
    names = [(entity.id, name) for entity in entities for name in (entity.name, *entity.aliases)]
    spans = [alone(FIRST_WRITTEN.get(name, name)) for _, name in names]
    vectors, places = encode_spans(linker.model, [span, *spans])
    by_name = vectors[places[1:]] @ vectors[places[0]]
    by_entity = encode_entities(linker.model, entities) @ vectors[places[0]]
    return {
        entity.id: {
            "entity": own,
            "names": max(value for (id, _), value in zip(names, by_name, strict=True) if id == entity.id),
        }
        for entity, own in zip(entities, by_entity, strict=True)
    }


def expected(linker, span, k, allowed=None):
    sides = {"entity": ["entity"], "names": ["names"], "both": ["entity", "names"]}[linker.vectors]
    scores = {
        id: np.mean([own[side] for side in sides])
        for id, own in similarities(linker, span).items()
        if allowed is None or set(linker.kb[id].types) & set(allowed)
    }
    return sorted(((score, id) for id, score in scores.items()), reverse=True)[:k]


def check(nlp, linker):
    """The linker ranks as by hand, over all entities and over those of some types."""
    doc = make_docs(nlp)[0]
    linker.lexical = None
    linker.top_k = len(linker.kb)  # so that each side finds all
    for types in ([], ["Chemical", "Sign"]):
        linker.types = types
        for span in (doc.ents[0], doc.ents[1], alone("Mercury"), alone("hg")):
            wanted = expected(linker, span, 5, types or None)
            found = linker.rank([span], 5)[0]
            assert [score for _, score in found] == pytest.approx([score for score, _ in wanted], abs=1e-5)
            for (id, score), (_, best) in zip(found, wanted, strict=True):
                assert id == best or score == pytest.approx({i: s for s, i in wanted}.get(id, -9), abs=1e-5)
    linker.types = []
    assert verify(linker.kb) == []


def test_it_ranks_as_by_hand_through_all_changes(trained, tmp_path, vectors):
    nlp, linker = load(trained, tmp_path, vectors)
    assert (
        sorted(index.kind for index in linker.kb.indexes.values())
        == {"entity": ["entity"], "names": ["names"], "both": ["entity", "names"]}[vectors]
    )
    check(nlp, linker)
    if vectors != "entity":
        index = linker.kb.entity_index(fingerprint(linker.model, "names"))
        forms = {name.casefold().replace("-", " ") for e in (*ENTITIES, *SHARED) for name in (e.name, *e.aliases)}
        assert index.n_vectors == len(forms) and len(index.owners()) == len(forms) + 3  # mercury, hg, heart attack
    linker.add_entities([Entity("N1", "Novel disease", ("quicksilver", "nd"), ("Disease",)), Entity("N2", "Newt")])
    check(nlp, linker)
    linker.update_entities([replace(SHARED[0], aliases=("argentum vivum",))])
    check(nlp, linker)
    linker.remove_entities(["M3", "D001241"])
    check(nlp, linker)
    linker.kb.compact()
    nlp.to_disk(tmp_path / "other")
    other = spacy.load(tmp_path / "other")
    check(other, other.get_pipe("pel_linker"))
    assert set(other.get_pipe("pel_linker").kb.indexes) == set(linker.fingerprints.values())
    copy = spacy.util.get_lang_class("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    copy.get_pipe("pel_linker").lexical = None
    assert [links(doc) for doc in copy.pipe(make_docs(copy))] == [links(doc) for doc in other.pipe(make_docs(other))]


def test_another_process_sees_changes_of_both_at_once(trained, tmp_path):
    _, linker = load(trained, tmp_path, "both")
    elsewhere = spacy.load(tmp_path / "linker").get_pipe("pel_linker")
    elsewhere.rank([alone("hg")], 3)
    linker.add_entities([Entity("N1", "hg vapour", ("hg",), ("Chemical",))])
    assert elsewhere.rank([alone("hg")], 3) == linker.rank([alone("hg")], 3)
    assert "N1" in dict(linker.rank([alone("hg")], 20)[0])


def test_found_says_which_name_it_was(trained, tmp_path, vectors):
    _, linker = load(trained, tmp_path, vectors)
    span, linker.lexical = alone("convulsions"), None
    explained = {one.id: one for one in linker.explain(span, 15).candidates}["D012640"]
    if vectors == "entity":
        assert explained.parts is None
        return
    own = {name: encode_spans(linker.model, [alone(name)])[0][0] for name in ("Seizures", "convulsions", "fits")}
    query = encode_spans(linker.model, [span])[0][0]
    assert explained.parts.name == max(own, key=lambda name: own[name] @ query)
    best = explained.parts.similarity if vectors == "names" else explained.parts.names
    assert best == pytest.approx(max(vector @ query for vector in own.values()), abs=1e-5)
    assert explained.parts.ngram is None and repr(explained.parts.name) in str(explained)


def test_with_texts_of_names_too(trained, tmp_path, vectors):
    nlp, linker = load(trained, tmp_path, vectors)
    docs = make_docs(nlp)
    tuned = linker.tune_names(docs)
    assert (tuned.weights.names is not None) == (vectors == "both")
    linker.tune_nil(make_docs(nlp, [*SENTENCES, ("The zebrafish swam .", {"zebrafish": "NIL"})]))
    linker.top_k = len(linker.kb)
    weights, span = linker.name_weights, docs[1].ents[0]
    lexical = dict(zip(linker.kb, linker.kb.names.match(span.text).scores(linker.kb.live_rows).tolist(), strict=True))
    by_hand = {}
    for id, own in similarities(linker, span).items():
        sides = [(1.0, own["names" if vectors == "names" else "entity"]), (weights.ngram, lexical[id][0])]
        sides += [(weights.exact, lexical[id][1])] + ([(weights.names, own["names"])] if vectors == "both" else [])
        by_hand[id] = sum(w * value for w, value in sides) / sum(w for w, _ in sides)
    found = dict(linker.rank([span], len(linker.kb))[0])
    assert found == pytest.approx(by_hand, abs=1e-5)
    nlp.to_disk(tmp_path / "tuned")
    again = spacy.load(tmp_path / "tuned").get_pipe("pel_linker")
    assert again.name_weights == pytest.approx(linker.name_weights, nan_ok=True) or again.name_weights == weights
    again.top_k = linker.top_k  # deeper, more are found by an index and fewer compared: sums in another order
    assert again.rank([span], 4) == linker.rank([span], 4)
    with pytest.warns(UserWarning, match=f"tuned for scores with vectors = {vectors}, and they are now with"):
        linker.vectors = "names" if vectors == "entity" else "entity"


def test_what_is_missing_is_named(trained, tmp_path):
    nlp, linker = load(trained, tmp_path, "entity")
    linker.vectors = "both"
    with pytest.raises(
        PelError, match=r"has no vectors of this linker's names \(vectors = \"both\"\): run .*pel index"
    ):
        linker.rank([alone("hg")], 1)
    with pytest.raises(PelError, match=r"setting of `vectors`.*linker\.index"):
        nlp.to_disk(tmp_path / "linker")
    nlp.to_disk(tmp_path / "elsewhere")  # without vectors, so that it can be loaded
    assert not spacy.load(tmp_path / "elsewhere").get_pipe("pel_linker").kb.indexes
    linker.vectors = "names"
    with pytest.raises(PelError, match="or for another setting of `vectors`"):
        linker.rank([alone("hg")], 1)
    linker.index(progress=False)
    assert linker.rank([alone("Aspirin")], 1)[0]
    with pytest.raises(PelError, match="vectors is 'all'; choose one of entity, names, both"):
        linker.vectors = "all"


def test_towers_that_change_leave_no_stale_vectors(trained, tmp_path):
    _, linker = load(trained, tmp_path, "both")
    before, spans = dict(linker.fingerprints), [alone("Aspirin"), alone("hg")]
    found = linker.rank(spans, 3)
    _, other, *_ = make_pipeline(
        trained / "encoder", KnowledgeBase(linker.kb.path), vectors="both", model={"shared_towers": True}
    )
    with pytest.raises(PelError, match="another encoder"):
        other.rank([alone("hg")], 1)
    assert len({*before.values(), *other.fingerprints.values()}) == 4
    other.index(progress=False)  # beside those of the first
    assert linker.rank(spans, 3) == found != other.rank(spans, 3)
    assert len(KnowledgeBase(linker.kb.path).indexes) == 4


def test_a_filter_that_leaves_no_vector_of_those_that_were_indexed(trained, tmp_path, vectors):
    nlp, linker = load(trained, tmp_path, vectors)
    linker.set_kb(linker.kb.copy_to(tmp_path / "own"))
    linker.add_entities([Entity("NEW", "p53", ("TP53",), ("Gene",))])
    (doc, *_) = make_docs(nlp)
    linker.types = ["Gene"]
    assert {id_ for ranked in linker.rank(doc.ents, 3) for id_, _ in ranked} == {"NEW"}
    linker.types_by_label = {doc.ents[0].label_: ["Disease"]}
    assert linker.rank(doc.ents[:1], 3) == [[]] and linker.explain(doc.ents[0]).candidates == []
