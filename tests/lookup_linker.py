"""A linker that looks mentions up by their text, for tests of what is built on one."""

from types import MappingProxyType, SimpleNamespace

import numpy as np
import spacy
from spacy.tokens import Doc, Span

from spacy_pel.mentions.gold import GOLD_GROUP
from spacy_pel.pipeline.settings import LinkSettings
from spacy_pel.pipeline.tuning import tune_nil
from spacy_pel.search.evidence import EVIDENCE
from spacy_pel.search.search import Found
from spacy_pel.tuning.tuned import Tuned, decide

NLP = spacy.blank("en")
LEAD = EVIDENCE.index("lead over the next")


class Ids(set):
    """A KB of which only the ids matter, and what became of retired ones."""

    path, metric, meta = "kb", "cosine", MappingProxyType({"build": "b1"})

    def __init__(self, ids, retired=None):
        super().__init__(ids)
        self.retired = retired or {}

    def successors(self, ids):
        return {id: self.retired[id] for id in ids if id in self.retired}


class LookupLinker:
    """Has what evaluation and tuning ask of a linker."""

    name, outdated, name_weights = "pel_linker", False, None
    model = SimpleNamespace(attrs={"settings": {"similarity": "cosine", "precision": "auto"}})

    def __init__(self, found, kb, threshold=None, nil_threshold="tuned"):
        self.found = found
        self.kb = kb if kb is None or isinstance(kb, Ids) else Ids(kb)
        self.threshold = threshold
        self.settings = LinkSettings(top_k=16, nil_threshold=nil_threshold)
        self.tuned, self.cfg = Tuned(), {}
        self.calls = []

    def require_kb(self):
        return self.kb

    def tune_nil(self, docs, **options):
        return tune_nil(self, docs, **options)

    def find(self, spans, k):
        self.calls.append((len(spans), k))
        return [self._found(span, self.found.get(span.text, [])[:k]) for span in spans]

    def _found(self, span, candidates):
        scores = np.array([score for _, score in candidates])
        evidence = np.full(len(EVIDENCE), scores[0]) if candidates else None
        return Found([id_ for id_, _ in candidates], scores, {}, span, evidence)

    def links(self, found):
        return decide(found, self.tuned, self.threshold, by_score=self.settings.nil_threshold != "tuned")


def make_doc(*mentions):
    """A Doc whose words are (word, gold kb_id) pairs, each one a gold mention."""
    doc = Doc(NLP.vocab, words=[word for word, _ in mentions])
    doc.spans[GOLD_GROUP] = [Span(doc, i, i + 1, label="X", kb_id=kb_id) for i, (_, kb_id) in enumerate(mentions)]
    return doc


class Sayer(LookupLinker):
    """Every score is the same or says nothing; what tells NIL is the lead."""

    def find(self, spans, k):
        found = super().find(spans, k)
        return [one._replace(evidence=self._said(one.read)) if one.ids else one for one in found]

    def _said(self, span):
        rng = np.random.default_rng(span.start + 1000 * len(span.doc))
        said = rng.normal(size=len(EVIDENCE))
        said[LEAD] += 0 if span.text.startswith("nil") else 3
        return said


def documents(n, length=12):
    """Docs of which every third mention is NIL; a NIL mention has no candidates in some."""
    docs = []
    for number in range(n):
        words = [f"{'nil' if i % 3 == 0 else 'word'}{number}x{i}" for i in range(length + number % 5)]
        doc = Doc(NLP.vocab, words=words)
        kb_ids = ["NIL" if word.startswith("nil") else "A" for word in words]
        doc.spans[GOLD_GROUP] = [Span(doc, i, i + 1, label="X", kb_id=kb_id) for i, kb_id in enumerate(kb_ids)]
        docs.append(doc)
    return docs


def sayer(docs):
    rng = np.random.default_rng(1)
    words = [token.text for doc in docs for token in doc]
    without = {word for word in words if word.startswith("nil") and word.endswith("x9")}
    return Sayer(
        {word: [("A", float(score))] for word, score in zip(words, rng.random(len(words))) if word not in without},
        {"A"},
    )
