"""The component `pel_finder`: the names of a KB, found in texts by its records on disk."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys

import pytest
import spacy
from spacy.attrs import LANG
from spacy.tokens import Doc, Span, SpanGroup
from spacy.util import filter_spans
from spacy.vocab import Vocab
from tiny import make_config, make_kb, make_pipeline, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.names.name_rules import NameRules
from spacy_pel.kb.names.patterns import patterns

TEXT = "Aspirin after a HEART ATTACK; af or AF in Ms. Li's tricuspid  regurgitation."
FOUND = ["Aspirin", "HEART ATTACK", "tricuspid  regurgitation"]
WORDS = [
    "IL",
    "2",
    "-",
    "heart",
    "Failure",
    "MS",
    "ms",
    "the",
    "of",
    "acid",
    "α",
    "Straße",
    "NO",
    "it",
    "cell",
    ",",
    "(",
]


def own(path) -> dict:
    return {"@misc": "spacy_pel.KBFromDisk.v1", "path": str(path)}


def test_what_was_set_on_it_is_not_saved_without_a_word(tmp_path):
    make_kb(tmp_path / "kb")
    nlp = make(tmp_path / "kb")
    nlp.to_disk(tmp_path / "plain")
    nlp.get_pipe("pel_finder").min_length = 2
    with pytest.warns(UserWarning, match=r"pel_finder: what was set on the component is not saved \(min_length\)"):
        nlp.to_disk(tmp_path / "set")
    assert spacy.load(tmp_path / "set").get_pipe("pel_finder").min_length == 3


def make(path, **settings):
    """A pipeline with a finder that has a KB of its own."""
    nlp = spacy.blank("en")
    nlp.add_pipe("pel_finder", config={"kb": own(path), **settings})
    return nlp


def with_linker(path):
    """A pipeline with a linker without weights, and a finder before it."""
    nlp = spacy.blank("en")
    nlp.add_pipe("pel_linker", config=make_config()).set_kb(path)
    nlp.add_pipe("pel_finder", before="pel_linker")
    return nlp


def found(nlp, text=TEXT) -> list[str]:
    """What the finder finds, with the linker left aside."""
    return [ent.text for ent in nlp.get_pipe("pel_finder")(nlp.make_doc(text)).ents]


@pytest.fixture
def kb(tmp_path):
    return make_kb(tmp_path / "kb")


# --- what is found ---


def test_names_and_aliases(kb):
    doc = make(kb.path)(TEXT)
    assert [ent.text for ent in doc.ents] == FOUND
    assert {ent.label_ for ent in doc.ents} == {"ENTITY"}
    assert [ent.text for ent in make(kb.path, min_length=2)(TEXT).ents] == [*FOUND[:2], "AF", "Li", FOUND[2]]


def random_name(rng) -> str:
    return "".join(rng.choice(WORDS) + rng.choice(["", " ", "-", " "]) for _ in range(rng.randint(1, 4))).strip()


@pytest.mark.parametrize("seed", range(4))
def test_it_agrees_with_comparing_every_stretch_with_every_name(tmp_path, seed):
    rng = random.Random(seed)
    names = sorted({random_name(rng) for _ in range(60)})
    nlp = make(make_kb(tmp_path / "kb", [Entity(f"E{i}", name) for i, name in enumerate(names)]).path, min_length=2)
    rules = NameRules(2, nlp.Defaults.stop_words)
    docs = [nlp.make_doc(" ".join(random_name(rng) for _ in range(12))) for _ in range(20)]
    n_found = 0
    for doc in nlp.get_pipe("pel_finder").pipe(docs, batch_size=7):
        is_word = [any(map(str.isalnum, token.text)) for token in doc]
        every = [
            doc[i:j]
            for i in range(len(doc))
            for j in range(i + 1, min(i + 10, len(doc)) + 1)
            if is_word[i] and is_word[j - 1] and rules.allow(doc[i:j].text)
        ]
        expected = filter_spans([span for span in every if any(rules.fit(name, span.text) for name in names)])
        assert [(e.start, e.end) for e in doc.ents] == [(e.start, e.end) for e in expected]
        n_found += len(expected)
    assert n_found > 50


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_what_a_ruler_with_the_patterns_of_the_kb_finds(tmp_path, seed):
    rng = random.Random(seed)
    words = [word for word in WORDS if word.isalnum()] + ["All", "HF", "Hf", "NAUSEA", "Us"]
    names = sorted({" ".join(rng.choices(words, k=rng.choice([1, 1, 2, 3]))) for _ in range(40)})
    kb = make_kb(tmp_path / "kb", [Entity(f"E{i}", name) for i, name in enumerate(names)])
    nlp, ruled = make(kb.path, min_length=2), spacy.blank("en")
    ruler = ruled.add_pipe("entity_ruler", config={"phrase_matcher_attr": "LOWER"})
    ruler.add_patterns(list(patterns(kb.entities(), label="ENTITY", min_length=2, stop_words=nlp.Defaults.stop_words)))
    texts = [" ".join(rng.choices([*words, "nausea", "hf", "us", "stop"], k=30)) for _ in range(20)]
    for doc, other in zip(nlp.pipe(texts), ruled.pipe(texts)):
        assert [ent.text for ent in doc.ents] == [ent.text for ent in other.ents]
        assert doc.ents


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("Interleukin-2", "interleukin 2 rose", "interleukin 2"),
        ("IL 2", "Much IL-2.", "IL-2"),
        ("T cell (CD4+)", "Few T cells, and no T cell (CD4+) left.", "T cell (CD4+)"),
        ("Parkinson's Disease", "Her parkinson’s disease.", "parkinson’s disease"),
        ("Sjögren Syndrome", "SJO\u0308GREN SYNDROME was seen", "SJO\u0308GREN SYNDROME"),
        ("fibrosis", "Cystic ﬁbrosis", "ﬁbrosis"),
        ("心筋梗塞", "彼は 心筋梗塞 で", "心筋梗塞"),
        ("2,4-Dinitrophenol", "(2,4-dinitrophenol)", "2,4-dinitrophenol"),
        ("cocaine", "cocaine-induced", "cocaine"),
    ],
)
def test_unicode_hyphens_and_apostrophes(tmp_path, name, text, expected):
    kb = make_kb(tmp_path / "kb", [Entity("1", name)])
    assert found(make(kb.path), text) == [expected]


PLURAL_NAMES = [Entity("1", "T cell", ("RBC",)), Entity("2", "axis"), Entity("3", "doe"), Entity("4", "KRA")]
PLURALS = "T-cells, T cells; RBCs rbcs Axes of KRAS: does Does T cells' T, cells"


@pytest.mark.parametrize(("lang", "expected"), [("en", ["T-cells", "T cells", "RBCs", "Axes", "T cells"]), ("de", [])])
def test_an_english_plural_is_found_by_its_singular(tmp_path, lang, expected):
    nlp = spacy.blank(lang)
    nlp.add_pipe("pel_finder", config={"kb": own(make_kb(tmp_path / "kb", PLURAL_NAMES).path)})
    assert found(nlp, PLURALS) == expected


def test_abbreviations_that_the_text_defines_for_a_name_are_found_too(tmp_path):
    nlp = make(make_kb(tmp_path / "kb", [Entity("1", "cardiac muscle cell"), Entity("2", "T cell")]).path)
    text = "Cardiac muscle cells (CMCs) and lone cells (LCs). The CMCs, not LCs, grew."
    assert found(nlp, text) == ["Cardiac muscle cells", "CMCs", "CMCs"]
    assert found(nlp, "CMCs alone.") == []


def test_a_wide_character_counts_for_two(tmp_path):
    nlp = make(make_kb(tmp_path / "kb", [Entity("1", "東京"), Entity("2", "水"), Entity("3", "Äx")]).path)
    doc = nlp(Doc(nlp.vocab, words=["東京", "水", "Äx"]))
    assert [ent.text for ent in doc.ents] == ["東京"]


def test_a_plural_of_a_name_of_another_type(tmp_path):
    kb = make_kb(tmp_path / "kb", [Entity("1", "cell", (), ("A",)), Entity("2", "gene", (), ("B",))])
    assert found(make(kb.path, types=["B"]), "cells and genes") == ["genes"]


def test_a_name_with_other_tokens_than_the_text(tmp_path):
    nlp = make(make_kb(tmp_path / "kb", [Entity("1", "IL-2")]).path)
    one = Doc(nlp.vocab, words=["IL-2", "rose"])
    three = Doc(nlp.vocab, words=["IL", "-", "2", "rose"], spaces=[False, False, True, False])
    assert [[ent.text for ent in doc.ents] for doc in nlp.pipe([one, three])] == [["IL-2"], ["IL-2"]]


def test_no_name_reaches_over_a_comma_or_the_end_of_a_sentence_but_one_that_has_it(tmp_path):
    kb = make_kb(tmp_path / "kb", [Entity("1", "heart rate"), Entity("2", "myeloid leukemia (AML)", ("Pain, Back",))])
    nlp = make(kb.path)
    assert found(nlp, "It is the heart. Rate it. Of the heart, rate (and heart rate).") == ["heart rate"]
    assert found(nlp, "pain, back; pain back") == ["pain, back", "pain back"]
    assert found(nlp, "myeloid leukemia (AML)") == ["myeloid leukemia (AML)"]
    assert found(nlp, "myeloid leukemia AML") == ["myeloid leukemia AML"]


def test_the_last_word_of_a_sentence(tmp_path):
    kb = make_kb(tmp_path / "kb", [Entity("C", "Hepatitis"), Entity("B", "Hepatitis B"), Entity("D", "Vitamin D")])
    nlp = make(kb.path)
    assert [token.text for token in nlp.make_doc("Hepatitis B.")] == ["Hepatitis", "B."]
    assert found(nlp, "Low vitamin D and hepatitis B.") == ["vitamin D", "hepatitis B."]
    assert found(nlp, "Hepatitis B. Low vitamin D, hepatitis.") == ["Hepatitis B.", "vitamin D", "hepatitis"]


def test_the_longest_name_wins_then_the_first(tmp_path):
    kb = make_kb(tmp_path / "kb", [Entity(str(i), name) for i, name in enumerate(["a b", "b c", "b c d", "d e"])])
    nlp = make(kb.path)
    assert found(nlp, "a b c") == ["a b"]
    assert found(nlp, "x a b c d e") == ["b c d"]
    assert found(nlp, "a b d e") == ["a b", "d e"]


def test_names_of_more_tokens_than_are_looked_at(tmp_path):
    kb = make_kb(tmp_path / "kb", [Entity("1", "one two three four")])
    assert found(make(kb.path, max_tokens=3), "one two three four") == []
    assert found(make(kb.path, max_tokens=4), "one two three four") == ["one two three four"]


def test_a_text_longer_than_one_look_up(kb, monkeypatch):
    monkeypatch.setattr("spacy_pel.pipeline.finder.AT_ONCE", 7)
    assert found(make(kb.path), f"{TEXT} {TEXT}") == FOUND * 2


def test_stop_words_of_ones_own(kb):
    assert found(make(kb.path, stop_words=["Aspirin"])) == FOUND[1:]
    kb.add([Entity("N", "the")])
    assert "the" not in found(make(kb.path), "the cat")
    assert found(make(kb.path, stop_words=[]), "the cat") == ["the"]


def test_only_names_of_some_types(kb):
    nlp = make(kb.path, types=["Disease"], min_length=2)
    assert found(nlp) == ["HEART ATTACK", "AF", "tricuspid  regurgitation"]
    kb.update(
        [Entity("D001281", "Atrial Fibrillation", ("AF",), ("Sign",)), Entity("D003490", "Cyanosis", (), ("Sign",))]
    )
    assert found(nlp) == ["HEART ATTACK", "tricuspid  regurgitation"]
    nlp.get_pipe("pel_finder").types = ["Sign"]
    assert found(nlp) == ["AF"]
    nlp.get_pipe("pel_finder").types = ["nosuch"]
    with pytest.raises(PelError, match='no entity has the type "nosuch"'):
        nlp("text")


def test_an_abbreviation_of_an_entity_of_another_type(tmp_path):
    kb = make_kb(tmp_path / "kb", [Entity("1", "Ms", (), ("A",)), Entity("2", "MS", (), ("B",))])
    assert found(make(kb.path, min_length=2), "ms, MS") == ["ms", "MS"]
    assert found(make(kb.path, min_length=2, types=["B"]), "ms, MS") == ["MS"]


# --- the KB ---


def test_it_has_the_kb_of_the_linker(kb):
    assert found(with_linker(kb.path)) == FOUND


def test_what_is_added_renamed_and_removed_holds_at_once(kb):
    nlp = make(kb.path)
    assert found(nlp, "Moclobemide and cyanosis") == ["cyanosis"]
    other = KnowledgeBase(kb.path)  # as another process would
    other.add([Entity("N1", "Moclobemide")])
    assert found(nlp, "Moclobemide and cyanosis") == ["Moclobemide", "cyanosis"]
    other.update([Entity("N1", "Manerix", ("MOCLO",))])
    assert found(nlp, "Moclobemide, manerix, moclo or MOCLO") == ["manerix", "MOCLO"]
    other.remove(["N1"])
    assert found(nlp, "Moclobemide, manerix, MOCLO") == []


def test_a_kb_that_the_linker_gets_later(kb, tmp_path):
    nlp = with_linker(kb.path)
    assert found(nlp, "naloxone, nausea") == ["naloxone"]
    nlp.get_pipe("pel_linker").set_kb(make_kb(tmp_path / "other", [Entity("1", "Nausea")]))
    assert found(nlp, "naloxone, nausea") == ["nausea"]


def test_without_a_linker():
    nlp = spacy.blank("en")
    nlp.add_pipe("pel_finder")
    with pytest.raises(PelError, match=r'KB of "pel_linker", which is not in the pipeline.*KBFromDisk'):
        nlp("text")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("pel_finder", config={"linker": "sentencizer"})
    with pytest.raises(PelError, match="which is no pel_linker"):
        nlp("text")


def test_a_linker_without_a_kb():
    nlp = spacy.blank("en")
    nlp.add_pipe("pel_linker")
    nlp.add_pipe("pel_finder", first=True)
    with pytest.raises(PelError, match="pel_linker has no KB: run"):
        nlp("text")


def test_no_kb_at_the_path(tmp_path):
    nlp = make(tmp_path / "nosuch")  # opened when it is needed
    with pytest.raises(PelError, match="nosuch"):
        nlp("text")


# --- on the Doc ---


def test_entities_that_are_there_stay(kb):
    nlp = make(kb.path)
    doc = nlp.make_doc("severe heart attack and cyanosis")
    doc.ents = [Span(doc, 0, 2, label="OLD", kb_id="K")]
    kept = nlp(doc.copy())
    assert [(ent.text, ent.label_, ent.kb_id_) for ent in kept.ents] == [
        ("severe heart", "OLD", "K"),
        ("cyanosis", "ENTITY", ""),
    ]
    nlp.get_pipe("pel_finder").overwrite = True
    assert [ent.text for ent in nlp(doc.copy()).ents] == ["heart attack", "cyanosis"]


def test_an_entity_in_the_way_leaves_a_shorter_name(tmp_path):
    nlp = make(make_kb(tmp_path / "kb", [Entity("1", "heart attack risk"), Entity("2", "attack risk")]).path)
    doc = nlp.make_doc("heart attack risk")
    doc.ents = [Span(doc, 0, 1, label="OLD")]
    assert [ent.text for ent in nlp(doc).ents] == ["heart", "attack risk"]


def test_a_group_of_spans(kb):
    nlp = make(kb.path, spans_key="sc", label="X")
    doc = nlp.make_doc("heart attack and cyanosis")
    doc.spans["sc"] = [Span(doc, 0, 1, label="OLD"), Span(doc, 3, 4, label="OLD")]
    both = nlp(doc.copy())
    assert not both.ents
    assert [(s.text, s.label_) for s in both.spans["sc"]] == [
        ("heart", "OLD"),
        ("cyanosis", "OLD"),
        ("heart attack", "X"),
    ]
    assert [s.text for s in nlp(both).spans["sc"]] == ["heart", "cyanosis", "heart attack"]
    nlp.get_pipe("pel_finder").overwrite = True
    assert [(s.text, s.label_) for s in nlp(doc).spans["sc"]] == [("heart attack", "X"), ("cyanosis", "X")]


def test_what_a_group_says_of_its_spans_stays_with_them(kb):
    nlp = make(kb.path, spans_key="sc", label="X")
    doc = nlp.make_doc("heart attack and cyanosis")
    group = SpanGroup(doc, name="sc", spans=[Span(doc, 0, 1, label="OLD")], attrs={"scores": [0.5]})
    doc.spans["sc"] = group
    assert nlp(doc).spans["sc"].attrs == {"scores": [0.5]} and len(doc.spans["sc"]) == 3
    nlp.get_pipe("pel_finder").overwrite = True
    assert not nlp(doc).spans["sc"].attrs


def test_a_text_without_names_has_been_looked_through(kb):
    for text in ("nothing here", "", "…"):
        doc = make(kb.path)(text)
        assert not doc.ents and (not len(doc) or doc.has_annotation("ENT_IOB"))


# --- in a pipeline ---


def test_saved_and_loaded_with_a_kb_of_its_own(kb, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("pel_finder", config={"kb": own(kb.path), "min_length": 2, "label": "X"})
    nlp.to_disk(tmp_path / "pipeline")
    for again in (
        spacy.load(tmp_path / "pipeline"),
        spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes()),
    ):
        assert [(ent.text, ent.label_) for ent in again("AF or MI").ents] == [("AF", "X"), ("MI", "X")]
    shorter = spacy.load(tmp_path / "pipeline", config={"components.pel_finder.min_length": 4})
    assert found(shorter, "AF or MI") == []


def test_from_another_pipeline(kb):
    nlp, source = spacy.blank("en"), with_linker(kb.path)
    nlp.add_pipe("pel_finder", source=source)
    nlp.add_pipe("pel_linker", source=source)
    assert found(nlp) == FOUND


@pytest.mark.parametrize("how", ["source", "config"])
def test_from_another_pipeline_it_has_the_kb_of_the_linker_behind_it(kb, tmp_path, how):
    """And the language of the pipeline that it is in, whose plurals and stop words are those of English."""
    encoder = write_encoder(tmp_path / "encoder")
    other = make_kb(tmp_path / "other", [Entity("D001241", "zebra"), Entity("2", "der"), Entity("3", "off")])
    first = spacy.blank("de" if how == "source" else "en")  # in a config spaCy refuses another language
    first.add_pipe("pel_finder")
    first.add_pipe("pel_linker", source=make_pipeline(encoder, kb)[0])
    pipelines = {"pel_finder": first, "pel_linker": make_pipeline(encoder, other)[0]}
    if how == "source":
        nlp = spacy.blank("en")
        for name, source in pipelines.items():
            nlp.add_pipe(name, source=source)
    else:
        for name, source in pipelines.items():
            source.to_disk(tmp_path / name)
        components = {name: {"source": str(tmp_path / name)} for name in pipelines}
        config = {"nlp": {"lang": "en", "pipeline": list(pipelines)}, "components": components}
        nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    if how == "source":
        assert found(first, "zebra, aspirin") == ["zebra"], "spaCy shares the component: the latest pipeline decides"
    nlp.to_disk(tmp_path / "both")
    text, expected = "aspirin, zebras, der, off", ["zebras", "der"]
    assert found(nlp, text) == found(spacy.load(tmp_path / "both"), text) == expected
    with nlp.select_pipes(enable="pel_finder"):
        assert [ent.text for ent in nlp(text).ents] == expected
    nlp.rename_pipe("pel_linker", "renamed")
    nlp.get_pipe("pel_finder").linker = "renamed"
    assert found(nlp, text) == expected
    nlp.replace_pipe("renamed", "pel_linker", config=make_config()).set_kb(kb)
    assert found(nlp, text) == ["aspirin"]


def test_in_a_language_that_spacy_does_not_know_it_has_the_stop_words_of_the_pipeline(kb):
    nlp = with_linker(kb.path)
    doc = Doc(Vocab(lex_attr_getters={LANG: lambda text: "zz"}), words=["aspirin"])
    assert [ent.text for ent in nlp.get_pipe("pel_finder")(doc).ents] == ["aspirin"]


@pytest.mark.parametrize("change", [("remove_pipe", "pel_linker"), ("rename_pipe", "pel_linker", "other")], ids=repr)
def test_a_linker_that_has_gone_gives_it_no_kb(kb, change):
    nlp = with_linker(kb.path)
    getattr(nlp, change[0])(*change[1:])
    with pytest.raises(PelError, match=r'KB of "pel_linker", which is not in the pipeline'):
        found(nlp)


def test_pickled(kb):
    nlp = make(kb.path, min_length=2)
    nlp("warm")
    again = pickle.loads(pickle.dumps(nlp.get_pipe("pel_finder")))
    assert [ent.text for ent in again(nlp.make_doc("AF")).ents] == ["AF"] and again.min_length == 2


@pytest.fixture(scope="module")
def raw_text_linker(tmp_path_factory):
    """A saved pipeline that finds mentions and links them."""
    folder = tmp_path_factory.mktemp("finder")
    nlp, linker, _, _ = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"))
    linker.index(progress=False)
    nlp.add_pipe("pel_finder", before="pel_linker")
    nlp.to_disk(folder / "pipeline")
    return folder / "pipeline"


def test_raw_text_in_and_links_out(raw_text_linker):
    nlp = spacy.load(raw_text_linker)
    assert nlp.pipe_names == ["pel_finder", "pel_linker"]
    doc = nlp(TEXT)
    assert [ent.text for ent in doc.ents] == FOUND and all(ent.kb_id_ for ent in doc.ents)
    linker = nlp.get_pipe("pel_linker")
    linker.add_entities([Entity("N1", "Moclobemide")])
    assert [ent.text for ent in nlp("moclobemide").ents] == ["moclobemide"]
    linker.remove_entities(["N1"])
    assert not nlp("moclobemide").ents
    again = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    assert [ent.text for ent in again(TEXT).ents] == FOUND


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_two_processes_find_as_one(raw_text_linker, method, tmp_path):
    script = tmp_path / "find.py"
    script.write_text(
        "import multiprocessing, sys, spacy\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.set_start_method(sys.argv[2])\n"
        "    nlp = spacy.load(sys.argv[1])\n"
        "    text = sys.argv[3]\n"
        "    one = [(ent.text, ent.kb_id_) for ent in nlp(text).ents]\n"
        "    docs = nlp.pipe([text] * 6, n_process=2, batch_size=2)\n"
        "    two = [[(ent.text, ent.kb_id_) for ent in doc.ents] for doc in docs]\n"
        "    assert two == [one] * 6, two\n"
        "    print(len(one))\n"
    )
    command = [sys.executable, str(script), str(raw_text_linker), method, TEXT]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert result.stdout.strip() == "3", result.stderr


def test_spacy_knows_what_it_assigns(kb):
    nlp = with_linker(kb.path)
    assert "doc.ents" in nlp.analyze_pipes()["summary"]["pel_finder"]["assigns"]
    assert not any(nlp.analyze_pipes()["problems"]["pel_linker"])
    assert nlp.pipe_labels["pel_finder"] == ["ENTITY"]


def test_an_error_goes_to_the_error_handler():
    nlp = spacy.blank("en")
    finder = nlp.add_pipe("pel_finder")
    seen = []
    nlp.set_error_handler(lambda name, pipe, docs, error: seen.append((name, len(docs), type(error))))
    assert list(nlp.pipe(["a", "b"])) == []
    assert seen == [("pel_finder", 2, PelError)]
    doc = nlp.make_doc("a")
    assert finder(doc) is doc


# --- settings ---


def test_settings_are_attributes(kb):
    nlp = make(kb.path)
    finder = nlp.get_pipe("pel_finder")
    finder.min_length, finder.label = 2, "NAME"
    assert [(ent.text, ent.label_) for ent in nlp("AF").ents] == [("AF", "NAME")]
    assert "max_tokens" in dir(finder) and finder.settings.label == "NAME"
    with pytest.raises(AttributeError, match="nosuch"):
        finder.nosuch  # noqa: B018


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("min_length", 0),
        ("max_tokens", 0),
        ("stop_words", "the"),
        ("label", None),
        ("spans_key", 3),
        ("overwrite", "yes"),
        ("types", "Disease"),
        ("linker", None),
    ],
)
def test_a_value_that_a_setting_cannot_have(kb, key, value):
    finder = make(kb.path).get_pipe("pel_finder")
    with pytest.raises(PelError, match=rf"\[components.pel_finder\].*{key}"):
        setattr(finder, key, value)
