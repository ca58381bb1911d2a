"""While a linker is being trained its KB is indexed with older weights: it says so, and links nothing."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import pytest
import spacy
from spacy.training import Example
from tiny import links, make_docs, make_examples, make_kb, make_pipeline, train, unlinked, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.search.live import LiveIndex


@pytest.fixture
def made(tmp_path):
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    linker.index(progress=False)
    return nlp, linker, examples, optimizer


def test_after_an_update_it_says_what_to_run_and_encodes_nothing(made, monkeypatch):
    nlp, linker, examples, optimizer = made
    before = links(nlp(unlinked(nlp)[0]))
    assert all(kb_id for _, kb_id in before) and linker.session is None
    train(nlp, examples, optimizer, 2)
    monkeypatch.setattr(LiveIndex, "refresh", lambda self: pytest.fail("a hidden pass over the KB"))
    with pytest.warns(UserWarning, match=r"pel_linker is being trained and links nothing.*index\(\)"):
        doc = nlp(unlinked(nlp)[0])
    assert [kb_id for _, kb_id in links(doc)] == ["", ""] and not doc.ents[0]._.kb_ents
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp("Nothing to link.")
        linker.index(progress=False)
        assert linker.session is None and all(kb_id for _, kb_id in links(nlp(unlinked(nlp)[0])))


def test_an_update_that_changes_no_weight_leaves_it_linking(made):
    nlp, linker, examples, optimizer = made
    before = [links(nlp(doc)) for doc in unlinked(nlp)]
    recall = nlp.evaluate(examples)["nel_recall_at_1"]
    nlp.update([Example(nlp.make_doc("Nothing here ."), nlp.make_doc("Nothing here ."))], sgd=optimizer)
    linker.update(examples)  # adds up gradients
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [links(nlp(doc)) for doc in unlinked(nlp)] == before
    assert nlp.evaluate(examples)["nel_recall_at_1"] == recall
    linker.finish_update(optimizer)
    with pytest.warns(UserWarning, match="is being trained and links nothing"):
        nlp(unlinked(nlp)[0])


def test_where_its_kb_is_not_indexed_an_update_that_changes_no_weight_leaves_it_without_links(made):
    nlp, linker, _, optimizer = made
    linker.kb.drop_index(linker.fingerprint)
    nlp.update([Example(nlp.make_doc("Nothing here ."), nlp.make_doc("Nothing here ."))], sgd=optimizer)
    with pytest.warns(UserWarning, match="is being trained and links nothing"):
        nlp(unlinked(nlp)[0])


def test_a_session_is_begun_once_and_ended_in_the_open(made):
    _, linker, examples, _ = made
    session = linker.begin_training()
    linker.update(examples)
    assert linker.session is session is linker.begin_training()
    linker.remove_entities(["D009270"])
    assert linker.session is None


def test_dev_scores_are_of_the_weights_of_now(made):
    nlp, linker, examples, optimizer = made
    linker.lexical = None  # while it is trained, vectors alone count
    before = nlp.evaluate(examples)["nel_recall_at_1"]
    train(nlp, examples, optimizer, 60)
    assert nlp.evaluate(examples)["nel_recall_at_1"] > before


def test_two_linkers_with_different_encoders_share_one_kb(tmp_path):
    kb = make_kb(tmp_path / "kb")
    first, one, examples, optimizer = make_pipeline(write_encoder(tmp_path / "a"), kb)
    second, other, _, _ = make_pipeline(write_encoder(tmp_path / "b", intermediate_size=48), kb)
    train(first, examples, optimizer, 60)
    one.index(progress=False)
    linked = [links(first(doc)) for doc in unlinked(first)]
    other.index(progress=False)
    assert set(kb.indexes) == {one.fingerprint, other.fingerprint}
    assert [links(first(doc)) for doc in unlinked(first)] == linked
    assert all(kb_id for doc in unlinked(second) for _, kb_id in links(second(doc)))
    one.remove_entities(["D009270"])
    ids = {id_ for found in other.rank([ent for doc in make_docs(second) for ent in doc.ents], 12) for id_, _ in found}
    assert "D009270" not in ids and len(ids) == 11
    one.add_entities([Entity("NEW", "new")])
    span = make_docs(second)[0].ents[0]
    with pytest.warns(UserWarning, match=r"pel_linker cannot find 1 of the 12 entities of .*\.index\(\)"):
        assert "NEW" not in dict(*other.rank([span], 12))
    other.index(progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "NEW" in dict(*other.rank([span], 12))
    kb.drop_index(other.fingerprint)
    with pytest.raises(PelError, match="was indexed with another encoder"):
        second(unlinked(second)[0])


def test_what_either_kind_of_vectors_has_is_found_without_a_warning(tmp_path):
    nlp, linker, *_ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    linker.vectors = "both"
    linker.index(progress=False)
    linker.vectors = "entity"
    linker.add_entities([Entity("NEW", "new")])
    linker.vectors = "both"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "NEW" in dict(*linker.rank([make_docs(nlp)[0].ents[0]], 13))


def test_saving_in_place_keeps_the_index_of_another_linker(tmp_path):
    first, one, examples, optimizer = make_pipeline(write_encoder(tmp_path / "a"), make_kb(tmp_path / "kb"))
    one.index(progress=False)
    first.to_disk(tmp_path / "pipeline")
    one.set_kb(tmp_path / "pipeline" / "pel_linker" / "kb")
    _, other, _, _ = make_pipeline(write_encoder(tmp_path / "b", intermediate_size=48), one.kb)
    other.index(progress=False)
    first.to_disk(tmp_path / "pipeline")
    assert set(KnowledgeBase(one.kb.path).indexes) == {one.fingerprint, other.fingerprint}
    train(first, examples, optimizer, 1)
    with pytest.raises(PelError, match=r"other linkers have indexed this KB too.*linker.index\(\)"):
        first.to_disk(tmp_path / "pipeline")
    assert other.fingerprint in KnowledgeBase(one.kb.path).indexes


def test_without_an_encoder_every_way_in_says_so(tmp_path):
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("pel_linker")
    linker.set_kb(make_kb(tmp_path / "kb"))
    for act in (linker.index, lambda: linker.fingerprint, lambda: linker.update(make_examples(nlp))):
        with pytest.raises(PelError, match="pel_linker has no encoder yet"):
            act()
    assert linker.session is None


def test_a_pickle_of_one_that_is_trained_is_trained_on(made):
    nlp, linker, examples, optimizer = made
    train(nlp, examples, optimizer, 2)
    again = pickle.loads(pickle.dumps(linker))
    assert again.session is not None and again.session is not linker.session
    with pytest.warns(UserWarning, match="is being trained and links nothing"):
        again(unlinked(nlp)[0])
    assert again.update(examples)["pel_linker"] > 0
    again.index(progress=False)
    assert pickle.loads(pickle.dumps(again)).session is None


def test_another_kb_ends_a_training(made, tmp_path):
    nlp, linker, examples, optimizer = made
    train(nlp, examples, optimizer, 1)
    linker.kb = linker.kb.copy_to(tmp_path / "other")
    assert linker.session is None
    train(nlp, examples, optimizer, 1)
    assert linker.session.kb is linker.kb


def test_another_objective_ends_a_training(made):
    nlp, linker, examples, optimizer = made
    train(nlp, examples, optimizer, 1)
    linker.objective = replace(linker.objective, loss=replace(linker.objective.loss, margin=0.5), adversarial=None)
    assert linker.session is None
    train(nlp, examples, optimizer, 1)
    assert linker.session.objective is linker.objective and linker.session.loss == linker.objective.loss


def test_another_model_is_not_taken_for_the_one_that_the_kb_was_indexed_with(made, tmp_path):
    nlp, linker, *_ = made
    before = linker.fingerprint
    _, other, _, _ = make_pipeline(write_encoder(tmp_path / "wider", intermediate_size=96), make_kb(tmp_path / "kb2"))
    linker.model = other.model
    assert linker.fingerprint == other.fingerprint != before
    with pytest.raises(PelError, match="pel index"):
        linker(unlinked(nlp)[0])


def test_whether_what_was_tuned_still_counts_is_asked_whatever_a_setting_is_called(made, monkeypatch):
    _, linker, *_ = made
    asked = []
    for module in ("linker", "with_kb"):
        monkeypatch.setattr(f"spacy_pel.pipeline.{module}.warn_of_tuning", asked.append)
    linker.top_k = 32
    linker.k = 64
    linker.settings = replace(linker.settings, top_k=32)
    linker.set_kb(linker.kb)
    assert len(asked) == 4
    with pytest.raises(PelError, match="nil_threshold"):
        linker.settings = replace(linker.settings, nil_threshold=7.0)
    assert linker.settings.nil_threshold != 7.0 and len(asked) == 4
