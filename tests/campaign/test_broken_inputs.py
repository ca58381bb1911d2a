"""Broken files for every reader, and broken settings: each is read, or refused with one clear error."""

from __future__ import annotations

import gzip
import json
import math
import random
import shutil
import zlib

import pytest
import spacy
from campaign import FACTOR
from catalogue import RegistryError
from confection import ConfigValidationError
from outcomes import Outcomes, mutated, written
from spacy.tokens import DocBin
from tiny import ENTITIES, SENTENCES, make_docs

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.corpora.kilt import read_kilt_mentions
from spacy_pel.corpora.mention_corpus import MentionCorpus
from spacy_pel.corpora.pubtator import PubTatorReader
from spacy_pel.corpora.zeshel import read_zeshel_mentions
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.readers import read
from spacy_pel.linking.texts import PARSERS, make_given_mentions, read_texts
from spacy_pel.mentions.gold import gold_mentions
from spacy_pel.pipeline.factory import DEFAULT_CONFIG

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]

NLP = spacy.blank("en")
FILES = round(50 * FACTOR)  # of all formats of one kind together
BUILT = 0.1  # of the files that can be read become a KB


def jsonl() -> bytes:
    keys = ("id", "name", "aliases", "types", "definition", "xrefs", "source")
    return "".join(json.dumps({key: getattr(e, key) for key in keys}) + "\n" for e in ENTITIES).encode()


def scispacy() -> bytes:
    records = ({"concept_id": e.id, "canonical_name": e.name, "aliases": e.aliases, "types": e.types} for e in ENTITIES)
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def table(mark: str) -> bytes:
    rows = (
        mark.join((e.id, f'"{e.name}"', "|".join(e.aliases), "|".join(e.types), f'"{e.definition}"')) for e in ENTITIES
    )
    return "\n".join([mark.join(("id", "name", "aliases", "types", "definition")), *rows]).encode()


def obo() -> bytes:
    terms = (
        f'[Term]\nid: X:{e.id}\nname: {e.name}\ndef: "{e.definition}" [a:b]\nalt_id: X:{i}\nxref: UMLS:C{i}\n'
        + "".join(f'synonym: "{alias}" EXACT []\n' for alias in e.aliases)
        for i, e in enumerate(ENTITIES)
    )
    return ("format-version: 1.4\ndefault-namespace: test\n\n" + "\n".join(terms)).encode()


def mesh() -> bytes:
    records = (
        f"<DescriptorRecord><DescriptorUI>{e.id}</DescriptorUI><DescriptorName><String>{e.name}</String>"
        "</DescriptorName><TreeNumberList><TreeNumber>C23.888</TreeNumber></TreeNumberList><ConceptList>"
        f'<Concept PreferredConceptYN="Y"><ScopeNote>{e.definition}</ScopeNote><TermList><Term><String>{e.name}'
        "</String></Term></TermList></Concept></ConceptList></DescriptorRecord>\n"
        for e in ENTITIES
    )
    return f'<?xml version="1.0"?>\n<DescriptorRecordSet>{"".join(records)}</DescriptorRecordSet>'.encode()


def umls() -> dict[str, bytes]:
    rows: dict[str, list[str]] = {"MRCONSO": [], "MRSTY": [], "MRDEF": [], "MRRANK": ["400|MSH|MH|N|"], "MRCUI": []}
    for i, e in enumerate(ENTITIES):
        cui = f"C{i:07}"
        for number, name in enumerate((e.name, *e.aliases)):
            rows["MRCONSO"].append(f"{cui}|ENG|P|L1|PF|S1|Y|A{number}||||MSH|MH|{e.id}|{name}|0|N||")
        rows["MRSTY"].append(f"{cui}|T047|B2.2.1.2.1|Disease|AT1||")
        rows["MRDEF"].append(f"{cui}|A1|AT1||MSH|{e.definition}|N||")
        rows["MRCUI"].append(f"C9{i:06}|2020AA|SY|||{cui}|Y|")
    return {name: "".join(f"{row}\n" for row in own).encode() for name, own in rows.items()}


def pubtator() -> bytes:
    documents = []
    for pmid, (text, mentions) in enumerate(SENTENCES):
        lines = [f"{pmid}|t|{text}", f"{pmid}|a|An abstract."]
        for surface, id in mentions.items():
            start = text.index(surface)
            lines.append(f"{pmid}\t{start}\t{start + len(surface)}\t{surface}\tDisease\t{id}")
        documents.append("\n".join([*lines, f"{pmid}\tCID\tD1\tD2"]))
    return "\n\n".join(documents).encode()


