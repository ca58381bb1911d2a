"""What decides the links of a pipeline, written down: two runs with equal stamps link alike."""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import blake2b
from typing import Any

from ..kb.version import kb_version
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
        "kb": kb_version(linker.require_kb()),
    }
    return json.loads(json.dumps(stamp))


def differences(one: Stamp, other: Stamp) -> list[str]:
    """The names of what differs."""
    return sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
