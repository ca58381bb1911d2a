"""A small KB of real-looking entities, and random unit vectors for it."""

from __future__ import annotations

import numpy as np
import pytest
from tiny import unit_vectors

from spacy_pel.kb.knowledge_base import Entity, KnowledgeBase

ENTITIES = [
    Entity(
        id="D001241",
        name="Aspirin",
        aliases=("2-(Acetyloxy)benzoic Acid", 'the "wonder" drug', "Ацетилсалициловая кислота"),
        types=("Chemicals and Drugs",),
        definition="The prototypical analgesic; it's an anti-inflammatory.\nTwo lines, a tab\tand a \x07 bell.",
        xrefs=("CHEBI:15365", "enwiki:Aspirin"),
        source="MeSH",
    ),
    Entity(id="D009203", name="Myocardial Infarction", aliases=("heart attack",), types=("Diseases", "Anatomy")),
    Entity(id="心筋梗塞", name="心筋梗塞", aliases=("احتشاء عضل القلب", "💔")),
    Entity(id="5", name="2,4-Dinitrophenol"),
    Entity(id="Robert'); DROP TABLE entities;--", name="β-Amyloid"),
]


@pytest.fixture
def entities() -> list[Entity]:
    return list(ENTITIES)


@pytest.fixture
def kb(tmp_path, entities) -> KnowledgeBase:
    return KnowledgeBase.create(tmp_path / "kb", entities, source="MeSH", release="2025", licence="open")


@pytest.fixture
def vectors(entities) -> np.ndarray:
    return unit_vectors(len(entities), 8)


@pytest.fixture
def indexed(kb, vectors) -> KnowledgeBase:
    kb.index([vectors[:2], vectors[2:]], dim=8, metric="cosine", fingerprint="abc")
    return kb
