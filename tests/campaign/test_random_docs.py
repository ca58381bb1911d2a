"""Random Docs, in any script and with any spans, linked under random settings."""

from __future__ import annotations

import json
import random
import warnings

import pytest
from campaign import FACTOR
from outcomes import Outcomes
from spacy.tokens import Doc, DocBin, Span
from spacy.util import filter_spans
from tiny import make_kb, make_pipeline, train, write_encoder

from spacy_pel.kb.entity import NIL
from spacy_pel.linking.output import linked_record
from spacy_pel.mentions.links import links_of, mentions_of
from spacy_pel.pipeline.settings import LinkSettings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]

DOCS = round(100 * FACTOR)
WORDS = [
    *(
        "aspirin",
        "heart",
        "attack",
        "AF",
        "Lithium",
        "(",
        ")",
        "[",
        "]",
        ".",
        ",",
        ";",
        "-",
        "/",
        "'s",
        "10",
        "mg",
        "a",
    ),
    *(
        "患者",
        "は",
        "ليثيوم",
        "אספירין",
        "💔",
        "👩‍👩‍👧",
        "é",
        "e\u0301",
        "İ",
        "ﬁ",
        "ß",
        "ﷺ",
        "Ⅷ",
        "🇩🇪",
        "\ufffd",
        "\U0001f9ea",
    ),
    *(" ", "\n", "\t", "\xa0", "\u200b", "\u200d", "\u202e", "\ufeff", "\u2028", "\x00", "\x07", "\x1b[2J", "\x85"),
    *(
        "[CLS]",
        "[SEP]",
        "[Ms]",
        "[Me]",
        "[ENT]",
        "[PAD]",
        "NIL",
        "A|B",
        "<s>",
        "{name}",
        "%s",
        "\\",
        "x" * 300,
        "(" * 99,
    ),
]
LABELS = ["X", "DISEASE", "Chemical", "", "label with space", "💔"]
SETTINGS = {
    "top_k": [1, 2, 64, 10_000],
    "max_candidates": [1, 5],
    "spans_key": [None, "found", ""],
    "resolve_abbreviations": [True, False],
    "lexical": [None, "tuned", {"ngram": 0.2, "exact": 0.1}, {"ngram": 0, "exact": 1e6}],
    "nil_threshold": [None, "tuned", -1.0, 0.5, 1.0],
    "labels_discard": [[], ["X"], [""]],
    "types": [[], ["Disease"], ["Disease", "Chemical"]],
    "types_by_label": [{}, {"X": ["Disease"]}],
    "overwrite": [True, False],
    "search_threads": [None, 1, 2],
}
ABBREVIATIONS = [None, "text", 5, ["HA"], [None], {"a": "b"}, [{"short_start": 0}], [{}], [(0, 1)]]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("random_docs")
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(folder / "encoder"), make_kb(folder / "kb"))
    train(nlp, examples, optimizer, 10)
    linker.index(progress=False)
    yield nlp
    if Doc.has_extension("abbreviations"):
        Doc.remove_extension("abbreviations")


def random_doc(rng: random.Random, vocab) -> Doc:
    kind = rng.random()
    size = 0 if kind < 0.03 else rng.randrange(1, 8) if kind < 0.3 else rng.randrange(1, 80) if kind < 0.97 else 5_000
    words = [rng.choice(WORDS) for _ in range(size)]
    if kind > 0.9:
        words = [word for word in words if not word.strip()]
    doc = Doc(vocab, words, [rng.random() < 0.6 for _ in words])
    spans = [random_span(rng, doc) for _ in range(rng.randrange(20))] if words else []
    doc.ents = filter_spans([span for span in spans if span.label and len(span)])
    if rng.random() < 0.8:
        empty = [Span(doc, len(doc), len(doc), label="X")] if rng.random() < 0.1 else []
        doc.spans["found"] = spans + empty + spans[:2]
        if rng.random() < 0.1:
            doc.spans["found"].attrs.update(kb_ents=rng.choice([5, None, [[]]]), mine="kept")
    if Doc.has_extension("abbreviations"):
        doc._.abbreviations = rng.choice(ABBREVIATIONS)
    return doc


def random_span(rng: random.Random, doc: Doc) -> Span:
    start = rng.randrange(len(doc))
    end = min(len(doc), start + rng.choice([1, 1, 2, 3, 50, len(doc)]))
    return Span(doc, start, end, label=rng.choice(LABELS), kb_id=rng.choice(["", "", "D001241", NIL, "nowhere", "A|B"]))


def test_random_docs(pipeline):
    outcomes, linker = Outcomes(), pipeline.get_pipe("pel_linker")
    ids = {NIL, *linker.kb}

    def one(rng: random.Random) -> None:
        chosen = {key: rng.choice(values) for key, values in SETTINGS.items() if rng.random() < 0.4}
        if chosen.get("top_k", 64) < chosen.get("max_candidates", 5):
            chosen["max_candidates"] = 1
        linker.settings = settings = LinkSettings(**chosen)
        if rng.random() < 0.2 and not Doc.has_extension("abbreviations"):
            Doc.set_extension("abbreviations", default=None)
        docs = [random_doc(rng, pipeline.vocab) for _ in range(rng.randrange(1, 4))]
        before = [[span.kb_id_ for span in mentions_of(doc, settings.spans_key)] for doc in docs]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            linked = list(pipeline.pipe(docs, batch_size=rng.randrange(1, 4)))
        for doc, old in zip(linked, before, strict=True):
            check(doc, settings, ids, old)
            json.dumps(linked_record(doc, {}, settings.spans_key, with_prob=True))
            for span in mentions_of(doc, settings.spans_key)[:1]:
                assert str(linker.explain(span))
        DocBin(docs=linked).to_bytes()

    for number in range(DOCS):
        outcomes.attempt("Docs", number, one)
    linker.settings = LinkSettings()
    outcomes.check()


def check(doc: Doc, settings: LinkSettings, ids: set[str], before: list[str]) -> None:
    """What must hold of every link."""
    mentions = mentions_of(doc, settings.spans_key)
    assert len(mentions) == len(before)
    for span, link, old in zip(mentions, links_of(doc, settings.spans_key), before, strict=True):
        if old and not settings.overwrite:
            assert span.kb_id_ == old
            continue
        scores = [score for _, score in link.candidates]
        assert link.kb_id == span.kb_id_ and link.kb_id in ids, (span.text, link)
        assert scores == sorted(scores, reverse=True) and len(scores) <= settings.max_candidates
        assert all(score == score and abs(score) < 10 for score in scores)
        assert link.kb_id == NIL or link.kb_id == link.candidates[0][0]
        assert span.label_ not in settings.labels_discard or link.kb_id == NIL
