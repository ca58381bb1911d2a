"""Codes of linked entities: `linker.codes`, `span._.kb_xrefs`, and links to entities with codes only."""

from __future__ import annotations

import gc
import pickle
import shutil
from dataclasses import replace

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span
from tiny import ENTITIES, make_docs, make_kb, make_pipeline, train, with_codes, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions import xrefs

CODES = {"D009203": ("ICD10CM:I21", "SNOMEDCT_US:22298006"), "D001241": ("RXNORM:1191",), "D012640": ("ICD10CM:R56.9",)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("codes")
    kb = make_kb(path / "kb", with_codes(CODES))
    nlp, linker, _, _ = make_pipeline(write_encoder(path / "encoder"), kb)
    linker.index(progress=False)
    nlp.to_disk(path / "linker")
    return path / "linker"


@pytest.fixture
def nlp(folder):
    return spacy.load(folder)


def linked(nlp, **how) -> Doc:
    """That of aspirin and the heart attack."""
    return next(iter(nlp.pipe(make_docs(nlp)[:1], **how)))


def test_codes_by_id(nlp):
    linker = nlp.get_pipe("pel_linker")
    aspirin, attack = linked(nlp).ents
    assert linker.codes(attack.kb_id_, "ICD10CM") == ["I21"] and linker.codes(aspirin.kb_id_, "ICD10CM") == []
    assert linker.codes("NIL", "RXNORM") == []
    with pytest.raises(
        PelError, match=r'vocabulary "ICD9"; the commonest vocabularies are ICD10CM, RXNORM, SNOMEDCT_US'
    ):
        linker.codes(attack.kb_id_, "ICD9")
    with pytest.raises(KeyError, match="D9"):
        linker.codes("D9", "ICD10CM")


def xrefs_of(doc: Doc) -> list[tuple[str, ...]]:
    return [ent._.kb_xrefs for ent in doc.ents]


def test_xrefs_of_a_span(nlp):
    doc = linked(nlp)
    assert xrefs_of(doc) == [CODES["D001241"], CODES["D009203"]] and not any(
        "xrefs" in str(key) for key in doc.user_data
    )
    doc.ents = [Span(doc, 2, 3, label="X", kb_id="NIL"), Span(doc, 5, 7, label="X")]
    assert xrefs_of(doc) == [(), ()]


def test_a_pipeline_that_lives_on_after_its_kb_was_compacted_is_passed_over(folder, tmp_path, monkeypatch):
    """`old` stands for what a notebook has until Python collects it."""
    monkeypatch.setattr(xrefs, "_linkers", type(xrefs._linkers)())  # those of other tests know the ids too
    path = shutil.copytree(folder, tmp_path / "linker")
    old = spacy.load(path)
    doc = linked(old)
    kb = KnowledgeBase(path / "pel_linker" / "kb")
    kb.remove(["D012640"])
    kb.compact()
    new = spacy.load(path)
    assert xrefs_of(doc) == [CODES["D001241"], CODES["D009203"]]
    of_new = new.make_doc("fits")
    of_new.ents = [Span(of_new, 0, 1, "X", kb_id="D012640")]
    assert xrefs_of(of_new) == [()]
    new.remove_pipe("pel_linker")
    gc.collect()
    with pytest.raises(PelError, match="open the KB again"):
        xrefs_of(doc)


def test_docs_from_other_processes_and_from_a_file(nlp):
    expected = [CODES["D001241"], CODES["D009203"]]
    assert xrefs_of(linked(nlp, n_process=2, batch_size=1)) == expected
    for with_data in (True, False):
        stored = DocBin(
            docs=[linked(nlp)], attrs=["ENT_IOB", "ENT_TYPE", "ENT_KB_ID"], store_user_data=with_data
        ).to_bytes()
        for vocab in (nlp.vocab, spacy.blank("en").vocab):
            assert xrefs_of(next(iter(DocBin().from_bytes(stored).get_docs(vocab)))) == expected


def test_it_follows_the_kb_and_the_linker(folder, nlp, tmp_path):
    linker = nlp.get_pipe("pel_linker")
    linker.set_kb(linker.kb.copy_to(tmp_path / "kb"))
    doc = linked(nlp)
    linker.update_entities([replace(linker.kb["D001241"], xrefs=("NEW:1",))])
    assert xrefs_of(doc) == [("NEW:1",), CODES["D009203"]]
    linker.remove_entities(["D009203"])
    again = pickle.loads(pickle.dumps(nlp))  # whose linker is younger, and of another vocabulary
    assert xrefs_of(doc)[0] == xrefs_of(linked(again))[0] == ("NEW:1",)


def test_of_several_linkers_the_doc_s_own_comes_first(folder, nlp, tmp_path):
    doc = linked(nlp)
    other = spacy.load(folder)
    kb = other.get_pipe("pel_linker").kb.copy_to(tmp_path / "kb")
    other.get_pipe("pel_linker").set_kb(kb)
    other.get_pipe("pel_linker").update_entities([replace(kb["D001241"], xrefs=("NEW:1",)), ENTITIES[4]])
    assert xrefs_of(doc)[0] == ("RXNORM:1191",) and xrefs_of(linked(other)) == [("NEW:1",), ()]
    moved = spacy.blank("en")
    moved.add_pipe("pel_linker", source=other)
    assert xrefs_of(linked(moved))[0] == ("NEW:1",)


def recoded(folder, path, **how):
    """The saved pipeline with other codes, in a KB at `path`."""
    nlp = spacy.load(folder, **how)
    linker = nlp.get_pipe("pel_linker")
    linker.set_kb(linker.kb.copy_to(path))
    linker.update_entities([replace(entity, xrefs=("NEW:1",)) for entity in linker.kb.get_many(CODES).values()])
    return nlp


@pytest.mark.parametrize("how", ["source", "vocab"])
def test_the_linker_that_linked_a_doc_answers_whatever_is_loaded_later(folder, nlp, tmp_path, how):
    expected = [CODES["D001241"], CODES["D009203"]]
    if how == "source":
        source, nlp = nlp, spacy.blank("en")
        nlp.add_pipe("pel_linker", source=source)
    doc = linked(nlp)
    other = recoded(folder, tmp_path / "kb", vocab=nlp.vocab if how == "vocab" else True)
    assert xrefs_of(doc) == expected and xrefs_of(linked(other)) == [("NEW:1",)] * 2
    if how == "source":
        assert xrefs_of(doc.copy()) == expected, "by the vocabulary"


def test_of_two_linkers_in_a_pipeline_the_one_that_links_the_span_answers(folder, nlp, tmp_path):
    nlp.add_pipe("pel_linker", name="two", source=recoded(folder, tmp_path / "kb")).spans_key = "sc"
    for n_process in (1, 2):
        docs = make_docs(nlp)[:1]
        for doc in docs:
            doc.spans["sc"] = [Span(doc, ent.start, ent.end, label="Y") for ent in doc.ents]
        for doc in nlp.pipe(docs, n_process=n_process, batch_size=1):
            assert xrefs_of(doc) == [CODES["D001241"], CODES["D009203"]]
            assert [span._.kb_xrefs for span in doc.spans["sc"]] == [("NEW:1",)] * 2
    two = nlp.get_pipe("two")
    two.spans_key, two.overwrite = None, False
    assert xrefs_of(linked(nlp)) == [CODES["D001241"], CODES["D009203"]], "whose ids it has kept"


def test_without_a_pipeline_it_says_what_to_load(nlp, monkeypatch):
    doc = linked(nlp)
    monkeypatch.setattr(xrefs, "_linkers", type(xrefs._linkers)())
    with pytest.raises(PelError, match=r'kb_xrefs of "D001241": no pipeline with a KB is open; spacy\.load'):
        xrefs_of(doc)


def test_a_linker_that_is_gone_is_not_held(folder):
    gc.collect()  # those of other tests
    before = len(xrefs._linkers)
    nlp = spacy.load(folder)
    assert len(xrefs._linkers) == before + 1
    del nlp
    gc.collect()
    assert len(xrefs._linkers) <= before


def test_only_entities_with_codes_are_candidates(folder, tmp_path):
    nlp = spacy.load(folder, config={"components.pel_linker.with_codes": ["ICD10CM"]})
    linker = nlp.get_pipe("pel_linker")
    linker.set_kb(linker.kb.copy_to(tmp_path / "kb"))
    aspirin, attack = linked(nlp).ents
    assert {id for id, _ in aspirin._.kb_ents} == {"D009203", "D012640"} and attack.kb_id_ == "D009203"
    assert "D001241" in [one.id for one in linker.explain(aspirin).filtered]
    linker.with_codes = ["ICD10CM", "RXNORM"]
    assert {id for id, _ in linker.rank([aspirin], 12)[0]} == set(CODES)
    linker.types = ["Disease"]
    assert {id for id, _ in linker.rank([aspirin], 12)[0]} == {"D009203", "D012640"}
    linker.add_entities([replace(ENTITIES[0], id="N1", types=("Disease",), xrefs=("RXNORM:2",))])
    linker.update_entities([replace(ENTITIES[3], xrefs=())])
    assert {id for id, _ in linker.rank([aspirin], 12)[0]} == {"D009203", "N1"}
    linker.with_codes = ["ICD9"]
    with pytest.raises(PelError, match=r'no entity has a code of the vocabulary "ICD9"; .* ICD10CM'):
        linked(nlp)


def test_negatives_of_a_training_have_codes_too(tmp_path):
    kb = make_kb(tmp_path / "kb", with_codes(CODES))
    nlp, linker, examples, optimizer = make_pipeline(
        write_encoder(tmp_path / "encoder"), kb, with_codes=["ICD10CM", "RXNORM"]
    )
    train(nlp, examples, optimizer, steps=1)
    session = linker.session
    allowed = set(kb.ids(session.live.rows_of(session.live.part(linker.settings.allowed_for("X"))._places)).tolist())
    assert allowed == set(CODES)
    for eg in examples:
        session.learn([eg], True, None, linker.settings.allowed_for)
        ids = kb.ids(session.live.rows_of(session.latest_batch.entity_places)).tolist()
        assert set(ids) <= set(CODES) | {ent.kb_id_ for ent in eg.reference.ents}