def texts() -> bytes:
    lines = []
    for text, mentions in SENTENCES:
        places = [(text.index(surface), len(surface)) for surface in mentions]
        ents = [{"start": start, "end": start + length, "label": "X"} for start, length in places]
        lines.append(json.dumps({"text": text, "id": 1, "ents": ents}))
    return "\n".join(lines).encode()


def zeshel() -> bytes:
    records = ({"document_id": e.id, "title": e.name, "text": f"{e.name} {e.definition}"} for e in ENTITIES)
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def zeshel_mentions() -> bytes:
    ids = {"context_document_id": ENTITIES[0].id, "label_document_id": ENTITIES[1].id, "corpus": "lego"}
    words = f"{ENTITIES[0].name} {ENTITIES[0].definition}".split()
    places = ({"start_index": i, "end_index": i, "text": word} for i, word in enumerate(words))
    return "".join(json.dumps(ids | place) + "\n" for place in places).encode()


def kilt() -> bytes:
    records = (
        {"wikipedia_id": e.id, "wikipedia_title": e.name, "text": [e.name, e.definition, "Section::::x"]}
        for e in ENTITIES
    )
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def kilt_mentions() -> bytes:
    lines = []
    for text, mentions in SENTENCES:
        for surface, id in mentions.items():
            marked = text.replace(surface, f"[START_ENT] {surface} [END_ENT]", 1)
            lines.append(json.dumps({"id": id, "input": marked, "output": [{"provenance": [{"wikipedia_id": id}]}]}))
    return "\n".join(lines).encode()


RECORDS = {
    "jsonl": ("kb.jsonl", jsonl()),
    "scispacy": ("kb.jsonl", scispacy()),
    "csv": ("kb.csv", table(",")),
    "tsv": ("kb.tsv", table("\t")),
    "obo": ("kb.obo", obo()),
    "mesh": ("desc.xml", mesh()),
    "zeshel": ("lego.json", zeshel()),
    "kilt": ("kilt.json", kilt()),
}
READERS = {"tsv": "csv"}


def packed(rng: random.Random, name: str, data: bytes) -> tuple[str, bytes]:
    """The file plain, packed, or packed and broken then."""
    kind = rng.random()
    if kind < 0.9:
        return name, data
    whole = gzip.compress(data, mtime=0)
    return f"{name}.gz", whole if kind < 0.95 else mutated(rng, whole)


