"""What a linker learns of a ranker: the term by hand, the file between them, and that the one follows the other."""

from __future__ import annotations

import hashlib
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import spacy
import srsly
import torch
from spacy.tokens import DocBin, Span
from tiny import ENTITIES, make_docs, make_kb, make_pipeline, train, write_encoder

from spacy_pel.corpora.mention_corpus import MentionCorpus
from spacy_pel.errors import PelError
from spacy_pel.mentions.gold import GOLD_GROUP, gold_mentions
from spacy_pel.training.distillation import AROUND, Distillation, Taught, mention_key, with_targets, with_taught
from spacy_pel.training.layouts import LAYOUTS
from spacy_pel.training.losses import CrossEntropyLoss, NCELoss
from spacy_pel.training.negatives import NONE, DrawnNegatives, RandomNegatives
from spacy_pel.training.objective import Objective

SCALE = 32.0


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_the_term_is_the_divergence_of_both_softmaxes(temperature):
    rng = np.random.default_rng(0)
    scores, targets = rng.uniform(-0.1, 0.1, (4, 5)), rng.normal(size=(4, 5))
    targets[0, 2:], targets[1], targets[2, 1:] = -np.inf, -np.inf, -np.inf
    given = torch.tensor(scores, requires_grad=True)
    term = Distillation("x", weight=0.5, temperature=temperature).loss(given, torch.tensor(targets), SCALE)
    term.sum().backward()
    for i in range(4):
        told = np.isfinite(targets[i])
        if told.sum() < 2:
            assert term[i] == 0 and not given.grad[i].any()
            continue
        q, p = (softmax(values[i][told] / temperature) for values in (targets, SCALE * scores))
        assert term[i].item() == pytest.approx(0.5 * temperature**2 * (q * np.log(q / p)).sum(), rel=1e-9)
        np.testing.assert_allclose(given.grad[i].numpy()[told], 0.5 * temperature * SCALE * (p - q), rtol=1e-9)
        assert not given.grad[i].numpy()[~told].any()


def softmax(values):
    values = np.exp(values - values.max())
    return values / values.sum()


def test_a_mention_is_known_in_a_window_of_its_text(tmp_path):
    nlp = spacy.blank("en")
    docs = make_docs(nlp)
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "mentions.spacy")
    in_texts = {mention_key(mention.span) for doc in docs for mention in gold_mentions(doc)}
    corpus = MentionCorpus(tmp_path / "mentions.spacy")
    in_windows = {mention_key(mention.span) for eg in corpus(nlp) for mention in gold_mentions(eg.reference)}
    assert in_windows == in_texts and len(in_texts) == sum(len(gold_mentions(doc)) for doc in docs)


def test_a_mention_is_known_by_the_characters_around_it():
    nlp = spacy.blank("en")
    keys = []
    for before, after in (
        ("", ""),
        ("x", ""),
        ("", "x"),
        ("  ", " \n"),
        ("a b " * 20, " c d" * 20),
        ("-" * 90, "+" * 90),
    ):
        text = f"{before} MS {after}"
        at = text.index("MS")
        span = nlp(text).char_span(at, at + 2)
        around = text[max(at - AROUND, 0) : at], "MS", text[at + 2 : at + 2 + AROUND]
        assert mention_key(span) == hashlib.blake2b("\0".join(around).encode(), digest_size=12).hexdigest()
        keys.append(mention_key(span))
    assert len(set(keys)) == len(keys)


def test_the_best_wrong_candidates_become_negatives():
    drawn = DrawnNegatives(np.array([[4], [NONE]]))
    taught = [Taught({1: 0.5, 4: 0.4, 2: 0.1, 3: 0.3}), Taught({})]
    more = with_taught(drawn, taught, [[1], [0]], 3)
    assert more.places.tolist() == [[4, 3, 2, NONE], [NONE, NONE, NONE, NONE]]


