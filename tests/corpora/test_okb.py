"""The OKB set: what becomes NIL, counted by hand."""

from __future__ import annotations

import pytest
import spacy
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import read_docs
from spacy_pel.corpora.okb import OKB_TYPES
from spacy_pel.kb.knowledge_base import Entity, KnowledgeBase
from spacy_pel.mentions.gold import gold_mentions

TRAIN = """\
1|t|Fear of surgery
1|a|Iron and a nurse met.
1\t0\t4\tFear\tT041\tUMLS:C1
1\t8\t15\tsurgery\tT061\tUMLS:C2
1\t16\t20\tIron\tT123,T196\tUMLS:C3
1\t27\t32\tnurse\tT097\tUMLS:C4

"""
DEV = """\
2|t|Iron and surgery
2|a|A hospital, a clinic, nobody.
2\t0\t4\tIron\tT123\tUMLS:C3
2\t9\t16\tsurgery\tT061\tUMLS:C2
2\t19\t27\thospital\tT073,T093\tUMLS:C5
2\t31\t37\tclinic\tT073\tUMLS:C6|UMLS:C5
2\t39\t45\tnobody\tT073\t-1

"""
ENTITIES = [
    Entity("C2", "surgery", types=("T061",)),
    Entity("C3", "iron", types=("chemical",)),
    Entity("C6", "clinic"),
    Entity("C7", "a ruler", types=("T074",)),
    Entity("C8", "a heart", types=("T023",)),
]


@pytest.fixture
def made(tmp_path):
    (tmp_path / "train.pubtator").write_text(TRAIN)
    (tmp_path / "dev.txt").write_text(DEV)
    KnowledgeBase.create(tmp_path / "kb", ENTITIES, source="mine", retired=[("C0", "C8"), ("C9", "C3")])
    return tmp_path


def okb(folder, *options):
    corpora = [folder / "train.pubtator", folder / "dev.txt"]
    arguments = ["okb", folder / "kb", folder / "okb", *corpora, "--strip-prefix", "UMLS:", *options]
    return CliRunner().invoke(pel_app, list(map(str, arguments)))


def table(output):
    return [" ".join(line.split()) for line in output.splitlines()]


def test_mentions_become_nil_and_their_entities_leave_the_kb(made):
    result = okb(made)
    assert result.exit_code == 0, result.output
    kb = KnowledgeBase(made / "okb" / "kb")
    assert set(kb) == {"C2", "C6", "C8"} and kb.meta["source"] == "mine"
    assert kb.successors() == {"C0": "C8"}
    vocab = spacy.blank("en").vocab
    docs = {name: list(read_docs(made / "okb" / f"{name}.spacy", vocab)) for name in ("train", "dev")}
    ids = {name: [mention.ids for doc in found for mention in gold_mentions(doc)] for name, found in docs.items()}
    assert ids["train"] == [("NIL",), ("C2",), ("NIL",), ("NIL",)]
    assert ids["dev"] == [("NIL",), ("C2",), ("NIL",), ("C6",), ("NIL",)], "iron by its type in the training split"
    assert [ent.kb_id_ for ent in docs["dev"][0].ents] == ["NIL", "C2", "NIL", "C6", "NIL"]


def test_the_statistics(made):
    lines = table(okb(made, "--dry-run").output)
    train, dev = (lines.index(f"{name} Mentions Entities seen in training") for name in ("train", "dev"))
    assert lines[train + 2 : train + 6] == [
        "all 4 4 100.0%",
        "of these types, now NIL 3 3 100.0%",
        "of other types 1 1 100.0%",
        "of them in the KB 1 1 100.0%",
    ]
    assert lines[dev + 2 : dev + 6] == [
        "all 4 4 50.0%",  # C2 and C3 of C2, C3, C5, C6; "nobody" has no id
        "of these types, now NIL 2 2 50.0%",
        "of other types 2 3 33.3%",  # C2, C6 and C5, the clinic's other id
        "of them in the KB 2 3 33.3%",
    ]
    assert "2 of the 5 entities" in "\n".join(lines)
    assert not (made / "okb").exists()


def test_types_of_ones_own(made):
    assert okb(made, "--types", "T061,T023").exit_code == 0
    assert set(KnowledgeBase(made / "okb" / "kb")) == {"C3", "C6", "C7"}


def test_the_types_are_the_eleven_of_the_paper():
    assert len(OKB_TYPES) == 11


def test_what_cannot_be_done_is_said_and_nothing_is_written(made):
    result = okb(made, "--types", "T999")
    assert result.exit_code == 1 and "no mention has any of the types T999" in result.stderr
    assert not (made / "okb").exists()
    assert okb(made).exit_code == 0
    again = okb(made)
    assert again.exit_code == 1 and "--force" in again.stderr
    assert okb(made, "--force").exit_code == 0
    arguments = ["okb", made / "kb", made / "two", made / "dev.txt", made / "dev.txt"]
    twice = CliRunner().invoke(pel_app, list(map(str, arguments)))
    assert twice.exit_code == 1 and "dev.spacy" in twice.stderr
    assert {path.name for path in made.iterdir()} == {"dev.txt", "kb", "okb", "train.pubtator"}
