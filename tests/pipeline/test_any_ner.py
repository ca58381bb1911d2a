"""Mentions may come from any component: a transformer with its `ner`, a `spancat`, rulers."""

from __future__ import annotations

import pytest
import spacy
from spacy.training import Example
from tiny import SENTENCES, make_kb, make_pipeline, train, write_encoder

IDS = {form: id_ for _, forms in SENTENCES for form, id_ in forms.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ner")
    encoder = write_encoder(folder / "encoder")
    nlp, linker, examples, optimizer = make_pipeline(encoder, make_kb(folder / "kb"), model={"context": 0})
    train(nlp, examples, optimizer, steps=200)
    linker.index(progress=False)
    nlp.to_disk(folder / "linker")
    return folder


def learn(nlp, spans_key=None, steps=60):
    """Overfit what finds mentions; a fifth of the steps would do."""
    examples = []
    for text, forms in SENTENCES:
        places = [(text.index(form), text.index(form) + len(form), "X") for form in forms]
        gold = {"entities": places} if spans_key is None else {"spans": {spans_key: places}}
        examples.append(Example.from_dict(nlp.make_doc(text), gold))
    optimizer = nlp.initialize(lambda: examples)
    optimizer.learn_rate = 0.003
    for _ in range(steps):
        nlp.update(examples, sgd=optimizer)


def check(nlp, folder, mentions):
    """Linked as added, and as saved with its linker and loaded."""
    expected = [[IDS[form] for form in forms] for _, forms in SENTENCES]
    found = [[span.kb_id_ for span in mentions(doc)] for doc in map(nlp, [text for text, _ in SENTENCES])]
    assert found == expected
    nlp.to_disk(folder)
    again = spacy.load(folder)
    for text, ids in zip([text for text, _ in SENTENCES], expected, strict=True):
        doc = again(text)
        assert [span.kb_id_ for span in mentions(doc)] == ids


def test_a_transformer_with_its_ner(folder, tmp_path):
    pytest.importorskip("spacy_transformers", reason="the extra `spacy-transformers` is not installed")
    nlp = spacy.blank("en")
    model = {"@architectures": "spacy-transformers.TransformerModel.v3", "name": str(folder / "encoder")}
    nlp.add_pipe("transformer", config={"model": model})
    listener = {"@architectures": "spacy-transformers.TransformerListener.v1", "grad_factor": 1.0}
    pooling = {"pooling": {"@layers": "reduce_mean.v1"}}
    nlp.add_pipe("ner", config={"model": {"tok2vec": listener | pooling}})
    learn(nlp)
    nlp.add_pipe("pel_linker", source=spacy.load(folder / "linker"))
    check(nlp, tmp_path / "saved", lambda doc: doc.ents)


def test_a_trained_ner(folder, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    learn(nlp)
    nlp.add_pipe("pel_linker", source=spacy.load(folder / "linker"))
    check(nlp, tmp_path / "saved", lambda doc: doc.ents)


def test_a_span_categoriser(folder, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("spancat", config={"spans_key": "found"})
    learn(nlp, "found", steps=150)
    trained = spacy.load(folder / "linker", config={"components.pel_linker.spans_key": "found"})
    nlp.add_pipe("pel_linker", source=trained)
    check(nlp, tmp_path / "saved", lambda doc: sorted(doc.spans["found"], key=lambda span: span.start))
