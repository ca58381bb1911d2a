"""Folders that appear at once: who writes one keeps it until it is done."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.files.folders import new_folder
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase

BEGUN = """
import sys
from functools import partial
from pathlib import Path
from spacy_pel.files.folders import new_folder
with new_folder(Path(sys.argv[1])) as folder:
    print(folder, flush=True)
    sys.stdin.readline()
    (folder / "file").write_text("done")
"""


@pytest.fixture
def writer(tmp_path):
    """Another process that has begun to write a folder."""
    command = [sys.executable, "-c", BEGUN, str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_a_second_writer_is_refused_and_the_first_goes_on(tmp_path, writer):
    with pytest.raises(PelError, match="out: another process is writing it; wait"), new_folder(tmp_path / "out"):
        pass
    writer.communicate("\n")
    assert writer.returncode == 0 and (tmp_path / "out" / "file").read_text() == "done"
    assert os.listdir(tmp_path) == ["out"]


def test_what_a_killed_writer_left_is_removed(tmp_path, writer):
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    assert len(os.listdir(tmp_path)) == 1
    with new_folder(tmp_path / "out") as folder:
        (folder / "file").touch()
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_that_another_writer_took_for_a_leftover_is_made_again(tmp_path, monkeypatch):
    mkdir, removed = Path.mkdir, []

    def mkdir_before_another_looks(path, *arguments, **named):
        mkdir(path, *arguments, **named)
        if path.name.startswith(".out.new-") and not removed:
            removed.append(path)
            path.rmdir()

    monkeypatch.setattr(Path, "mkdir", mkdir_before_another_looks)
    with new_folder(tmp_path / "out") as folder:
        (folder / "file").touch()
    assert len(removed) == 1 and os.listdir(tmp_path / "out") == ["file"] and os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("denied", ["shelf", ".kb.new-"])
def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch, denied):
    mkdir, kb = Path.mkdir, KnowledgeBase.create(tmp_path / "first", [Entity("a", "first")])

    def mkdir_as_another_user(path, *arguments, **named):
        if path.name.startswith(denied):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        mkdir(path, *arguments, **named)

    monkeypatch.setattr(Path, "mkdir", mkdir_as_another_user)
    place = tmp_path / "shelf" / "kb"
    for write in (kb.copy_to, partial(KnowledgeBase.create, entities=[Entity("b", "second")])):
        with pytest.raises(
            PelError, match=rf"^{place}: cannot be written \(Permission denied\); choose another folder"
        ):
            write(place)


def test_a_mount_point_is_refused_before_anything_is_read(tmp_path, monkeypatch):
    KnowledgeBase.create(tmp_path / "kb", [Entity("a", "first")]).close()
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path / "kb")
    (tmp_path / "link").symlink_to("kb")
    for name in ("kb", "link"):
        with pytest.raises(PelError, match="kb: is a mount point and cannot be replaced; name a folder in it"):
            KnowledgeBase.create(tmp_path / name, iter(lambda: pytest.fail("was read"), None), overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["kb", "link"] and list(KnowledgeBase(tmp_path / "kb")) == ["a"]


def test_two_builds_of_one_kb(tmp_path):
    def entities():
        yield Entity("a", "first")
        with pytest.raises(PelError, match="another process is writing it"):
            KnowledgeBase.create(tmp_path / "kb", [Entity("b", "second")])

    assert list(KnowledgeBase.create(tmp_path / "kb", entities())) == ["a"]
    assert os.listdir(tmp_path) == ["kb"]


def test_a_link_stays_one_and_the_folder_behind_it_is_replaced(tmp_path):
    KnowledgeBase.create(tmp_path / "v1", [Entity("a", "first")]).close()
    (tmp_path / "current").symlink_to("v1")
    (tmp_path / "next").symlink_to("v2")
    for name, behind in (("current", "v1"), ("next", "v2")):
        KnowledgeBase.create(tmp_path / name, [Entity("b", "second")], overwrite=True).close()
        assert (tmp_path / name).is_symlink() and list(KnowledgeBase(tmp_path / behind)) == ["b"]
    assert sorted(os.listdir(tmp_path)) == ["current", "next", "v1", "v2"]
    (tmp_path / "v1").rename(tmp_path / ".v1.old-0123abcd")  # as a process that was killed in the middle leaves it
    with pytest.raises(PelError, match=r"current: there is no KB; .*/\.v1\.old-0123abcd is the one"):
        KnowledgeBase(tmp_path / "current")


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are UTF-8")
def test_a_kb_on_a_path_that_is_not_utf8(tmp_path):
    path = tmp_path / "caf\udce9" / "kb"
    kb = KnowledgeBase.create(path, [Entity("a", "first"), Entity("b", "second")])
    kb.remove(["a"])
    assert list(KnowledgeBase(path)) == ["b"] and list(kb.copy_to(tmp_path / "\udcff")) == ["b"]
    with pytest.raises(PelError) as error:
        KnowledgeBase(path / "none")
    assert "caf\\xe9/kb/none" in str(error.value).encode().decode()
