"""The OKB set: what becomes NIL, counted by hand."""

from __future__ import annotations

import json

import pytest
import spacy
from commands import one_line, pel
from on_disk import contents, names
from spacy.tokens import Span
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import read_docs
from spacy_pel.corpora.okb import OKB_TYPES, SplitStatistics
from spacy_pel.corpora.okb_checks import Forms, Texts, form_statistics, kb_sides, nil_forms, statistics_by_type
from spacy_pel.errors import PelError
from spacy_pel.kb.knowledge_base import Entity, KnowledgeBase
from spacy_pel.mentions.gold import GoldMention, gold_mentions

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
    assert [ent.id_ for ent in docs["dev"][0].ents] == ["C3", "", "C5", "", ""], "what they were before"


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
        "of them in the KB 2 2 50.0%",  # C2 and C6: the KB lacks C5
    ]
    assert "2 of the 5 entities" in "\n".join(lines)
    assert not (made / "okb").exists()
    assert okb(made, "--dry-run", "--output", made / "counts" / "okb.json").exit_code == 0
    counts = json.loads((made / "counts" / "okb.json").read_text())
    assert (counts["n_entities"], counts["n_held_out"], list(counts["splits"])) == (5, 2, ["train", "dev"])
    assert counts["splits"]["dev"]["of these types, now NIL"] == {"mentions": 2, "entities": 2, "seen": 0.5}
    assert counts["texts"]["leave it"]["entities"] == 2 and counts["nil_forms"].keys() == {"train", "dev"}


def test_an_id_that_leaves_the_kb_is_not_in_it(made):
    """A mention keeps being one of other types for its second id, which the KB lacks."""
    dev = made / "dev.txt"
    dev.write_text(dev.read_text() + "3|t|Iron wall\n3|a|x\n3\t0\t4\tIron\tT073\tUMLS:C3|UMLS:C99\n\n")
    lines = table(okb(made, "--dry-run").output)
    before = lines.index("dev Mentions Entities seen in training") + 4
    assert lines[before : before + 2] == ["of other types 3 5 40.0%", "of them in the KB 2 2 50.0%"]


def test_types_of_ones_own(made):
    assert okb(made, "--types", "T061,T023").exit_code == 0
    assert set(KnowledgeBase(made / "okb" / "kb")) == {"C3", "C6", "C7"}


def test_the_types_are_the_eleven_of_the_paper():
    assert set(OKB_TYPES) == {f"T{number:03}" for number in (41, 58, 59, 60, 74, 89, 92, 93, 94, 97, 196)}


def test_what_cannot_be_done_is_said_and_nothing_is_written(made):
    result = okb(made, "--types", "T999")
    assert result.exit_code == 1 and "no mention has any of the types T999" in result.stderr
    assert not (made / "okb").exists()
    assert okb(made).exit_code == 0
    again = okb(made)
    assert again.exit_code == 1 and "--force" in again.stderr
    assert okb(made, "--force").exit_code == 0
    mine = made / "mine"
    mine.mkdir()
    (mine / "dev.spacy").write_text("annotated by hand")
    kept = CliRunner().invoke(pel_app, ["okb", str(made / "kb"), str(mine), str(made / "dev.txt"), "--types", "T061"])
    assert kept.exit_code == 1 and f"{mine / 'dev.spacy'}: is there already" in " ".join(kept.stderr.split())
    assert (mine / "dev.spacy").read_text() == "annotated by hand" and not (mine / "kb").exists()
    arguments = ["okb", made / "kb", made / "two", made / "dev.txt", made / "dev.txt"]
    twice = CliRunner().invoke(pel_app, list(map(str, arguments)))
    assert twice.exit_code == 1 and "dev.spacy" in twice.stderr
    assert {path.name for path in made.iterdir()} == {"dev.txt", "kb", "mine", "okb", "train.pubtator"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("kb", ".", "train.pubtator", "--force"), "kb is both KB and OUT/kb"),
        (("kb", "kb", "train.pubtator"), "kb/kb (OUT/kb) is in kb (KB)"),
        (("kb", "okb", "train.pubtator", "--output", "train.pubtator"), "is both a corpus and --output"),
        (
            ("kb", "okb", "train.pubtator", "--dry-run", "--output", "dev.txt", "dev.txt"),
            "is both a corpus and --output",
        ),
        (("kb", "okb", "train.pubtator", "--output", "okb/train.spacy"), "is both OUT/train.spacy and --output"),
        (("kb", "okb", "train.pubtator", "--output", "folder"), "folder is no file that could be replaced"),
        (("kb", "dev.txt", "train.pubtator"), "dev.txt/train.spacy cannot be written: "),
        (("kb", "folder", "train.pubtator", "--force"), "train.spacy is a folder"),
        (("kb", "okb", "folder"), "folder is a folder: name a file of the format pubtator"),
        (("kb", "okb", "none.pubtator"), "none.pubtator does not exist: name a corpus"),
        (
            ("kb", "okb", "train.pubtator", "--types", "T061,chemical,T074,T023", "--strip-prefix", "UMLS:"),
            "every entity is of the types T023, T061, T074, chemical, and none would stay; name fewer in --types",
        ),
    ],
)
def test_what_is_in_the_way_is_said_before_anything_is_written(made, monkeypatch, options, message):
    monkeypatch.chdir(made)
    (made / "folder" / "train.spacy").mkdir(parents=True)
    KnowledgeBase(made / "kb").remove(["C6"])
    before = contents(made)
    assert message in one_line(pel("okb", *options))
    assert contents(made) == before and names(made) == {"dev.txt", "folder", "kb", "train.pubtator"}