@pytest.mark.parametrize(("layout", "in_batch"), [("shared", None), ("per_mention", None), ("per_mention", True)])
def test_targets_stand_where_the_candidates_do(layout, in_batch):
    gold, negatives = np.array([5, 7]), DrawnNegatives(np.array([[2, 9], [9, NONE]]))
    batch = LAYOUTS[layout](gold, [[5, 6], [7]], negatives, in_batch)
    places = batch.candidate_places()
    if batch.candidates == "all":
        assert all((row == batch.entity_places).all() for row in places)
    taught = with_targets(batch, [Taught({5: 1.0, 9: -1.0, 6: 3.0}), Taught({})])
    told = {
        (int(place), score) for place, score in zip(places[0], taught.targets[0], strict=True) if np.isfinite(score)
    }
    assert told == {(5, 1.0), (9, -1.0)} and not np.isfinite(taught.targets[1]).any()  # 6 is right too: no candidate
    assert (places[np.arange(2), batch.positives.argmax(1)] == gold).all()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    return write_encoder(folder / "encoder"), make_kb(folder / "kb")


def targets_for(docs, path, wrong):
    """A file in which each mention is as likely the entity `wrong` as its own."""
    lines = [
        {"mention": mention_key(one.span), "text": one.span.text, "ids": [one.ids[0], wrong], "scores": [0.0, 0.0]}
        for doc in docs
        for one in gold_mentions(doc)
        if one.is_linked and wrong not in one.ids
    ]
    srsly.write_jsonl(path, lines)
    return path


def leads(nlp, linker, wrong):
    """The mean of what the right entity scores more than the `wrong` one."""
    mentions = [one for doc in make_docs(nlp) for one in gold_mentions(doc) if one.is_linked and wrong not in one.ids]
    linker.index(progress=False)
    scores = [dict(zip(f.ids, f.scores, strict=True)) for f in linker.find([m.span for m in mentions], len(ENTITIES))]
    return np.mean([own[one.ids[0]] - own[wrong] for one, own in zip(mentions, scores, strict=True)])


def test_a_linker_follows_the_ranker(made, tmp_path):
    wrong = ENTITIES[-1].id
    path = targets_for(make_docs(spacy.blank("en")), tmp_path / "targets.jsonl", wrong)
    lead = {}
    for weight in (0.0, 5.0):
        distillation = {"@misc": "spacy_pel.Distillation.v1", "path": str(path), "n": 1, "weight": weight}
        nlp, linker, examples, optimizer = make_pipeline(*made, distillation=distillation, lexical=None)
        losses = train(nlp, examples, optimizer, 30)
        assert losses[-1] < losses[0]
        assert np.isfinite(linker.session.latest_batch.targets).sum(1).max() == 2
        lead[weight] = leads(nlp, linker, wrong)
    assert lead[5.0] < 0.5 * lead[0.0]  # as likely, says the ranker


def test_a_linker_is_trained_among_the_candidates_of_the_file_alone(made, tmp_path):
    wrong = ENTITIES[-1].id
    path = targets_for(make_docs(spacy.blank("en")), tmp_path / "targets.jsonl", wrong)
    none = {"@misc": "spacy_pel.RandomNegatives.v1", "n": 0}
    distillation = {"@misc": "spacy_pel.Distillation.v1", "path": str(path), "n": 5, "weight": 0}
    settings = {"negatives": none, "layout": "per_mention", "lexical": None, "adversarial": None}
    nlp, linker, examples, optimizer = make_pipeline(*made, **settings, distillation=distillation)
    before = leads(nlp, linker, wrong)
    train(nlp, examples, optimizer, 10)
    batch, kb = linker.session.latest_batch, linker.kb
    for places, negatives in zip(batch.candidate_places(), batch.negatives, strict=True):
        assert {kb.ids([place])[0] for place in places[negatives]} <= {wrong}
    assert leads(nlp, linker, wrong) > before


