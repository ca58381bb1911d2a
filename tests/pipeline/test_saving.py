"""What `pel_linker` saves appears whole or not at all, and is known by its hashes."""

from __future__ import annotations

import gc
import json
import os
import pickle
import shutil
import traceback
from collections import Counter
from copy import deepcopy
from pathlib import Path

import pytest
import spacy
import srsly
from kills import count_calls, kill_at
from tiny import ENTITIES, make_docs, make_kb, make_pipeline, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.files.parts import write_state
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.models.bi_encoder import make_bi_encoder
from spacy_pel.models.cross_encoder import make_cross_encoder
from spacy_pel.models.cross_encoder import set_encoder as set_cross_encoder
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.encoder_loader import HFEncoder
from spacy_pel.models.pretrained import set_encoder
from spacy_pel.tuning.tuned import Tuned

KILLS = 12


def make(folder: Path, threshold: float, entities=ENTITIES, **settings):
    """An untrained pipeline, indexed."""
    encoder = write_encoder(folder / "encoder", intermediate_size=settings.pop("intermediate_size", 64))
    nlp, linker, *_ = make_pipeline(encoder, make_kb(folder / "kb", entities), **settings)
    linker.index(progress=False)
    linker.tuned = Tuned(nil_threshold=threshold)
    return nlp


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory):
    """An old pipeline, and a new one with another encoder, KB and threshold; and the old one saved."""
    folder = tmp_path_factory.mktemp("saving")
    old = make(folder / "old", 0.25)
    new = make(folder / "new", 0.5, ENTITIES[:6], intermediate_size=48)
    old.to_disk(folder / "pipeline")
    return old, new, folder / "pipeline"


@pytest.fixture
def saved(pipelines, tmp_path):
    return shutil.copytree(pipelines[2], tmp_path / "pipeline")


def content(linker) -> tuple:
    """What tells a whole linker from a mixed one."""
    weights = tower_module(linker.model.get_ref("mention_tower")).transformer.state_dict()
    total = sum(float(tensor.double().abs().sum()) for tensor in weights.values())
    return total, linker.fingerprint, linker.threshold, tuple(linker.kb or ())


def read(path: Path):
    return spacy.blank("en").add_pipe("pel_linker").from_disk(path)


def loaded(path: Path, old: tuple, new: tuple) -> str:
    """What spacy.load makes of a pipeline: which of two, or who refuses it."""
    try:
        found = content(spacy.load(path).get_pipe("pel_linker"))
    except PelError as error:
        return f"refused by {error}"
    except Exception as error:  # spaCy's, of a file of its own
        frames = traceback.extract_tb(error.__traceback__)
        return "broken" if any("spacy_pel" in frame.filename for frame in frames) else "refused by spaCy"
    return {old: "old", new: "new"}.get(found, "mixed")


def names(pipeline: Path) -> set[str]:
    return {path.name for path in (pipeline / "pel_linker").iterdir()}


