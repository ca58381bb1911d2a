"""A tiny random BERT, a small real-looking KB and a corpus on it, for tests that need a whole linker."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import spacy
from spacy.tokens import Span
from spacy.training import Example

from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import GOLD_GROUP
from spacy_pel.models.encoder_loader import HFEncoder

ENTITIES = [
    Entity("D001241", "Aspirin", ("acetylsalicylic acid", "ASA"), ("Chemical",), "An analgesic that thins the blood."),
    Entity("D008094", "Lithium", ("Li",), ("Chemical",), "An alkali metal given in mania."),
    Entity("D010634", "Phenobarbital", ("phenobarbitone",), ("Chemical",), "A barbiturate against seizures."),
    Entity("D012640", "Seizures", ("convulsions", "fits"), ("Disease",), "Sudden disturbances of brain activity."),
    Entity("D009203", "Myocardial Infarction", ("heart attack", "MI"), ("Disease",), "Death of heart muscle."),
    Entity("D014262", "Tricuspid Valve Insufficiency", ("tricuspid regurgitation",), ("Disease",), "A leaking valve."),
    Entity("D001281", "Atrial Fibrillation", ("AF",), ("Disease",), "An irregular beat of the atria."),
    Entity("D006333", "Heart Failure", ("cardiac failure",), ("Disease",), ""),
    Entity("D003490", "Cyanosis", (), ("Sign",), ""),
    Entity("D003866", "Depressive Disorder", ("depression",), ("Disease",), ""),
    Entity("D003000", "Clonidine", (), ("Chemical",), ""),
    Entity("D009270", "Naloxone", (), ("Chemical",), ""),
]
SENTENCES = [
    ("She took aspirin after the heart attack .", {"aspirin": "D001241", "heart attack": "D009203"}),
    ("Lithium toxicity caused cyanosis in the newborn .", {"Lithium": "D008094", "cyanosis": "D003490"}),
    ("Phenobarbital was given for fits .", {"Phenobarbital": "D010634", "fits": "D012640"}),
    (
        "Severe tricuspid regurgitation with cardiac failure .",
        {"tricuspid regurgitation": "D014262", "cardiac failure": "D006333"},
    ),
    ("AF is common in depression ?", {"AF": "D001281", "depression": "D003866"}),
    ("Naloxone reversed clonidine .", {"Naloxone": "D009270", "clonidine": "D003000"}),
]


def write_encoder(path: Path, **settings) -> Path:
    """Save a random two-layer BERT with a word-piece vocabulary of letters and the words of the data."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    path.mkdir(parents=True, exist_ok=True)
    letters = [chr(i) for i in range(33, 127) if not chr(i).isupper()]
    texts = [sentence for sentence, _ in SENTENCES]
    texts += [text for e in ENTITIES for text in (e.name, *e.aliases, e.definition, *e.types)]
    words = {word for text in texts for word in re.findall(r"\w+", text.lower())}
    vocab = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *letters,
        *(f"##{x}" for x in letters),
        *sorted(words - set(letters)),
    ]
    (path / "vocab.txt").write_text("\n".join(vocab) + "\n", encoding="utf-8")
    BertTokenizerFast(str(path / "vocab.txt")).save_pretrained(path)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    torch.manual_seed(0)
    config = BertConfig(**{"vocab_size": len(vocab), "max_position_embeddings": 64, **size, **settings})
    BertModel(config).save_pretrained(path)
    return path


def make_kb(path: Path, entities=ENTITIES) -> KnowledgeBase:
    return KnowledgeBase.create(path, entities, source="test")


def with_codes(codes: Mapping[str, tuple[str, ...]]) -> list[Entity]:
    """ENTITIES, each with its `codes`, by their ids."""
    return [replace(entity, xrefs=codes.get(entity.id, ())) for entity in ENTITIES]


