"""Files that appear whole, or not at all."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from spacy_pel.errors import PelError
from spacy_pel.files.atomic import write_atomically
from spacy_pel.files.locks import locked


def test_folders_are_made_and_a_file_is_replaced(tmp_path):
    path = tmp_path / "new" / "one"
    write_atomically(path, b"first")
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second" and os.listdir(path.parent) == ["one"]


def test_a_link_stays_one(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "there" / "file").read_bytes() == b"new"


def test_what_cannot_be_written(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for path, error in (
        (tmp_path / "folder", "is no file that could be replaced"),
        (tmp_path / "pipe", "is no file that could be replaced"),
        (tmp_path / "file" / "below", "cannot be written: "),
    ):
        with pytest.raises(PelError, match=error) as raised:
            write_atomically(path, b"x")
        assert str(path) in str(raised.value) and "tmp'" not in str(raised.value)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "pipe"] and (tmp_path / "file").read_bytes() == b"old"


@pytest.mark.skipif(sys.platform == "win32", reason="no locks of files")
def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    left, others = tmp_path / ".out.0123abcd.tmp", [".other.0123abcd.tmp", ".out.gz.0123abcd.tmp"]
    for path in (left, *(tmp_path / other for other in others)):
        path.write_bytes(b"half")
    with locked(left):
        write_atomically(tmp_path / "out", b"whole")
        assert left.exists()
    write_atomically(tmp_path / "out", b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [*others, "out"]


@pytest.mark.skipif(sys.platform == "win32", reason="no locks of files")
def test_writers_of_one_file_take_no_temporary_file_of_another_for_a_leftover(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: write_atomically(tmp_path / "out", f"{number}".encode()), range(300)))
    assert os.listdir(tmp_path) == ["out"]