def test_the_set_is_whole_or_not_there(made, monkeypatch):
    (made / "okb").mkdir()
    (made / "okb" / "notes.txt").write_text("mine")
    with monkeypatch.context() as patched:
        patched.setattr("spacy_pel.kb.records.store.RecordStore.create", full_disk)
        assert "no space" in one_line(okb(made, "--output", made / "counts.json"))
    assert names(made / "okb") == {"notes.txt"} and not (made / "counts.json").exists()
    assert okb(made).exit_code == 0
    assert names(made / "okb") == {"notes.txt", "kb", "train.spacy", "dev.spacy"}


def full_disk(*args, **kwargs):
    raise PelError("no space")


def test_nil_is_no_id_of_a_type(made):
    """A mention of the types that nobody found an id for keeps being NIL, and is not counted among those that become
    so."""
    dev = made / "dev.txt"
    dev.write_text(dev.read_text() + "3|t|A lab\n3|a|x\n3\t2\t5\tlab\tT093\t-1\n\n")
    result = okb(made)
    assert result.exit_code == 0, result.output
    docs = list(read_docs(made / "okb" / "dev.spacy", spacy.blank("en").vocab))
    assert [(ent.kb_id_, ent.id_) for ent in docs[1].ents] == [("NIL", "")]
    assert [ent.id_ for ent in docs[0].ents][-1] == ""
    lines = table(result.output)
    assert lines[lines.index("NIL forms Distinct in training a name that stays") + 3].startswith("dev 2 ")


def test_what_could_tell_nil_without_the_context(made):
    lines = table(okb(made, "--dry-run").output)
    by_type = lines.index("train, NIL by type Mentions Entities seen in training")
    assert lines[by_type + 2 : by_type + 5] == [
        "T041 1 1 100.0%",  # C1
        "T097 1 1 100.0%",  # C4
        "T196 1 1 100.0%",  # C3
    ]
    by_type = lines.index("dev, NIL by type Mentions Entities seen in training")
    assert lines[by_type + 2] == "T093 1 1 0.0%"
    forms = lines.index("NIL forms Distinct in training a name that stays")
    assert lines[forms + 2 : forms + 4] == ["train 3 100.0% 0.0%", "dev 2 50.0% 0.0%"]
    texts = lines.index("Entities of the KB that Entities words of a name aliases defined words of it")
    assert lines[texts + 2 : texts + 4] == ["leave it 2 1.5 0.0 0.0% -", "stay 3 1.3 0.0 0.0% -"]


def test_checks_by_hand():
    mention = Span(spacy.blank("en")("A Nurse, iron"), 1, 2, label="T097,T041")
    gold = [GoldMention(mention, ("C4", "C5")), GoldMention(mention, ("C1",)), GoldMention(mention, ())]
    assert nil_forms(gold[:1], {"C4"}) == set() and nil_forms(gold, {"C1"}) == {"nurse"}
    assert statistics_by_type(gold, ["T097", "T1"], {"C4"}) == {"T097": SplitStatistics(2, 3, 1 / 3)}
    entities = [
        Entity("C1", "a nurse", ("nurse",), definition="one two three"),
        Entity("C2", "carer", ("Nurse", "help")),
        Entity("C3", "iron ore", definition="hard"),
    ]
    sides = kb_sides(entities, {"C1"}, {"nurse", "a nurse"})
    assert sides.known_forms == {"nurse"}
    assert sides.left == Texts(1, 2.0, 1.0, 1.0, 3.0) and sides.stayed == Texts(2, 1.5, 1.0, 0.5, 1.0)
    assert form_statistics({"nurse", "x"}, {"x"}, set()) == Forms(2, 0.5, 0.0)
    assert form_statistics(set(), {"x"}, set()) == Forms(0, None, None)


def test_known_only_leaves_out_what_the_kb_lacks(made):
    assert okb(made, "--known-only", "--types", "T061").exit_code == 0
    docs = {name: list(read_docs(made / "okb" / f"{name}.spacy", spacy.blank("en").vocab)) for name in ("train", "dev")}
    ids = {name: [mention.ids for doc in found for mention in gold_mentions(doc)] for name, found in docs.items()}
    assert ids["train"] == [("NIL",), ("C3",)] and ids["dev"] == [("C3",), ("NIL",), ("C6", "C5")]
    assert [ent.kb_id_ for ent in docs["dev"][0].ents] == ["C3", "NIL", "C6|C5"]


def test_types_that_only_the_kb_knows(made):
    assert okb(made, "--types", "chemical").exit_code == 0
    assert set(KnowledgeBase(made / "okb" / "kb")) == {"C2", "C6", "C7", "C8"}