@pytest.mark.parametrize("kills", [KILLS, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some", "all"])
def test_killed_while_saving_over_another_pipeline(pipelines, tmp_path, kills):
    """Whenever the process is killed, the component is the old one or the new one."""
    old, new, pipeline = pipelines
    before, after = (content(nlp.get_pipe("pel_linker")) for nlp in (old, new))
    target = shutil.copytree(pipeline, tmp_path / "counted")
    n_calls = count_calls(lambda: new.to_disk(target))
    assert n_calls > 20
    found: Counter[str] = Counter()
    for number in range(0, n_calls, max(1, n_calls // kills)):
        shutil.rmtree(target)
        shutil.copytree(pipeline, target)
        assert kill_at(number, lambda: new.to_disk(target))
        outcome = loaded(target, before, after)
        found[outcome] += 1
        if outcome == "refused by spaCy":
            assert content(read(target / "pel_linker")) in (before, after), number
        if sum(found.values()) % 4 == 0:
            new.to_disk(target)
            assert loaded(target, before, after) == "new"
            assert len(names(target)) == 3, names(target)
    assert found.keys() <= {"old", "new", "refused by spaCy"} and min(found["old"], found["new"]) > 0, found


def test_killed_while_saving_for_the_first_time(pipelines, tmp_path):
    _, new, _ = pipelines
    after, target = content(new.get_pipe("pel_linker")), tmp_path / "pel_linker"

    def save():
        new.get_pipe("pel_linker").to_disk(target, exclude=["vocab"])

    n_calls = count_calls(save)
    for number in range(0, n_calls, max(1, n_calls // 6)):
        shutil.rmtree(target, ignore_errors=True)
        assert kill_at(number, save)
        try:
            assert content(read(target)) == after
        except PelError as error:
            assert "no pel_linker was saved here" in str(error) and "save again" in str(error)
        save()
        assert sorted(name.split("-")[0] for name in names(tmp_path)) == ["cfg", "kb", "model"]
        assert content(read(target)) == after


def test_killed_while_saving_in_place_after_more_training(pipelines, tmp_path):
    """Vectors of the old weights are dropped once the new weights are there; until then the old linker is whole."""

    def save(path):
        linker = spacy.load(path).get_pipe("pel_linker")
        for tower in linker.model.layers:
            for parameter in tower_module(tower).transformer.parameters():
                parameter.data.mul_(1.5)
        linker.set_model(linker.model)
        return lambda: linker.to_disk(path / "pel_linker", exclude=["vocab"])

    old = content(pipelines[0].get_pipe("pel_linker"))
    n_calls = count_calls(save(shutil.copytree(pipelines[2], tmp_path / "counted")))
    found: Counter[str] = Counter()
    for number in sorted({*range(0, n_calls, n_calls // 3), *range(n_calls - 3, n_calls)}):
        path = shutil.copytree(pipelines[2], tmp_path / str(number))
        assert kill_at(number, save(path))
        try:
            linker = read(path / "pel_linker")
            is_old = content(linker) == old and bool(linker.kb.indexes)
            found["old" if is_old else "mixed" if linker.kb.indexes else "new"] += 1
        except PelError as error:
            assert "was indexed with another encoder" in str(error)
            found["not indexed"] += 1
    assert found.keys() <= {"old", "not indexed", "new"} and found["old"] and len(found) > 1, found


def test_killed_while_the_state_is_written(saved):
    folder = saved / "pel_linker"

    def write():
        write_state(folder, {"nil_threshold": 0.75})

    for number in range(count_calls(lambda: write_state(folder, {"nil_threshold": 0.25}))):
        assert kill_at(number, write)
        assert read(folder).threshold in (0.25, 0.75)
        assert "saved" in srsly.read_json(folder / "cfg")
    write()
    assert read(folder).threshold == 0.75


def test_saving_over_another_linker_leaves_nothing_of_it(pipelines, saved):
    _, new, _ = pipelines
    (saved / "pel_linker" / "notes.txt").write_text("mine")
    (saved / "pel_linker" / "kb-of-mine").mkdir()
    for _ in range(3):
        new.to_disk(saved)
        parts = names(saved) - {"cfg", "notes.txt", "kb-of-mine"}
        assert len(parts) == 2 and {part.split("-")[0] for part in parts} == {"model", "kb"}
        assert content(spacy.load(saved).get_pipe("pel_linker")) == content(new.get_pipe("pel_linker"))
    assert {"notes.txt", "kb-of-mine"} <= names(saved)


def test_saving_in_place_does_not_copy_the_kb(saved):
    nlp = spacy.load(saved)
    records = saved / "pel_linker" / "kb" / "entities.sqlite"
    before = os.stat(records).st_ino, os.stat(records).st_mtime_ns
    nlp.to_disk(saved)
    assert (os.stat(records).st_ino, os.stat(records).st_mtime_ns) == before
    assert content(spacy.load(saved).get_pipe("pel_linker")) == content(nlp.get_pipe("pel_linker"))


def test_saving_that_fails_leaves_what_was_there(pipelines, saved, monkeypatch):
    old, new, _ = pipelines
    before = names(saved)

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(KnowledgeBase, "copy_to", fail)
    with pytest.raises(OSError, match="No space left"):
        new.get_pipe("pel_linker").to_disk(saved / "pel_linker")
    assert names(saved) == before
    assert content(spacy.load(saved).get_pipe("pel_linker")) == content(old.get_pipe("pel_linker"))


def test_what_is_excluded_stays(pipelines, saved):
    old, new, _ = pipelines
    new.get_pipe("pel_linker").to_disk(saved / "pel_linker", exclude=["vocab", "kb", "model"])
    linker = spacy.load(saved).get_pipe("pel_linker")
    assert linker.threshold == 0.5 and linker.fingerprint == old.get_pipe("pel_linker").fingerprint
    assert len(linker.kb) == len(ENTITIES)


def test_the_layout_of_earlier_versions_is_read_and_replaced(pipelines, saved):
    old, new, _ = pipelines
    folder = saved / "pel_linker"
    write_legacy(folder)
    assert content(spacy.load(saved).get_pipe("pel_linker")) == content(old.get_pipe("pel_linker"))
    new.to_disk(saved)
    assert content(spacy.load(saved).get_pipe("pel_linker")) == content(new.get_pipe("pel_linker"))
    assert len(names(saved)) == 3


def write_legacy(folder: Path) -> None:
    """Make a saved linker one of an earlier version: only what was tuned is in its `cfg`."""
    stored = srsly.read_json(folder / "cfg")
    del stored["saved"]
    srsly.write_json(folder / "cfg", stored)


def test_a_kb_that_was_removed_in_its_place_is_not_saved_as_if_it_were_there(saved):
    nlp = spacy.load(saved)
    shutil.rmtree(saved)  # as `spacy train` does with the checkpoints in its --output
    with pytest.warns(UserWarning, match=r"pel_linker is saved without its KB: .*kb was removed"):
        nlp.to_disk(saved)
    assert spacy.load(saved).get_pipe("pel_linker").kb is None


def test_a_linker_without_a_kb_is_not_read_with_that_of_the_one_before(pipelines, saved, tmp_path):
    new = make(tmp_path / "new", 0.5)
    new.get_pipe("pel_linker").lose_kb()
    new.to_disk(saved)
    assert spacy.load(saved).get_pipe("pel_linker").kb is None


def test_another_config_beside_is_refused(saved, tmp_path):
    """As it is left by a process that is killed between `config.cfg` and the component."""
    other = make(tmp_path / "other", 0.5, model={"pooling": "cls"})
    other.config.to_disk(saved / "config.cfg")
    with pytest.raises(PelError, match=r"was saved with another config.cfg .*\[components.pel_linker.model\]: pooling"):
        spacy.load(saved)
    other.to_disk(saved)
    assert spacy.load(saved).get_pipe("pel_linker").threshold == 0.5


def test_two_processes_do_not_save_to_one_folder_at_once(pipelines, saved):
    import fcntl

    with (saved / "pel_linker" / "cfg").open():
        descriptor = os.open(saved / "pel_linker", os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(PelError, match="pel_linker: another process is saving here"):
            pipelines[1].to_disk(saved)
        os.close(descriptor)
    assert spacy.load(saved).get_pipe("pel_linker").threshold == 0.25


# --- hashes ---

FILES = [
    "model/mention/model.safetensors",
    "model/entity/model.safetensors",
    "model/mention/config.json",
    "model/tokenizer/tokenizer.json",
    "model/bi_encoder.json",
]


@pytest.mark.parametrize("file", [*FILES, "cfg"])
@pytest.mark.parametrize("where", [0.5, 0.99])
def test_a_flipped_byte_is_named(saved, file, where):
    """Also where what it changes could be read."""
    path = saved / "pel_linker" / file
    data = bytearray(path.read_bytes())
    data[int(where * (len(data) - 1))] ^= 1
    path.write_bytes(data)
    with pytest.raises(PelError, match=f"{file}: (has changed since it was saved|cannot be read)"):
        spacy.load(saved)


def test_another_digit_in_what_was_tuned_is_named(saved):
    cfg = saved / "pel_linker" / "cfg"
    cfg.write_text(cfg.read_text().replace("0.25", "0.35"))
    with pytest.raises(PelError, match="cfg: has changed since it was saved"):
        spacy.load(saved)


@pytest.mark.parametrize("file", FILES)
def test_a_missing_or_shortened_file_is_named(saved, file):
    path = saved / "pel_linker" / file
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(PelError, match=f"{file}: has .* bytes instead of"):
        spacy.load(saved)
    path.unlink()
    with pytest.raises(PelError, match=f"{file}: the file is missing"):
        spacy.load(saved)


def test_a_file_that_was_not_saved_is_named(saved):
    (saved / "pel_linker" / "model" / "tokenizer" / "merges.txt").write_text("a b")
    with pytest.raises(PelError, match=r"merges.txt: was not saved with the other files here"):
        spacy.load(saved)


@pytest.mark.parametrize("name", ["../../other", "/etc", "..", ""])
def test_a_cfg_that_names_another_folder_is_refused(saved, name):
    """Made by somebody who knows how the hash is made."""
    import hashlib

    folder = saved / "pel_linker"
    stored = json.loads((folder / "cfg").read_text())
    stored["saved"]["parts"]["model"]["name"] = name
    del stored["saved"]["sha256"]
    digest = hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()
    stored["saved"]["sha256"] = digest
    (folder / "cfg").write_text(json.dumps(stored))
    with pytest.raises(PelError, match="cfg: does not say what is saved in its folder"):
        spacy.load(saved)


def test_bytes_of_something_else(pipelines):
    linker = spacy.blank("en").add_pipe("pel_linker")
    with pytest.raises(PelError, match="were not written by to_bytes"):
        linker.from_bytes(b"junk")
    with pytest.raises(PelError, match="name a file outside their folder"):
        linker.from_bytes(srsly.msgpack_dumps({"../outside": b"x"}))


@pytest.mark.parametrize("part", ["model", "kb", "vocab"])
def test_what_bytes_were_written_without_stays(pipelines, part):
    old, new = (spacy.blank("en").add_pipe("pel_linker").from_bytes(one.to_bytes()) for one in linkers(pipelines))
    model, kb = old.model, old.kb
    if part == "kb":
        new.set_model(old.model)
    old.from_bytes(new.to_bytes(exclude=[part]), exclude=["kb"] if part == "model" else [])
    assert (old.model is model, old.kb is kb) == (part == "model", part in ("model", "kb"))
    assert old.threshold == 0.5


def test_a_kb_that_is_gone_is_named_where_it_is_wanted(saved, tmp_path):
    linker = spacy.load(saved).get_pipe("pel_linker")
    saved.rename(tmp_path / "moved")
    for made in (linker.to_bytes, lambda: pickle.loads(pickle.dumps(linker)), lambda: deepcopy(linker)):
        with pytest.raises(PelError, match=r"entities\.sqlite: the file is missing; "):
            made()
    without = spacy.blank("en").add_pipe("pel_linker").from_bytes(linker.to_bytes(exclude=["kb"]))
    assert without.kb is None and without.fingerprint == linker.fingerprint


def linkers(pipelines):
    return [one.get_pipe("pel_linker") for one in pipelines[:2]]


def test_a_folder_that_was_written_without_its_model_says_so(pipelines, tmp_path):
    linker, again = linkers(pipelines)[0], spacy.blank("en").add_pipe("pel_linker")
    linker.to_disk(tmp_path / "saved", exclude=["model"])
    with pytest.raises(PelError, match=r'saved: was saved without its model; read it with exclude=\["model"\]'):
        again.from_disk(tmp_path / "saved")
    again.set_model(linker.model)
    again.from_disk(tmp_path / "saved", exclude=["model"])
    assert content(again) == content(linker)


def test_a_forked_child_leaves_the_kb_of_a_linker_from_bytes(pipelines):
    linker = spacy.blank("en").add_pipe("pel_linker").from_bytes(pipelines[0].get_pipe("pel_linker").to_bytes())
    child = os.fork()
    if not child:
        try:
            linker.kb.lives_in = None  # as at the end of a process
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert (linker.kb.path / "entities.sqlite").exists()
    assert linker.rank([doc[:1] for doc in make_docs(pipelines[0])], 1)
    path = linker.kb.path
    linker.kb.lives_in = None
    assert not path.exists()


def test_a_kb_of_a_linker_from_bytes_lives_on_with_another_that_has_it(pipelines, tmp_path):
    first, second = spacy.blank("en").add_pipe("pel_linker"), spacy.blank("en").add_pipe("pel_linker")
    data = pipelines[0].get_pipe("pel_linker").to_bytes()
    second.from_bytes(data, exclude=["kb"])
    second.set_kb(first.from_bytes(data).kb)
    expected = content(first)
    del first
    gc.collect()
    second.to_disk(tmp_path / "saved")
    again = spacy.blank("en").add_pipe("pel_linker").from_disk(tmp_path / "saved")
    assert content(second) == content(again) == expected
    assert content(pickle.loads(pickle.dumps(second))) == expected


def test_a_pickle_outlives_the_linker_that_it_was_made_of(pipelines):
    """Also where the KB goes with the linker, in a temporary folder."""
    linker = spacy.blank("en").add_pipe("pel_linker").from_bytes(pipelines[0].get_pipe("pel_linker").to_bytes())
    expected, path, data = content(linker), linker.kb.path, pickle.dumps(linker)
    del linker
    gc.collect()
    assert not path.exists()
    assert content(pickle.loads(data)) == expected
    assert len(data) > len(pickle.dumps(pipelines[0].get_pipe("pel_linker")))  # that of a folder is a path


def test_a_saved_linker_is_an_encoder_of_both_and_takes_no_other(saved):
    folder = str(saved / "pel_linker")
    assert HFEncoder(folder)().for_entities is not None
    with pytest.raises(PelError, match=r"leave it out: .* has towers for both"):
        HFEncoder(folder, entity_name=folder)()
    shared = make_bi_encoder(shared_towers=True, mention_length=32, entity_length=32)
    with pytest.raises(PelError, match=r"shared_towers = true, and name = '.*/pel_linker' in .* is a linker with two;"):
        set_encoder(shared, HFEncoder(folder)())
    with pytest.raises(PelError, match=r"name another encoder than the linker '.*/pel_linker', which has two"):
        set_cross_encoder(make_cross_encoder(), HFEncoder(folder)())
