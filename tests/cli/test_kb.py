"""`spacy pel kb …` on a trained tiny pipeline: a mention that was NIL links once its entity is added."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import spacy
from on_disk import write_lines
from thinc.api import Config
from tiny import ENTITIES, links, make_docs, make_kb, make_pipeline, train, write_encoder, write_package
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import write_docs
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase

ASPIRIN = "D001241"
FORMAT_3 = Path(__file__).parents[1] / "kb" / "data" / "format3.zip"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved")
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(path / "encoder"), make_kb(path / "kb"))
    train(nlp, examples, optimizer, steps=200)
    linker.index()
    nlp.to_disk(path / "linker")
    return path / "linker"


@pytest.fixture
def linker(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "linker")


def kb_command(*arguments) -> tuple[int, str]:
    result = CliRunner().invoke(pel_app, ["kb", *map(str, arguments)])
    return result.exit_code, " ".join(result.output.split())


def linked(path) -> dict[str, str]:
    nlp = spacy.load(path)
    docs = [nlp(doc) for doc in make_docs(nlp)]
    return dict(link for doc in docs for link in links(doc))


def test_removed_then_added_without_training(linker, tmp_path):
    assert linked(linker)["aspirin"] == ASPIRIN
    assert kb_command("remove", linker, ASPIRIN)[0] == 0
    assert linked(linker)["aspirin"] != ASPIRIN
    entity = next(e for e in ENTITIES if e.id == ASPIRIN)
    record = {key: getattr(entity, key) for key in ("id", "name", "aliases", "types", "definition")}
    more = [{"id": f"X{i}", "name": f"name {i}"} for i in range(200)]
    code, output = kb_command("add", linker, write_lines(tmp_path / "bad.jsonl", [record, *more, {"id": "X200"}]))
    assert code == 1 and 'bad.jsonl:202: "name" is missing' in output  # all or none
    code, output = kb_command("add", linker, write_lines(tmp_path / "new.jsonl", [record]))
    assert code == 0 and "added 1 entity; it has 12 now" in output
    assert linked(linker)["aspirin"] == ASPIRIN
    assert "added since 1" in kb_command("info", linker)[1]
    assert kb_command("compact", linker)[0] == 0
    assert linked(linker)["aspirin"] == ASPIRIN
    code, output = kb_command("verify", linker)
    assert code == 0 and "12 entities, all is well" in output


def test_many_additions_are_told(linker, tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_pel.cli.kb.MANY_ADDED", 1)
    for i, is_told in enumerate((False, True)):
        code, output = kb_command("add", linker, write_lines(tmp_path / "new.jsonl", [{"id": f"X{i}", "name": "new"}]))
        assert code == 0 and ("2 entities were added since" in output) == is_told


def test_entities_that_other_linkers_cannot_find_are_told(linker, tmp_path):
    kb = KnowledgeBase(linker / "pel_linker" / "kb")
    other, its_linker, examples, optimizer = make_pipeline(write_encoder(tmp_path / "encoder"), kb)
    train(other, examples, optimizer, steps=1)
    its_linker.index(progress=False)
    records = write_lines(tmp_path / "new.jsonl", [{"id": "X1", "name": "new"}])
    code, output = kb_command("add", linker, records)
    assert code == 0 and "other linkers read this KB too, and 1 of its entities have no vectors of theirs" in output
    (doc,) = make_docs(other, [("The chills began .", {"chills": ENTITIES[0].id})])
    write_docs(tmp_path / "train.spacy", [doc])
    code, output = kb_command("learn-names", linker, tmp_path / "train.spacy", "--output", tmp_path / "out")
    assert code == 0 and "got 1 name" in output and "other linkers" not in output
    assert len(KnowledgeBase(tmp_path / "out" / "pel_linker" / "kb").indexes) == 1
    code, output = kb_command("learn-names", linker, tmp_path / "train.spacy")
    assert code == 0 and "other linkers read this KB too, and 2 of its entities have no vectors of theirs" in output


def test_added_as_the_kb_was_read(linker, tmp_path):
    (tmp_path / "new.csv").write_text("CUI,STR\nX1,new\n")
    code, output = kb_command("add", linker, tmp_path / "new.csv", "--columns", "id=CUI,name=STR")
    assert code == 0 and "added 1 entity" in output
    terms = "[Term]\nid: L:1\nname: q\nalt_id: L:7\n\n[Term]\nid: L:2\nname: r\nis_obsolete: true\nreplaced_by: L:1\n"
    (tmp_path / "new.obo").write_text(terms)
    code, output = kb_command("add", linker, tmp_path / "new.obo")
    assert code == 0 and "added 1 entity" in output and "2 retired ids of" in output
    KnowledgeBase.create(tmp_path / "kb", [Entity("X2", "one of another KB")])
    code, output = kb_command("add", linker, tmp_path / "kb")
    assert code == 0 and KnowledgeBase(linker / "pel_linker" / "kb")["X2"].name == "one of another KB"


def test_a_pipeline_is_not_written_into_the_kb(linker):
    kb = linker / "pel_linker" / "kb"
    result = CliRunner().invoke(pel_app, ["index", str(linker), str(kb), str(kb / "in"), "--force"])
    assert result.exit_code == 1 and f"{kb / 'in'} (OUT) is in {kb} (KB)" in " ".join(result.output.split())
    assert not (kb / "in").exists()


def test_update(linker, tmp_path):
    changed = write_lines(tmp_path / "changed.jsonl", [{"id": ASPIRIN, "name": "Bayer\u2019s aspirin"}])
    assert kb_command("update", linker, changed)[0] == 0
    assert kb_command("search", linker / "pel_linker" / "kb", "BAYER\u2019S  ASPIRIN")[1].count(ASPIRIN) == 1


def test_info_and_search(linker):
    code, output = kb_command("info", linker)
    assert code == 0 and "entities 12" in output and "Disease 6" in output and "flat, cosine, 32 dimensions" in output
    code, output = kb_command("search", linker, "aspirin", "--context", "She took aspirin after the heart attack .")
    assert code == 0 and output.count(ASPIRIN) == 3 and "by name" in output
    assert f"aspirin → {ASPIRIN}: there is no NIL threshold" in output


@pytest.mark.parametrize(
    ("context", "read"), [("The benefits of fits", "fits"), ("The benefits", "benefits"), ("Of fits", "fits")]
)
def test_of_the_context_the_first_that_is_a_word_is_read(linker, context, read):
    code, output = kb_command("search", linker, "fits", "--context", context)
    assert code == 0 and f" {read} → " in output


@pytest.fixture
def package(saved, tmp_path, monkeypatch):
    """The name of an installed package with the pipeline."""
    name = "en_of_test_kb"
    write_package(saved, tmp_path / "site", name)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_an_installed_package_is_looked_into_as_a_folder_is(package, linker, tmp_path):
    for words in (
        ("info", "entities 12"),
        ("verify", "12 entities, all is well"),
        ("search", "aspirin", "by name"),
        ("compact", "took in 0 added entities"),
        ("patterns", tmp_path / "patterns.jsonl", "patterns to"),
        ("export", tmp_path / "kb.jsonl", "Wrote 12 entities"),
    ):
        code, output = kb_command(words[0], package, *words[1:-1])
        assert code == 0 and words[-1] in output, output
        assert ("is an installed package: all who use this environment" in output) == (words[0] == "compact")
    assert (tmp_path / "kb.jsonl").read_bytes() and not Path(package).exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("remove", "LINKER", ASPIRIN, "nobody"), '"nobody" is not in the KB; nothing was changed'),
        (("add", "LINKER", "RECORD"), f'"{ASPIRIN}" is in the KB already; change it with'),
        (("add", "LINKER", "missing.jsonl"), "missing.jsonl"),
        (("search", "LINKER", "aspirin", "--context", "nothing of it"), 'does not hold "aspirin"'),
        (("search", "LINKER", "a", "--context", "a" * 1_000_001), "1,000,001 characters"),
        (("add", "LINKER", "LONG"), "long.jsonl: 1 entity without a name of up to 3,000 characters"),
        (("search", "KB", "no such name"), 'no entity has the name "no such name"; name a pipeline'),
        (("search", "LINKER", "\u200b"), "it has no candidate"),
        (("info", "PART"), "pel_linker is a part of the pipeline"),
        (("search", "LINKER", " "), "TEXT is empty; give a name"),
        (("info", "NOWHERE"), "nowhere: there is nothing of that name; name a KB folder"),
        (("verify", "EMPTY"), "the file is missing"),
        (("info", "TWO"), "two has 2 KBs; name one of them: "),
        (("verify", "BROKEN"), "cannot be read as the entity file of a KB"),
    ],
)
def test_refusals(linker, tmp_path, arguments, message):
    kb = linker / "pel_linker" / "kb"
    (tmp_path / "empty").mkdir()
    broken = shutil.copytree(kb, tmp_path / "broken") / "entities.sqlite"
    broken.write_bytes(broken.read_bytes()[:5000])
    two = shutil.copytree(linker, tmp_path / "two")
    shutil.copytree(two / "pel_linker", two / "second")
    with (two / "config.cfg").open("a") as config:
        config.write('\n[components.second]\nfactory = "pel_linker"\n')
    places = {
        "LINKER": linker,
        "TWO": two,
        "KB": kb,
        "NOWHERE": tmp_path / "nowhere",
        "EMPTY": tmp_path / "empty",
        "BROKEN": broken.parent,
        "PART": linker / "pel_linker",
        "LONG": write_lines(tmp_path / "long.jsonl", [{"id": "L1", "name": "x" * 3001}, {"id": "L2", "name": "ok"}]),
        "RECORD": write_lines(tmp_path / "record.jsonl", [{"id": ASPIRIN, "name": "again"}]),
    }
    before = (kb / "entities.sqlite").read_bytes()
    code, output = kb_command(*(places.get(argument, argument) for argument in arguments))
    assert code == 1 and message in output and "Traceback" not in output
    assert (kb / "entities.sqlite").read_bytes() == before and len(KnowledgeBase(kb)) == 12


def test_names_cannot_steer_the_terminal(tmp_path):
    evil = Entity("E1", "cold\x1b]0;owned\x07", aliases=("cold",), types=("\x1b[2JT",), source="\x1b[31mred")
    kb = KnowledgeBase.create(tmp_path / "kb", [evil], source="\x1b[8m\u202e")
    for arguments in (("search", kb.path, "cold"), ("search", kb.path, "\x1b[2J"), ("info", kb.path)):
        output = CliRunner().invoke(pel_app, ["kb", *map(str, arguments)]).output
        assert r"\x1b" in output and not set(output) & set("\x1b\x07\u202e")


def test_verify_says_what_it_cannot_compare(tmp_path):
    shutil.unpack_archive(FORMAT_3, tmp_path / "kb")
    assert "without hashes of its records" in kb_command("verify", tmp_path / "kb")[1]
    KnowledgeBase(tmp_path / "kb").remove(["D0"])
    code, output = kb_command("verify", tmp_path / "kb")
    assert code == 0 and "without hashes" not in output


def test_a_control_character_is_exported_as_json(tmp_path):
    kb = KnowledgeBase.create(tmp_path / "kb", [Entity("D1", "a\x7fb")])
    _, printed = kb_command("export", kb.path, "-")
    assert json.loads(printed)["name"] == "a\x7fb"


def test_the_kb_beside_a_linker_of_spacy(linker):
    config = Config().from_disk(linker / "config.cfg")
    config["components"]["entity_linker"] = {"factory": "entity_linker"}
    config.to_disk(linker / "config.cfg")
    (linker / "entity_linker").mkdir()
    (linker / "entity_linker" / "cfg").write_text("{}")
    (linker / "entity_linker" / "kb").write_bytes(b"of spaCy")
    code, output = kb_command("info", linker)
    assert code == 0 and "12" in output


def test_what_is_exported_builds_the_same_kb(linker, tmp_path):
    kb_command("add", linker, write_lines(tmp_path / "new.jsonl", [{"id": "X1", "name": "Ähre", "xrefs": ["A:1"]}]))
    code, output = kb_command("export", linker, tmp_path / "kb.jsonl")
    entities = list(KnowledgeBase(linker / "pel_linker" / "kb").entities())
    assert code == 0 and f"Wrote {len(entities)} entities to" in output and entities[-1].id == "X1"
    assert CliRunner().invoke(pel_app, ["build-kb", str(tmp_path / "kb.jsonl"), str(tmp_path / "kb")]).exit_code == 0
    assert list(KnowledgeBase(tmp_path / "kb").entities()) == entities
    _, printed = kb_command("export", linker, "-")
    assert printed.split() == (tmp_path / "kb.jsonl").read_text(encoding="utf-8").split() and not Path("-").exists()
    code, output = kb_command("export", linker, tmp_path / "kb.csv")
    assert code == 1 and "name a .jsonl file" in output and not (tmp_path / "kb.csv").exists()


def test_patterns_are_printed_or_written(linker, tmp_path):
    code, _ = kb_command("patterns", linker, tmp_path / "patterns.jsonl")
    _, printed = kb_command("patterns", linker, "-")
    written = (tmp_path / "patterns.jsonl").read_text(encoding="utf-8")
    assert code == 0 and json.loads(written.split("\n", 1)[0])["label"]
    assert printed.split() == written.split() and not Path("-").exists()


def test_info_says_that_a_file_of_names_is_searched(tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_pel.kb.names.tables.MOST_NAMES", 3)
    kb = KnowledgeBase.create(tmp_path / "kb", ENTITIES)
    assert "file" in kb.meta["names"]
    assert "searched by 3-grams" in kb_command("info", kb.path)[1]


def test_the_kb_of_an_installed_package_is_changed_with_a_warning(package, linker, tmp_path):
    new = write_lines(tmp_path / "new.jsonl", [{"id": "D1", "name": "Newborn"}])
    code, printed = kb_command("add", package, new)
    assert code == 0 and printed.index("is an installed package: all who use") < printed.index("added 1 entity")
    assert "entities 13" in kb_command("info", package)[1]
    kb_command("add", linker, new)
    code, printed = kb_command("remove", linker, "D1")
    assert code == 0 and "installed package" not in printed
