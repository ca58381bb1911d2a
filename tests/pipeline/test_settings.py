"""Settings: each has one home, holds from when it is set, and is refused where it makes no sense."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from dataclasses import asdict

import faiss
import numpy as np
import pytest
import spacy
from thinc.api import Config
from tiny import make_docs, make_kb, make_pipeline, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.pipeline.factory import DEFAULT_CONFIG
from spacy_pel.pipeline.ranker import RankSettings
from spacy_pel.pipeline.settings import LinkSettings


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("settings")
    nlp, linker, _, _ = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"))
    linker.index(progress=False, index_type="IVF4,Flat")
    return nlp, linker


@pytest.fixture
def linker(trained):
    trained[1].settings = LinkSettings()
    return trained[1]


def test_the_config_has_them_with_their_defaults(linker):
    settings = asdict(LinkSettings())
    assert {key: DEFAULT_CONFIG[key] for key in settings} == settings
    assert {key: getattr(linker, key) for key in settings} == settings


def test_one_that_is_set_holds_from_then_on(trained, linker):
    """Of the four cells of the index, one holds fewer entities than all."""
    spans = [ent for doc in make_docs(trained[0]) for ent in doc.ents]
    linker.n_probe = 4
    everything = linker.rank(spans, 12)
    linker.n_probe = 1
    one_cell = linker.rank(spans, 12)
    assert all(len(found) == 12 for found in everything) and all(0 < len(found) < 12 for found in one_cell)
    linker.n_probe, linker.max_candidates = 4, 2
    doc = trained[0](make_docs(trained[0])[0])
    assert [len(ent._.kb_ents) for ent in doc.ents] == [2, 2]


def test_a_number_of_numpy_is_a_setting_like_another(trained, linker, tmp_path):
    linker.nil_threshold, linker.lexical = np.float32(0.5), {"ngram": np.float32(0.25), "exact": np.float64(1)}
    assert (linker.nil_threshold, linker.lexical) == (0.5, {"ngram": 0.25, "exact": 1.0})
    settings = linker.settings, RankSettings(rerank_below=np.float32(0.5))
    assert json.loads(json.dumps([asdict(own) for own in settings])) == [asdict(own) for own in settings]
    with pytest.warns(UserWarning, match=r"not saved \(lexical, nil_threshold\)"):
        trained[0].to_disk(tmp_path / "saved")


@pytest.mark.parametrize("lexical", [None, "tuned"])
def test_a_search_has_as_many_threads_as_it_is_given(trained, linker, monkeypatch, lexical):
    linker.lexical = lexical
    spans, usual, taken = make_docs(trained[0])[0].ents, faiss.omp_get_max_threads(), []
    monkeypatch.setattr(faiss, "omp_set_num_threads", taken.append)
    linker.rank(spans, 2)
    assert set(taken) == {usual}
    linker.search_threads = usual + 1
    linker.rank(spans, 2)
    assert set(taken) == {usual, usual + 1} and taken[-1] == usual


@pytest.mark.parametrize(
    ("factory", "config", "where"),
    [
        ("pel_linker", {"top_k": 0}, "]"),
        ("pel_linker", {"nil_threshold": 7.0}, "]"),
        ("pel_linker", {"layout": "other"}, "]"),
        ("pel_linker", {"distillation": 5}, "]"),
        ("pel_linker", {"negatives": {"@misc": "spacy_pel.RandomNegatives.v1", "n": 0}}, ".negatives]"),
        ("pel_ranker", {"top_n": 1}, "]"),
        ("pel_ranker", {"adversarial": 5}, "]"),
        ("pel_finder", {"min_length": 0}, "]"),
    ],
)
def test_the_section_of_a_component_with_a_name_of_its_own_is_named(factory, config, where):
    with pytest.raises(PelError) as caught:
        spacy.blank("en").add_pipe(factory, name="chem", config=config)
    assert str(caught.value).startswith(f"[components.chem{where}: ") and factory not in str(caught.value)


def test_fewer_searched_than_kept_are_refused_wherever_they_are_said(linker):
    named = "max_candidates = 5 is more than the top_k = 2 that are searched"
    with pytest.raises(PelError, match=named):
        spacy.blank("en").add_pipe("pel_linker", config={"top_k": 2, "max_candidates": 5})
    with pytest.raises(PelError, match=named):
        linker.top_k = 2
    assert (linker.top_k, linker.max_candidates) == (64, 5)
    linker.max_candidates, linker.top_k = 2, 2
    assert (linker.settings.top_k, linker.settings.max_candidates) == (2, 2)


@pytest.mark.parametrize(
    "label", ["UMLS:T047", "a=b", "#x", ";x", "[x]", " x", "x ", "a\nb", "", "A.B c", "x", "$#[;é"]
)
def test_a_label_that_no_config_can_hold_is_refused(linker, label):
    section = {"by_label": {label: ["Disease"]}}
    try:
        can_be_read = Config().from_str(Config({"x": section}).to_str()) == {"x": section}
    except ValueError:
        can_be_read = False
    with nullcontext() if can_be_read else pytest.raises(PelError, match=rf"the label {re.escape(repr(label))}, with"):
        linker.types_by_label = section["by_label"]


def test_under_scispacy_s_names(linker):
    linker.k, linker.max_entities_per_mention = 30, 3
    assert (linker.top_k, linker.max_candidates, linker.k, linker.max_entities_per_mention) == (30, 3, 30, 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("top_k", 0), ("top_k", True), ("n_probe", 0), ("n_probe", 2.5), ("lexical", 0.3), ("nil_threshold", 7)),
        *(
            ("types", "Disease"),
            ("with_codes", "ICD10CM"),
            ("labels_discard", None),
            ("types_by_label", {"X": "Disease"}),
            ("types_by_label", []),
        ),
        *(("overwrite", "false"), ("spans_key", 3)),
    ],
)
def test_a_wrong_value_changes_nothing(linker, name, value):
    before = linker.settings
    with pytest.raises(PelError, match=name):
        setattr(linker, name, value)
    assert linker.settings is before


def test_what_is_no_setting_is_no_attribute(linker):
    with pytest.raises(AttributeError, match="'PelLinker' object has no attribute 'nonsense'"):
        _ = linker.nonsense
    with pytest.raises(AttributeError):
        linker.settings.top_k = 3  # one at a time could leave two that do not go together