def make_docs(nlp, sentences=SENTENCES):
    """Docs with the gold in `doc.ents` and in the group of gold mentions."""
    docs = []
    for text, mentions in sentences:
        doc = nlp.make_doc(text)
        spans = []
        for surface, kb_id in mentions.items():
            start = text.index(surface)
            spans.append(doc.char_span(start, start + len(surface), label="X", kb_id=kb_id))
        doc.ents = spans
        doc.spans[GOLD_GROUP] = [Span(doc, s.start, s.end, label=s.label, kb_id=s.kb_id) for s in spans]
        docs.append(doc)
    return docs


def unlinked(nlp):
    """Docs whose entities have a label and no id."""
    docs = make_docs(nlp)
    for doc in docs:
        doc.ents = [Span(doc, ent.start, ent.end, label=ent.label) for ent in doc.ents]
    return docs


def make_examples(nlp, sentences=SENTENCES):
    return [Example(nlp.make_doc(doc.text), doc) for doc in make_docs(nlp, sentences)]


def make_config(**overrides) -> dict:
    """Settings of a component that fit the tiny encoder, with the loss as in the paper; `model` is merged."""
    model = {"@architectures": "spacy_pel.BiEncoder.v1", "mention_length": 32, "entity_length": 32, "precision": "fp32"}
    return {
        "loss": {"@misc": "spacy_pel.ProxyLoss.v1", "origin": 0.0},
        "negatives": {"@misc": "spacy_pel.MixedNegatives.v1", "n": 4, "p": 50},
        **overrides,
        "model": model | overrides.get("model", {}),
    }


def make_pipeline(encoder: Path, kb: KnowledgeBase, sentences=SENTENCES, dropout=0.0, **overrides):
    """A blank English pipeline with an initialised linker, its Examples and an optimizer."""
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("pel_linker", config=make_config(**overrides))
    examples = make_examples(nlp, sentences)
    spacy.util.fix_random_seed(0)
    linker.initialize(
        lambda: examples,
        nlp=nlp,
        encoder_loader=HFEncoder(str(encoder), dropout=dropout),
        kb_loader=lambda: kb,
    )
    optimizer = nlp.create_optimizer()
    optimizer.learn_rate = 3e-3
    return nlp, linker, examples, optimizer


def make_linking(path: Path, entities=ENTITIES, steps=0, **overrides):
    """An indexed pipeline whose entity_ruler finds every mention of SENTENCES. Its encoder and KB are in `path`."""
    kb = make_kb(path / "kb", entities)
    nlp, linker, examples, optimizer = make_pipeline(write_encoder(path / "encoder"), kb, **overrides)
    train(nlp, examples, optimizer, steps)
    linker.index(progress=False)
    add_ruler(nlp)
    return nlp


def add_ruler(nlp) -> None:
    """Put an entity_ruler first that finds every mention of SENTENCES."""
    ruler = nlp.add_pipe("entity_ruler", first=True)
    ruler.add_patterns([{"label": "X", "pattern": form} for _, mentions in SENTENCES for form in mentions])


def train(nlp, examples, optimizer, steps=30) -> list[float]:
    """The loss of each step."""
    return [nlp.update(examples, sgd=optimizer, losses={})["pel_linker"] for _ in range(steps)]


def links(doc) -> list[tuple[str, str]]:
    return [(ent.text, ent.kb_id_) for ent in doc.ents]


def unit_vectors(n: int, dim: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(n, dim)).astype("float32")
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def write_package(pipeline: Path, site: Path, name: str) -> Path:
    """Install a saved pipeline in the folder `site` as the package `name` ("en_…"), as `spacy package` makes one, and
    return the folder of the pipeline in it."""
    meta = json.loads((pipeline / "meta.json").read_bytes())
    module, info = site / name, site / f"{name}-{meta['version']}.dist-info"
    folder = shutil.copytree(pipeline, module / f"{name}-{meta['version']}")
    load = "def load(**given):\n    return load_model_from_init_py(__file__, **given)\n"
    (module / "__init__.py").write_text(f"from spacy.util import load_model_from_init_py\n{load}")
    (module / "meta.json").write_text(json.dumps(meta | {"name": name.partition("_")[2]}))
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {meta['version']}\n")
    return folder
