"""What decides the links of a pipeline, written down: two runs with equal stamps link alike."""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import blake2b
from typing import Any

from ..kb.version import kb_version, names_version, vectors_version
from .records import RecordLinker

Stamp = dict[str, Any]


def stamp_of(loaded: RecordLinker) -> Stamp:
    """The stamp of a pipeline, as JSON has it: of its linker the encoders, the settings and what was tuned; a hash of
    its other components; and the version of its KB."""
    nlp, linker = loaded.nlp, loaded.linker
    others = nlp.to_bytes(exclude=["vocab", "meta.json", loaded.name])
    stamp = {
        "encoders": {**linker.fingerprints, "mentions": linker.mention_fingerprint},
        "settings": asdict(linker.settings),
        "tuned": linker.tuned.to_dict(),
        "components": blake2b(others, digest_size=16).hexdigest(),
        "kb": stamp_of_kb(linker),
    }
    return json.loads(json.dumps(stamp))


def stamp_of_kb(linker: Any) -> Stamp:
    """What of the KB decides the links, as it is on the disk now: its records, the vectors, and the index of names."""
    kb = linker.require_kb()
    return kb_version(kb) | {"vectors": vectors_version(kb, linker.fingerprints.values()), "names": names_version(kb)}


def differences(one: Stamp, other: Stamp) -> list[str]:
    """The names of what differs. Of the KB, of which earlier versions have said less, what both stamps have counts."""
    return sorted(key for key in one.keys() | other.keys() if not _are_alike(key, one.get(key), other.get(key)))


def _are_alike(key: str, one: Any, other: Any) -> bool:
    if key == "kb" and isinstance(one, dict) and isinstance(other, dict):
        common = one.keys() & other.keys()
        return bool(common) and all(one[part] == other[part] for part in common)
    return one == other
