"""Batches of tables in, with their links out, whatever is wrong with some rows."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
import spacy
from tiny import SENTENCES

import spacy_pel.linking.records as records_module
from spacy_pel.errors import PelError
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.linking import LinkBatch

ASPIRIN, LITHIUM = SENTENCES[0][0], SENTENCES[1][0]
KEYS = ["start", "end", "text", "label", "kb_id", "is_nil", "kb_ents", "kb_prob"]


@pytest.fixture(scope="module")
def link(pipeline):
    return LinkBatch(str(pipeline))


def ids(ents):
    return None if ents is None else [(ent["text"], ent["kb_id"]) for ent in ents]


def linked_by_hand(pipeline, text):
    doc = spacy.load(pipeline)(text)
    return [(ent.text, ent.kb_id_) for ent in doc.ents], [ent._.kb_ents for ent in doc.ents]


def test_a_dict_of_lists_gets_its_links(link, pipeline):
    out = link({"pmid": [7, 8], "text": [ASPIRIN, LITHIUM]})
    assert list(out) == ["pmid", "text", "ents", "error"]
    assert out["pmid"] == [7, 8] and out["text"] == [ASPIRIN, LITHIUM] and out["error"] == [None, None]
    expected, candidates = linked_by_hand(pipeline, ASPIRIN)
    assert ids(out["ents"][0]) == expected and len(expected) == 2
    first = out["ents"][0][0]
    assert list(first) == KEYS and first["kb_prob"] is None and not first["is_nil"]
    assert [candidate["id"] for candidate in first["kb_ents"]] == [id for id, _ in candidates[0]]
    found = [candidate["score"] for candidate in first["kb_ents"]]
    assert found == pytest.approx([score for _, score in candidates[0]], abs=1e-4)


def test_bad_rows_cost_only_themselves(pipeline):
    link = LinkBatch(str(pipeline), batch_size=2)
    texts = [ASPIRIN, None, 5, b"bytes", float("nan"), "x" * 1_000_001, "half \ud800", "", LITHIUM]
    out = link({"text": texts})
    assert ids(out["ents"][0]) and ids(out["ents"][-1]) and out["ents"][-2] == []
    assert out["ents"][1:-2] == [None] * 6
    for error, part in zip(
        out["error"], [None, "missing", "is 5", "make it a string", "missing", "limit", "surrogate"]
    ):
        assert (error is None) if part is None else part in error
    assert out["error"][-2:] == [None, None]


def test_given_mentions_are_linked_and_broken_ones_are_said_to_be(link):
    given = {"start": 9, "end": 16, "label": "DRUG", "text": None}
    numbers = {"start": np.int64(9), "end": np.int64(16)}
    mentions = [[given], np.array([numbers], dtype=object), None, [], [{"start": 3}], "Aspirin"]
    out = link({"text": [ASPIRIN] * 6, "ents": mentions})
    assert [ids(ents) and len(ents) for ents in out["ents"]] == [1, 1, 2, [], None, None]
    assert out["ents"][0][0]["label"] == "DRUG" and ids(out["ents"][0]) == ids(out["ents"][1])
    assert "start 3 and end None" in out["error"][4] and "is no list" in out["error"][5]


def test_columns_have_the_names_that_they_are_given(pipeline):
    link = LinkBatch(str(pipeline), text="abstract", mentions="found", links="linked", error="why", keep=["pmid"])
    out = link({"pmid": [1], "abstract": [ASPIRIN], "found": [[{"start": 9, "end": 16}]], "text": ["other"]})
    assert list(out) == ["pmid", "linked", "why"] and [text for text, _ in ids(out["linked"][0])] == ["aspirin"]
    for batch, missing in [({"pmid": [1], "found": [[]]}, "abstract"), ({"pmid": [1], "abstract": [""]}, "found")]:
        with pytest.raises(PelError, match=f"no column '{missing}'"):
            link(batch)
    with pytest.raises(PelError, match="no column 'id'"):
        LinkBatch(str(pipeline), keep=["id"])({"text": [ASPIRIN]})
    with pytest.raises(PelError, match="list is no batch"):
        link([ASPIRIN])


def test_what_was_linked_is_linked_again_the_same(link):
    once = link({"text": [ASPIRIN, None]})
    again = link({name: np.array(column, dtype=object) for name, column in once.items()})
    assert all(isinstance(column, np.ndarray) for column in again.values())
    assert {name: list(column) for name, column in again.items()} == once


def test_spans_of_a_group_that_overlap_are_linked_again_too(pipeline, tmp_path):
    nlp = spacy.load(pipeline, config={"components.pel_linker.spans_key": "sc"})
    ruler = nlp.add_pipe("span_ruler", first=True, config={"spans_key": "sc"})
    ruler.add_patterns([{"label": "X", "pattern": form} for form in ("heart attack", "attack")])
    nlp.to_disk(tmp_path / "linker")
    link = LinkBatch(str(tmp_path / "linker"))
    once = link({"text": [ASPIRIN]})
    assert [text for text, _ in ids(once["ents"][0])] == ["heart attack", "attack"]
    assert link(once) == once


def test_a_column_that_is_not_of_linking_is_not_lost(pipeline):
    batch = {"text": [ASPIRIN], "error": ["mine"]}
    with pytest.raises(PelError, match="column 'error' of its own"):
        LinkBatch(str(pipeline))(batch)
    assert LinkBatch(str(pipeline), keep=["text"])(batch)["error"] == [None]
    assert LinkBatch(str(pipeline), error="why")(batch)["error"] == ["mine"]
    own = {"text": [ASPIRIN], "ents": [[{"start": 9, "end": 16}]]}
    with pytest.raises(PelError, match="column 'ents' of its own"):
        LinkBatch(str(pipeline), mentions=None)(own)
    assert len(LinkBatch(str(pipeline), mentions=None, links="linked")(own)["linked"][0]) == 2
    with pytest.raises(PelError, match="column 'error' of its own"):
        LinkBatch(str(pipeline))(own | {"error": ["mine"]})
    assert LinkBatch(str(pipeline))(own | {"error": [None]})["error"] == [None]


def test_a_data_frame_keeps_its_index(link):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": [ASPIRIN, None], "n": [1, 2]}, index=["a", "b"])
    out = link(frame)
    assert list(out.columns) == ["text", "n", "ents", "error"] and list(out.index) == ["a", "b"]
    assert len(out["ents"]["a"]) == 2 and out["ents"]["b"] is None and "missing" in out["error"]["b"]
    assert list(frame.columns) == ["text", "n"]
    assert len(link(frame[:0])) == 0


def test_an_arrow_table_gets_nested_columns(link):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"text": [ASPIRIN, None], "id": ["a", "b"]}, metadata={"made": "here"})
    out = link(table)
    assert out.column_names == ["text", "id", "ents", "error"] and out.schema.metadata == {b"made": b"here"}
    assert out.to_pydict()["ents"] == link({"text": [ASPIRIN, None]})["ents"]
    assert link(table[:0]).schema == out.schema
    batch = table.to_batches()[0]
    assert link(batch).equals(out) and link(out).equals(out)


def test_each_of_many_batches_when_it_is_asked_for(link):
    def batches():
        yield {"text": [ASPIRIN]}
        raise AssertionError("nobody asked")

    linked = link.each(batches())
    assert len(next(linked)["ents"][0]) == 2


def test_it_pickles_as_its_path_and_a_process_loads_once(link, pipeline, monkeypatch):
    link({"text": [ASPIRIN]})
    pickled = pickle.dumps(link)
    assert len(pickled) < 1000
    loads = []
    monkeypatch.setattr(records_module.RecordLinker, "load", lambda *given: loads.append(given))
    assert pickle.loads(pickled).load() is link.load() and not loads
    LinkBatch(str(pipeline)).load()
    assert len(loads) == 1  # a new one, of a pipeline that may have been trained again


def test_a_path_holds_in_other_folders(pipeline, monkeypatch, tmp_path):
    monkeypatch.chdir(pipeline.parent)
    link = LinkBatch("linker")
    monkeypatch.chdir(tmp_path)
    assert link.pipeline == str(pipeline) and LinkBatch("en_package").pipeline == "en_package"


def test_a_component_that_fails_at_a_text_costs_that_text(pipeline, monkeypatch):
    """Not a batch; but where it fails at every text, or the linker itself does, that is an error."""
    link = LinkBatch(str(pipeline))
    ruler = type(link.load().nlp.get_pipe("entity_ruler"))
    whole = ruler.__call__

    def fails(self, doc):
        if "Lithium" in doc.text:
            raise ValueError("cannot read this")
        return whole(self, doc)

    monkeypatch.setattr(ruler, "__call__", fails)
    texts = [ASPIRIN] * 20
    texts[3] = texts[17] = LITHIUM
    out = link({"text": texts})
    assert [i for i, error in enumerate(out["error"]) if error] == [3, 17]
    assert "cannot read this" in out["error"][3] and all(ids(out["ents"][i]) for i in range(20) if i not in (3, 17))
    with pytest.raises(PelError, match=r"fails on every text.*cannot read this"):
        link({"text": [LITHIUM] * 8})
    assert all("cannot read this" in error for error in link({"text": [LITHIUM] * 7})["error"])  # too few to tell
    monkeypatch.setattr(ruler, "__call__", whole)
    monkeypatch.setattr(KnowledgeBase, "entity_index", lambda *given: (_ for _ in ()).throw(PelError("no vectors")))
    with pytest.raises(PelError, match="no vectors"):
        link({"text": texts})


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({"text": "MS ok"}, "column 'text' of the batch is one text; give a list"),
        ({"text": [ASPIRIN, LITHIUM], "ents": [[]]}, "not of one length: 'text' 2, 'ents' 1"),
    ],
)
def test_a_batch_that_is_no_table(link, batch, said):
    with pytest.raises(PelError, match=said):
        link(batch)


def test_settings_that_cannot_be(pipeline):
    with pytest.raises(PelError, match="batch_size = 0; it must be at least 1"):
        LinkBatch(str(pipeline), batch_size=0)
    for columns in ({"links": "x", "error": "x"}, {"links": "text"}):
        with pytest.raises(PelError, match="give each a name of its own"):
            LinkBatch(str(pipeline), **columns)


def test_no_engine_is_imported():
    code = (
        "import sys, spacy_pel.linking, spacy_pel.cli; "
        "print([name for name in ('ray', 'pyspark', 'pyarrow', 'pandas', 'dask', 'datasets') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
