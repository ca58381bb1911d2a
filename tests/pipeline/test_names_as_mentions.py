"""A linker tuned without annotated mentions: names of its own KB stand for them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import spacy
from tiny import ENTITIES, make_kb, make_pipeline, train, write_encoder
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import write_docs
from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.models.encoding import encode_entities, encode_names, encode_spans
from spacy_pel.pipeline import names_as_mentions
from spacy_pel.pipeline.finding import find_for
from spacy_pel.pipeline.names_as_mentions import find_for_names
from spacy_pel.pipeline.tuning import tune_to_kb
from spacy_pel.search.parts import EXACT, NAMES, NGRAM, SIMILARITY
from spacy_pel.tuning.tuned import Tuned

SHARED = [
    Entity("M1", "Mercury", ("Hg", "quicksilver"), ("Chemical",), "A metal."),
    Entity("M2", "mercury", ("planet",), ("Sign",), "A planet."),
]
KB = [*ENTITIES, *SHARED]
TEXT = "She took lithium , aspirin and mercury . Then a heart attack came ."


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb", KB))
    train(nlp, examples, optimizer, 5)
    linker.vectors = "both"
    linker.index(progress=False)
    nlp.to_disk(folder / "linker")
    return folder


@pytest.fixture
def linker(trained):
    return spacy.load(trained / "linker").get_pipe("pel_linker")


@pytest.mark.parametrize("tune", ["tune_names", "tune_nil"])
def test_texts_are_docs(linker, tune):
    with pytest.raises(PelError, match=r"'a text' \(str\) is no Doc: give Docs"):
        getattr(linker, tune)(texts=["a text"])


def of_shares(monkeypatch, nil, kept):
    monkeypatch.setattr(names_as_mentions, "NIL_SHARE", nil)
    monkeypatch.setattr(names_as_mentions, "KEPT_SHARE", kept)


@pytest.mark.parametrize("vectors", ["entity", "names", "both"])
def test_a_name_that_is_held_out_counts_nowhere(monkeypatch, linker, vectors):
    of_shares(monkeypatch, 0.0, 0.0)
    linker.vectors = vectors
    entities, n_held_out = {entity.id: entity for entity in KB}, 0
    for one in find_for_names(linker):
        found, form = one.found, one.mention.span.text
        for place, id_ in enumerate(found.ids):
            entity = entities[id_]
            left = [name for name in (entity.name, *entity.aliases) if name.lower() != form.lower()]
            owners = [entities[own] for own in one.mention.ids]
            names = [{name.lower() for name in (owner.name, *owner.aliases)} for owner in owners]
            if id_ not in one.mention.ids or min(map(len, names)) == 1:
                assert found.parts[EXACT][place] == (id_ in one.mention.ids) / len(one.mention.ids)
                continue
            n_held_out += 1
            assert found.parts[EXACT][place] == 0
            query = encode_spans(linker.model, [one.mention.span])[0][0]
            masked = encode_entities(linker.model, [replace(entity, name=left[0], aliases=tuple(left[1:]))])[0] @ query
            named = (encode_names(linker.model, left) @ query).max()
            expected = {"entity": [masked], "names": [named], "both": [masked, named]}[vectors]
            shown = [found.parts[part][place] for part in (SIMILARITY, NAMES) if part in found.parts]
            assert shown == pytest.approx(expected, abs=1e-5)
            alike = linker.kb.names.match(form).similarities([name.lower() for name in left])
            assert found.parts[NGRAM][place] == pytest.approx(max(alike)) and max(alike) < 1
    assert n_held_out > 20


def test_only_the_depth_that_was_searched_finds_what_is_held_out(monkeypatch, linker):
    of_shares(monkeypatch, 0.0, 0.0)
    linker.max_candidates = linker.top_k = 1
    missed = [one for one in find_for_names(linker) if not one.right().any()]
    assert missed  # with its name each of them is found
    of_shares(monkeypatch, 0.0, 1.0)
    assert all(one.right().any() for one in find_for_names(linker))


def test_an_entity_that_is_held_out_is_no_candidate(monkeypatch, linker):
    of_shares(monkeypatch, 1.0, 0.0)
    owners = {}
    for entity in KB:
        for name in (entity.name, *entity.aliases):
            owners.setdefault(name.lower(), set()).add(entity.id)
    for one in find_for_names(linker):
        assert one.mention.ids == ("NIL",)
        assert owners[one.mention.span.text.lower()].isdisjoint(one.found.ids) and one.found.ids


@pytest.fixture(scope="module")
def with_twins(trained, tmp_path_factory):
    """A linker whose KB has each entity twice: the second has the same name and other aliases, and names the first."""
    twins = [
        replace(one, id=f"T{one.id}", aliases=tuple(f"{alias} syndrome" for alias in one.aliases), xrefs=(one.id,))
        for one in ENTITIES
    ]
    kb = make_kb(tmp_path_factory.mktemp("twins") / "kb", [*ENTITIES, *twins])
    linker = make_pipeline(trained / "encoder", kb)[1]
    linker.index(progress=False)
    return linker


@pytest.mark.parametrize(("nil", "kept"), [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_the_same_concept_under_another_id_is_neither_right_nor_wrong(monkeypatch, with_twins, nil, kept):
    of_shares(monkeypatch, nil, kept)
    for one in find_for_names(with_twins):
        owners = {owner.id for owner in with_twins.kb.named(one.mention.span.text)}
        found = {id_ for id_ in one.found.ids if any(id_[-7:] == owner[-7:] for owner in owners)}
        assert found == (set() if nil else owners) and len(one.found.ids) > len(found)
        assert set(one.mention.ids) == ({"NIL"} if nil else owners)


def test_without_same_concepts_all_that_was_found_stays(monkeypatch, linker):
    of_shares(monkeypatch, 0.0, 1.0)
    assert not len(linker.kb.same_concepts())
    for one in find_for_names(linker):
        (plain,) = find_for(linker, [one.mention], resolve_abbreviations=False, deeper=1)
        assert one.found.ids == plain.found.ids


def told(found):
    return [(one.mention.span.doc.text, one.mention.ids, one.found.ids) for one in found]


def test_the_seed_alone_decides(linker):
    assert told(find_for_names(linker, seed=3)) == told(find_for_names(linker, seed=3))
    assert told(find_for_names(linker, seed=3)) != told(find_for_names(linker, seed=4))
    tuned = [tune_to_kb(linker, seed=3)[0].weights for _ in range(2)]
    assert tuned[0] == tuned[1]
    few = find_for_names(linker, n=5)
    assert len({one.mention.span.text for one in few}) == 5
    every = sorted(one.mention.span.text for one in find_for_names(linker))
    assert every == sorted(name for entity in KB for name in (entity.name, *entity.aliases))


def test_names_stand_in_the_texts(linker):
    docs = [spacy.blank("en").make_doc(TEXT)]
    placed = [one.mention.span for one in find_for_names(linker, texts=docs)]
    assert any("She took acetylsalicylic acid" in span.doc.text or ", ASA and" in span.doc.text for span in placed)
    assert {span.text for span in placed} == {name for entity in KB for name in (entity.name, *entity.aliases)}


def test_types_that_the_linker_allows(linker):
    linker.types = ["Chemical"]
    kinds = {kind for one in find_for_names(linker) for i in one.found.ids for kind in linker.kb[i].types}
    assert kinds == {"Chemical"}


def test_the_command_does_what_python_does(trained, linker, tmp_path):
    spacy.load(trained / "linker").to_disk(tmp_path / "linker")
    write_docs(tmp_path / "texts.spacy", [spacy.blank("en").make_doc(TEXT)])
    for command in ("tune-lexical", "tune-nil"):
        result = CliRunner().invoke(pel_app, [command, str(tmp_path / "linker"), "--seed", "2"])
        assert result.exit_code == 0, result.output
    names, nil = tune_to_kb(linker, seed=2)
    tuned = spacy.load(tmp_path / "linker").get_pipe("pel_linker").tuned
    assert tuned.name_weights == pytest.approx(names.weights) and linker.tuned.name_weights == names.weights
    assert tuned.nil_threshold == pytest.approx(nil.nil.threshold) and linker.threshold == nil.nil.threshold
    assert tuned.calibration == pytest.approx(nil.calibration) and nil.nil.n_nil > 0
    stored = json.loads((tmp_path / "linker" / "pel_linker" / "cfg").read_text())
    assert stored["lexical_tuned_with"]["build"] == linker.kb.meta["build"]
    with_texts = "tune-lexical", str(tmp_path / "linker"), "--texts", str(tmp_path / "texts.spacy")
    assert CliRunner().invoke(pel_app, with_texts).exit_code == 0
    both = CliRunner().invoke(pel_app, [*with_texts, str(tmp_path / "texts.spacy")])
    assert both.exit_code == 1 and "leave it out" in both.stderr


def test_a_kb_whose_entities_have_nothing_else(tmp_path, trained):
    """One entity, and its only name: nothing to fit to, and it says so and keeps nothing."""
    other = make_pipeline(trained / "encoder", make_kb(tmp_path / "kb", [Entity("A", "a")]), [("a .", {"a": "A"})])[1]
    other.index(progress=False)
    with pytest.raises(PelError, match="of 1 mentions 0 are NIL: a threshold can only be tuned on"):
        tune_to_kb(other)
    assert other.tuned == Tuned()


def test_it_finds_useful_weights_for_a_real_kb(tmp_path):
    """The quickstart's KB, under an encoder that knows nothing."""
    from pathlib import Path

    from spacy_pel.corpora.pubtator import PubTatorReader
    from spacy_pel.evaluation.evaluate import measure
    from spacy_pel.kb.knowledge_base import KnowledgeBase
    from spacy_pel.kb.readers import read

    data = Path(__file__).parents[2] / "projects" / "quickstart" / "data"
    kb = KnowledgeBase.create(tmp_path / "kb", read("jsonl", data / "kb.jsonl"))
    nlp, linker, *_ = make_pipeline(write_encoder(tmp_path / "encoder"), kb, [("x", {})])
    linker.index(progress=False)
    docs = list(PubTatorReader(data / "dev.pubtator", nlp))
    names, nil = tune_to_kb(linker)
    assert nil.nil.n_mentions > 500 and nil.too_few is names.too_few is None
    fitted = measure(linker, docs).metrics
    linker.tuned = Tuned()
    by_default = measure(linker, docs).metrics
    linker.lexical = None
    alone = measure(linker, docs).metrics
    assert fitted["recall_at_1"] >= by_default["recall_at_1"] > alone["recall_at_1"] + 0.3
    assert fitted["nil_f1"] > fitted["nil_base_rate"] + 0.2 and np.isfinite(nil.calibration).all()
