"""Parts that appear together: killed at every I/O call, a folder holds those of before or those of after."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from kills import count_calls, kill_at

from spacy_pel.errors import PelError
from spacy_pel.files.parts import Layout, read_state, write_state

LAYOUT = Layout(hashed=("model", "notes.txt"), loose=("kb",))


def write(folder: Path, value: str, **options) -> None:
    def model(path: Path) -> None:
        (path / "deep").mkdir(parents=True)
        (path / "deep" / "weights").write_text(value)
        (path / "config").write_text(value)

    def kb(path: Path) -> None:
        path.mkdir()
        (path / "records").write_text(value)

    writers = {"model": model, "notes.txt": lambda path: path.write_text(value), "kb": kb}
    kept = options.get("kept", {})
    writers = {part: writer for part, writer in writers.items() if part not in kept}
    LAYOUT.write(folder, {"value": value}, writers, **options)


def values(folder: Path) -> set[str]:
    """All that is read of a folder: one value, unless it is mixed."""
    saved = LAYOUT.read(folder)
    if saved is None:
        return set()
    for part in saved.parts:
        saved.check(part)
    files = ["model/deep/weights", "model/config", "notes.txt/.", "kb/records"]
    places = [(saved.path(part), rest) for part, rest in (file.split("/", 1) for file in files)]
    return {saved.state["value"], *((place / rest).read_text() for place, rest in places)}


def names(folder: Path) -> list[str]:
    return sorted(path.name.split("-")[0] for path in folder.iterdir())


@pytest.mark.parametrize("before", ["nothing", "an earlier version", "saved", "saved twice"])
def test_killed_at_every_call(tmp_path, before):
    old = tmp_path / "old"
    if before != "nothing":
        write(old, "old")
    if before == "saved twice":
        write(old, "old")
    if before == "an earlier version":
        (old / "cfg").write_text('{"value": "old"}')

    def reset(folder: Path) -> Path:
        shutil.rmtree(folder, ignore_errors=True)
        return Path(shutil.copytree(old, folder)) if old.exists() else folder

    there = {"old"} if old.exists() else set()
    n_calls = count_calls(partial(write, reset(tmp_path / "new"), "new"))
    found = []
    for number in range(n_calls):
        folder = reset(tmp_path / "new")
        assert kill_at(number, partial(write, folder, "new"))
        found.append(values(folder))
        write(folder, "next")
        assert values(folder) == {"next"} and names(folder) == ["cfg", "kb", "model", "notes.txt"], number
    assert found.index({"new"}) > n_calls // 3 and found == sorted(found, key=lambda one: one == {"new"})
    assert all(one in (there, {"new"}) for one in found)


def test_killed_while_the_state_is_written(tmp_path):
    write(tmp_path / "one", "old")
    for number in range(count_calls(partial(write_state, tmp_path / "one", {"value": "old"}))):
        assert kill_at(number, partial(write_state, tmp_path / "one", {"value": "new"}))
        assert values(tmp_path / "one") in ({"old"}, {"old", "new"})


def test_a_writer_that_fails_leaves_what_was_there(tmp_path):
    write(tmp_path / "one", "old")
    before = sorted(tmp_path.rglob("*"))

    def fail(path: Path) -> None:
        path.mkdir()
        (path / "half").write_text("x")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        LAYOUT.write(tmp_path / "one", {"value": "new"}, {"model": fail})
    assert sorted(tmp_path.rglob("*")) == before and values(tmp_path / "one") == {"old"}


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), OSError(5, "Input/output error")], ids=repr)
def test_what_fails_behind_the_cfg_leaves_what_is_new(tmp_path, monkeypatch, raised):
    def fail(path: Path) -> None:
        raise raised

    write(tmp_path / "one", "old")
    monkeypatch.setattr("spacy_pel.files.parts.sync", fail)
    with pytest.raises(type(raised)):
        write(tmp_path / "one", "new")
    assert values(tmp_path / "one") == {"new"} and names(tmp_path / "one") == ["cfg", "kb", "model", "notes.txt"]


def test_a_writer_that_fails_beside_what_an_earlier_version_saved(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "cfg").write_text('{"value": "old"}')

    def fail(path: Path) -> None:
        path.mkdir()
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        LAYOUT.write(tmp_path, {"value": "new"}, {"kb": fail})
    assert names(tmp_path) == ["cfg", "model"] and LAYOUT.read(tmp_path).parts.keys() == {"model"}


def test_a_state_that_has_changed_meanwhile_is_not_replaced(tmp_path):
    write(tmp_path / "one", "old")
    before = read_state(tmp_path / "one")
    write_state(tmp_path / "one", {"value": "other"}, before=before)
    with pytest.raises(PelError, match="another command has changed it meanwhile"):
        write_state(tmp_path / "one", {"value": "new"}, before=before)
    assert read_state(tmp_path / "one") == {"value": "other"}


def test_what_is_kept_stays_where_it_is_with_the_hashes_of_when_it_was_written(tmp_path):
    folder = tmp_path / "one"
    write(folder, "old")
    (folder / "model" / "config").write_text("damaged since")
    write(folder, "new", kept={"model": "model", "kb": "kb"})
    saved = LAYOUT.read(folder)
    assert saved.path("kb") == folder / "kb" and (folder / "kb" / "records").read_text() == "old"
    with pytest.raises(PelError, match="model/config: has 13 bytes instead of 3"):
        saved.check("model")


def test_files_of_others_are_never_removed(tmp_path):
    """Parts get other names where something of that name is there that no `cfg` names."""
    folder = tmp_path / "project"
    (folder / "kb").mkdir(parents=True)
    (folder / "kb" / "mine").write_text("mine")
    (folder / "model-1a2b3c4d").mkdir()
    for value in ("one", "two"):
        write(folder, value)
        assert values(folder) == {value}
    assert (folder / "kb" / "mine").exists() and (folder / "model-1a2b3c4d").exists()


@pytest.mark.parametrize("names", ['["../outside", "..", "/etc", 7]', "{}", "[", '"outside"'])
def test_leftovers_are_only_looked_for_in_the_folder(tmp_path, names):
    write(tmp_path / "one", "old")
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "one" / ".saving").write_text(names)
    write(tmp_path / "one", "new")
    assert values(tmp_path / "one") == {"new"} and (tmp_path / "outside").exists()


@pytest.mark.parametrize("broken", ["", "[]", "null", "{", '{"saved": []}', '{"saved": {"parts": {}, "sha256": "x"}}'])
def test_a_broken_cfg_is_named_and_can_be_replaced(tmp_path, broken):
    write(tmp_path / "one", "old")
    (tmp_path / "one" / "cfg").write_text(broken, encoding="utf-8")
    with pytest.raises(PelError, match="one/cfg: "):
        LAYOUT.read(tmp_path / "one")
    write(tmp_path / "one", "new")
    assert values(tmp_path / "one") == {"new"}


def test_each_changed_byte_of_a_cfg_is_noticed(tmp_path):
    """But for those between the values, which change nothing."""
    write(tmp_path / "one", "old")
    cfg = tmp_path / "one" / "cfg"
    data, stored = cfg.read_bytes(), json.loads(cfg.read_bytes())
    for place in range(len(data)):
        cfg.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        try:
            saved = LAYOUT.read(tmp_path / "one")
        except PelError:
            continue
        assert json.loads(cfg.read_bytes()) == stored or not saved.has_hashes