@pytest.mark.parametrize("format", [*RECORDS, "umls"])
def test_entities(format, tmp_path):
    outcomes = Outcomes()

    def one(rng: random.Random) -> None:
        shutil.rmtree(tmp_path / "in", ignore_errors=True)
        if format == "umls":
            source, options = tmp_path / "in" / "META", {}
            for name, data in umls().items():
                broken = mutated(rng, data, b"|") if rng.random() < 0.4 else data
                written(source / f"{name}.RRF", broken)
        else:
            name, data = packed(rng, RECORDS[format][0], mutated(rng, RECORDS[format][1], b'\t,|":<'))
            source, options = written(tmp_path / "in" / name, data), {}
        records = read(READERS.get(format, format), source, **options)
        if rng.random() < BUILT:
            shutil.rmtree(tmp_path / "kb", ignore_errors=True)
            with_retired = list(records)
            KnowledgeBase.create(tmp_path / "kb", with_retired, source="test").close()
        else:
            list(records)
        list(records.retired)

    for number in range(FILES // 9 + 1):
        outcomes.attempt(format, number, one)
    outcomes.check()


def test_corpora(tmp_path):
    outcomes = Outcomes()
    docs = DocBin(store_user_data=True, docs=make_docs(NLP)).to_bytes()

    def broken_docs(rng: random.Random) -> bytes:
        return mutated(rng, docs) if rng.random() < 0.2 else zlib.compress(mutated(rng, zlib.decompress(docs)))

    def one_pubtator(rng: random.Random) -> None:
        path = written(tmp_path / "in.pubtator", mutated(rng, pubtator()))
        for doc in PubTatorReader(path, NLP, strict=rng.random() < 0.3):
            assert all(mention.span.text.strip() for mention in gold_mentions(doc))

    def one_docbin(rng: random.Random) -> None:
        path = written(tmp_path / "in.spacy", broken_docs(rng))
        for doc in read_docs(path, NLP.vocab):
            gold_mentions(doc)
        list(MentionCorpus(path)(NLP))

    def one_zeshel(rng: random.Random) -> None:
        data = {"documents/lego.json": zeshel(), "mentions/val.json": zeshel_mentions()}
        broken = rng.choice(list(data))
        for name, whole in data.items():
            written(tmp_path / name, mutated(rng, whole, b',":{}') if name == broken else whole)
        for doc in read_zeshel_mentions(tmp_path / "mentions" / "val.json", NLP, strict=rng.random() < 0.3):
            assert all(mention.span.text.strip() for mention in gold_mentions(doc))

    def one_kilt(rng: random.Random) -> None:
        path = written(tmp_path / "in.jsonl", mutated(rng, kilt_mentions(), b',":{}[]'))
        for doc in read_kilt_mentions(path, NLP, strict=rng.random() < 0.3):
            assert len(gold_mentions(doc)) == 1

    for number in range(FILES // 4):
        outcomes.attempt("ZESHEL", number, one_zeshel)
        outcomes.attempt("KILT", number, one_kilt)
    for number in range(FILES // 2):
        outcomes.attempt("PubTator", number, one_pubtator)
        outcomes.attempt(".spacy", number, one_docbin)
    outcomes.check()


@pytest.mark.parametrize("format", sorted(PARSERS))
def test_texts_to_link(format):
    outcomes = Outcomes()
    given = make_given_mentions(NLP, "given")

    def one(rng: random.Random) -> None:
        lines = mutated(rng, texts(), b',":{}[]').splitlines(keepends=True)
        broken = []
        for doc, _ in read_texts(lines, format, NLP, lambda number, error: broken.append(str(error))):
            given(doc)
        assert all(broken)

    for number in range(FILES // 2):
        outcomes.attempt(f"link, {format}", number, one)
    outcomes.check()


VALUES = [None, -1, 0, 1, 2.5, 10**30, 1e308, math.nan, math.inf, True, "x", "", [], ["x"], [None], {}, {"x": 1}, [[1]]]
PARTS = {
    "model": {"@architectures": "spacy_pel.BiEncoder.v1"},
    "loss": {"@misc": "spacy_pel.ProxyLoss.v1", "alpha": 32.0, "margin": 0.0},
    "adversarial": {"@misc": "spacy_pel.FGSM.v1", "epsilon": 0.01, "weight": 1.0},
    "negatives": {"@misc": "spacy_pel.MixedNegatives.v1", "n": 8, "p": 50, "draw": "top", "pool": 10, "in_batch": None},
}
MODEL = (
    *("mention_length", "entity_length", "similarity", "shared_towers", "entity_template", "aliases", "precision"),
    *("context", "pooling"),
)


def test_settings():
    """A pipeline is made of them, and linked with, or they are refused by us or by spaCy's check of types."""
    outcomes, nlp = Outcomes(ConfigValidationError, RegistryError), spacy.blank("en")

    def one(rng: random.Random) -> None:
        config = json.loads(json.dumps({**DEFAULT_CONFIG, **PARTS}))
        for _ in range(rng.randint(1, 2)):
            part = rng.choice([None, *(part for part in PARTS if config[part] and isinstance(config[part], dict))])
            keys = MODEL if part == "model" else [key for key in (config[part] if part else config) if key[0] != "@"]
            key = rng.choice(list(keys))
            value = rng.choice(VALUES)
            if part:
                config[part] = {**config[part], key: value}
            else:
                config[key] = value
        if nlp.pipe_names:
            nlp.remove_pipe("pel_linker")
        try:
            linker = nlp.add_pipe("pel_linker", config=config)
        except ValueError as error:  # spaCy's: nan and inf are no JSON
            if not str(error).startswith("[E961]"):
                raise
            return
        setattr(linker, rng.choice(list(vars(linker.settings))), rng.choice(VALUES))

    for number in range(FILES):
        outcomes.attempt("settings", number, one)
    outcomes.check()


def test_every_source_is_right_as_it_stands(tmp_path):
    """Else nothing would be tried but the first line."""
    for format, (name, data) in RECORDS.items():
        if format != "obo":
            source = written(tmp_path / format / name, data)
            assert len(list(read(READERS.get(format, format), source))) == len(ENTITIES)
    for name, data in umls().items():
        written(tmp_path / "META" / f"{name}.RRF", data)
    records = read("umls", tmp_path)
    assert len(list(records)) == len(list(records.retired)) == len(ENTITIES)
    reader = PubTatorReader(written(tmp_path / "in.pubtator", pubtator()), NLP, strict=True)
    assert len(list(reader)) == len(SENTENCES) == reader.counts.relations
    written(tmp_path / "documents" / "lego.json", zeshel())
    (doc,) = read_zeshel_mentions(written(tmp_path / "mentions" / "val.json", zeshel_mentions()), NLP, strict=True)
    assert len(gold_mentions(doc)) == len(doc)
    marked = written(tmp_path / "in.jsonl", kilt_mentions())
    assert len(list(read_kilt_mentions(marked, NLP, strict=True))) == sum(len(own) for _, own in SENTENCES)
    broken: list[object] = []
    assert len(list(read_texts(texts().splitlines(), "jsonl", NLP, lambda *error: broken.append(error)))) == 6
    assert not broken