def test_a_file_of_other_texts_is_told_once(made, tmp_path):
    docs = make_docs(spacy.blank("en"))
    path = targets_for(docs, tmp_path / "targets.jsonl", ENTITIES[-1].id)
    other = tmp_path / "other.jsonl"
    srsly.write_jsonl(other, [line | {"mention": "0" * 24} for line in srsly.read_jsonl(path)])
    (tmp_path / "empty.jsonl").touch()
    for name, said in (("targets", 0), ("other", 1), ("empty", 1)):
        distillation = {"@misc": "spacy_pel.Distillation.v1", "path": str(tmp_path / f"{name}.jsonl"), "n": 1}
        nlp, _, examples, optimizer = make_pipeline(*made, distillation=distillation)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            train(nlp, examples, optimizer, 45)
        told = [str(one.message) for one in warned if "[components.pel_linker.distillation]" in str(one.message)]
        assert len(told) == said and all(f"{name}.jsonl has scores of no mention" in one for one in told)


def test_candidates_that_the_label_does_not_allow_are_no_negatives(made, tmp_path):
    """A ranker whose linker searched all types has scored some that this one may not take."""
    wrong = ENTITIES[-1].id
    path = targets_for(make_docs(spacy.blank("en")), tmp_path / "targets.jsonl", wrong)
    places = {}
    for allowed in (None, [kind for kind in {one.types[0] for one in ENTITIES} if kind != ENTITIES[-1].types[0]]):
        distillation = {"@misc": "spacy_pel.Distillation.v1", "path": str(path), "n": 1}
        settings = {"negatives": {"@misc": "spacy_pel.RandomNegatives.v1", "n": 1}, "distillation": distillation}
        nlp, linker, examples, optimizer = make_pipeline(*made, **settings, types_by_label={"X": allowed or []})
        examples = [eg for eg in examples if all(span.kb_id_ != wrong for span in eg.reference.spans[GOLD_GROUP])]
        for example in examples:
            group = example.reference.spans[GOLD_GROUP]
            for i, span in enumerate(group):
                group[i] = Span(example.reference, span.start, span.end, label="X", kb_id=span.kb_id)
        train(nlp, examples, optimizer, 1)
        places[allowed is None] = {linker.kb.ids([place])[0] for place in linker.session.latest_batch.entity_places}
    assert wrong in places[True] and wrong not in places[False]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "targets.jsonl, line 1, holds no targets"),
        ('{"mention": "a", "ids": ["x"], "scores": [1]}\n{"mention": "b", "ids": ["x"]}\n', "line 2, holds no targets"),
        ('{"mention": "a", "ids": ["x", "y"], "scores": [1]}\n', "line 1, holds no targets"),
        ('{"mention": "a", "ids": "xy", "scores": [1, 2]}\n', "line 1, holds no targets"),
        ('{"mention": ["a"], "ids": ["x", "y"], "scores": [1, 2]}\n', "line 1, holds no targets"),
        ("no json\n", "holds no targets"),
        ('{"mention": "a", "ids": ["x"], "scores": [1]}\n\n\n{"mention": \n', "line 4, holds no targets"),
    ],
)
def test_a_file_that_is_none(tmp_path, content, told):
    path = tmp_path / "targets.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(PelError, match=rf"\[components\.pel_linker\.distillation\]: .*{told}.*spacy pel distil"):
        Distillation(str(path)).targets()


def test_settings_that_do_not_go():
    for distillation in (None, Distillation("x", n=0)):
        with pytest.raises(PelError, match=r"\[components.pel_linker.negatives\]: n = 0 leaves mentions without"):
            Objective(CrossEntropyLoss(), None, RandomNegatives(0), "per_mention", distillation=distillation)
    for key, value in {"n": -1, "weight": -1.0, "temperature": 0.0, "path": 3}.items():
        with pytest.raises(PelError, match=re.escape(f"[components.pel_linker.distillation]: {key} = {value}")):
            Distillation(**{"path": "x"} | {key: value})
    with pytest.raises(PelError, match=r"do not go with spacy_pel\.NCELoss\.v1"):
        negatives = RandomNegatives(replace=True)
        Objective(NCELoss(), None, negatives, "per_mention", distillation=Distillation("x"))
    with pytest.raises(PelError, match=r'distillation = 3.*"@misc": "spacy_pel\.Distillation\.v1"'):
        replace(spacy.blank("en").add_pipe("pel_linker").objective, distillation=3)
