"""Write `format3.zip`: run with spacy-pel 6fb9e8c, the last commit that wrote KBs of format 3."""

import shutil
from pathlib import Path

import numpy as np

from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase

folder = Path("format3")
entities = [
    Entity(f"D{i}", name, aliases, (kind,), type_names=(f"{kind} type",))
    for i, (name, aliases, kind) in enumerate(
        [
            ("Aspirin", ("ASA",), "T1"),
            ("Lithium", (), "T1"),
            ("Heart attack", ("MI",), "T2"),
            ("Seizures", ("fits", "convulsions"), "T2"),
            ("Cyanosis", (), "T2"),
        ]
    )
]
kb = KnowledgeBase.create(folder, entities, source="made up", release="1", licence="CC0", retired=[("old-D1", "D1")])
vectors = np.concatenate([np.eye(4), np.full((1, 4), 0.5)]).astype("float32")
kb.index([vectors], dim=4, metric="cosine", fingerprint="abc")
kb.remove(["D1"])  # row 1
kb.add([Entity("N5", "Heart block", ("AV block",), ("T2",))], -np.eye(1, 4, dtype="float32"), "abc")  # row 5
kb.update([Entity("D4", "Blue skin", (), ("T2",))], -np.eye(2, 4, dtype="float32")[1:], "abc")  # row 4 becomes row 6
kb.close()
shutil.make_archive("format3", "zip", folder)
