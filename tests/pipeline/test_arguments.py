"""What is given to a linker in Python: one clear error where it is something else."""

from __future__ import annotations

import pytest
from tiny import ENTITIES, make_docs, make_kb, make_pipeline, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.evaluation.evaluate import evaluate
from spacy_pel.kb.entity import Entity
from spacy_pel.pipeline.settings import SETTINGS


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arguments")
    nlp, linker, _, _ = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"))
    linker.index(progress=False)
    return nlp, linker


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda nlp, linker, doc: linker.tune_nil([doc], target=0.9), 'target="precision=0.9"'),
        (lambda nlp, linker, doc: linker.tune_nil([doc], target=["precision"]), "target = .* give a text"),
        (lambda nlp, linker, doc: linker.tune_nil("dev.spacy"), r"'dev.spacy' \(str\) is no list of Docs"),
        (lambda nlp, linker, doc: linker.tune_names(doc), r"\(Doc\) is no list of Docs"),
        (lambda nlp, linker, doc: evaluate(nlp, ["text"]), r"'text' \(str\) is no list of Docs"),
        (lambda nlp, linker, doc: evaluate(nlp, 5), r"5 \(int\) is no list of Docs"),
        (lambda nlp, linker, doc: evaluate(nlp, [doc], train="train.spacy"), "is no list of Docs"),
        (lambda nlp, linker, doc: evaluate(linker, [doc]), r"\(PelLinker\) is no pipeline; give .* nlp"),
        (lambda nlp, linker, doc: linker.kb.named(doc[2:3]), "give a name, such as ent.text"),
        (lambda nlp, linker, doc: linker.add_entities([]), "an empty list is no list of entities"),
        (lambda nlp, linker, doc: linker.add_entities(Entity("X", "y")), r"\(Entity\) is no list of entities"),
        (lambda nlp, linker, doc: linker.add_entities(["X"]), "is no list of entities"),
        (lambda nlp, linker, doc: linker.update_entities(None), "is no list of entities"),
        (lambda nlp, linker, doc: linker.remove_entities("D001241"), r'give \["D001241"\]'),
        (lambda nlp, linker, doc: linker.remove_entities([5]), "is no list of ids"),
        (lambda nlp, linker, doc: linker.explain(doc), r"\(Doc\) is no Span; give one mention"),
        (lambda nlp, linker, doc: linker.explain(doc.ents[0], "x"), "k = 'x'"),
        (lambda nlp, linker, doc: linker.rank(doc, 5), r"\(Doc\) is no list of Spans"),
        (lambda nlp, linker, doc: linker.rank(["aspirin"], 5), "is no list of Spans"),
        (lambda nlp, linker, doc: linker.rank(list(doc.ents), -1), "k = -1"),
        (lambda nlp, linker, doc: setattr(linker, "kb", "kb"), "call linker.set_kb"),
        (lambda nlp, linker, doc: setattr(linker, "settings", {"top_k": 3}), "give LinkSettings"),
        (lambda nlp, linker, doc: linker.set_kb(5), "5 .* is no KB"),
        (lambda nlp, linker, doc: linker.index(index_type=5), "index_type = 5"),
        (lambda nlp, linker, doc: linker.index(index_type="FOO"), "FOO"),
    ],
)
def test_what_is_something_else_is_said_to_be(pipeline, act, message):
    nlp, linker = pipeline
    doc = make_docs(nlp)[0]
    with pytest.raises(PelError, match=message) as error:
        act(nlp, linker, doc)
    assert len(str(error.value)) < 500
    assert len(linker.kb) == len(ENTITIES) and all(ent.kb_id_ for ent in nlp(doc).ents)


def test_dir_has_the_settings(pipeline):
    assert {*SETTINGS, "k", "kb", "tune_nil"} <= set(dir(pipeline[1]))


def test_as_many_candidates_as_anybody_asks_for(pipeline):
    """No memory is asked for more entities than the KB has."""
    nlp, linker = pipeline
    spans = list(make_docs(nlp)[0].ents)
    linker.top_k = 2**31 - 1
    assert {len(found) for found in linker.rank(spans, 2**31 - 1)} == {len(ENTITIES)}
    linker.top_k = 64
