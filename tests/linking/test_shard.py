"""One shard: what counts as finished, and what poisonous records cost."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager

import pytest
from tiny import SENTENCES

from spacy_pel.kb.entity import Entity
from spacy_pel.linking import shard as module
from spacy_pel.linking.link_batch import LinkBatch
from spacy_pel.linking.shard import LinkShard, Shard, finished
from spacy_pel.linking.stamp import differences, stamp_of
from spacy_pel.models.encoder import tower_module

TEXTS = [text for text, _ in SENTENCES]


@pytest.fixture
def link(pipeline):
    link = LinkBatch(str(pipeline))
    return LinkShard(link, stamp_of(link.load()))


@pytest.fixture
def shard(tmp_path):
    (tmp_path / "out").mkdir()
    return write(Shard(tmp_path / "a.jsonl", tmp_path / "out" / "a.jsonl", tmp_path / "out" / "a.json"), TEXTS[:2])


def write(shard, texts):
    shard.source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return shard


def test_the_stamp_is_another_where_only_the_tower_of_mentions_is(pipeline):
    first, second = (LinkBatch(str(pipeline)).load() for _ in range(2))
    assert stamp_of(first) == stamp_of(second)
    next(tower_module(second.linker.model.get_ref("mention_tower")).parameters()).data[:, 0] += 0.1
    second.linker.set_model(second.linker.model)
    assert differences(stamp_of(first), stamp_of(second)) == ["encoders"]


def test_the_stamp_is_another_once_the_kb_is_compacted_or_indexed_anew(pipeline, tmp_path):
    loaded = LinkBatch(str(pipeline)).load()
    loaded.linker.set_kb(loaded.linker.kb.copy_to(tmp_path / "kb"))
    loaded.linker.add_entities([Entity("N1", "Novel syndrome")])
    added = stamp_of(loaded)
    loaded.linker.kb.compact()
    compacted = stamp_of(loaded)
    assert differences(added, compacted) == ["kb"] and added["kb"]["records"] == compacted["kb"]["records"]
    loaded.linker.index(index_type="SQ8", progress=False)
    assert differences(compacted, stamp_of(loaded)) == ["kb"]
    earlier = {key: value for key, value in added["kb"].items() if key not in ("vectors", "names")}
    assert differences(added | {"kb": earlier}, compacted) == []


def test_a_mention_whose_text_is_null_is_linked(link, shard):
    ent = {"start": TEXTS[0].index("aspirin"), "end": TEXTS[0].index("aspirin") + 7, "text": None, "label": None}
    shard.source.write_text(json.dumps({"text": TEXTS[0], "ents": [ent]}) + "\n")
    report = link(shard)
    assert (report.error, report.broken, report.mentions) == (None, 0, 1)


def test_a_disk_that_is_full_leaves_no_report_of_what_is_not_there(link, shard, monkeypatch):
    assert link(shard).error is None and finished(shard).texts == 2
    write(shard, TEXTS[:4])
    assert finished(shard) is None
    whole = module.new_file

    @contextmanager
    def full(path):
        with whole(path) as file:
            yield file
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "new_file", full)
    assert "No space left" in link(shard).error and finished(shard) is None
    assert len(shard.out.read_bytes().splitlines()) == 2
    monkeypatch.setattr(module, "new_file", whole)
    assert link(shard).error is None and finished(shard).texts == 4 == len(shard.out.read_bytes().splitlines())


def test_a_shard_that_was_cut_is_linked_again(link, shard):
    link(shard)
    shard.out.write_bytes(shard.out.read_bytes()[:-5])
    assert finished(shard) is None
    report = json.loads(shard.report.read_bytes())
    del report["out_size"]  # as an earlier version has left it
    shard.report.write_text(json.dumps(report))
    assert finished(shard).texts == 2


def test_a_shard_whose_source_has_changed_is_linked_again(link, shard):
    """Though it has as many bytes as before."""
    link(shard)
    before = shard.source.stat().st_mtime_ns
    shard.source.write_text(shard.source.read_text().replace("aspirin", "ASPIRIN"))
    os.utime(shard.source, ns=(before, before + 1))
    assert finished(shard) is None
    report = json.loads(shard.report.read_bytes())
    del report["changed"]  # as an earlier version has left it
    shard.report.write_text(json.dumps(report))
    assert finished(shard).texts == 2


def test_poisonous_records_at_the_end_cost_only_themselves(link, shard, monkeypatch):
    monkeypatch.setattr(module, "ROWS", 10)
    ruler = type(link.link.load().nlp.get_pipe("entity_ruler"))
    whole = ruler.__call__

    def fails(self, doc):
        if doc.text.startswith("poison"):
            raise ValueError("cannot read this")
        return whole(self, doc)

    monkeypatch.setattr(ruler, "__call__", fails)
    report = link(write(shard, TEXTS[:1] * 10 + ["poison"] * 9))
    assert report.error is None and (report.texts, report.broken) == (10, 9)
    assert [row for row, _ in report.why] == list(range(11, 20))
    assert "fails on every text" in link(write(shard, ["poison"] * 10)).error


def test_the_key_that_is_missing_is_the_one_that_was_asked_for(pipeline, shard):
    link = LinkBatch(str(pipeline), text="body")
    shard.source.write_text(json.dumps({"body": TEXTS[0]}) + '\n{"text": "a"}\n3\n{"body": 3}\n')
    report = LinkShard(link, stamp_of(link.load()))(shard)
    assert report.why == [
        (2, '"body" is missing; write {"body": …}'),
        (3, 'the line is not a JSON object but 3; write {"body": …}'),
        (4, '"body" is 3; make it a string'),
    ]
