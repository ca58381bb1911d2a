"""What tells a KB as it is on the disk now from what it was, and from others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .knowledge_base import KnowledgeBase


def kb_version(kb: KnowledgeBase) -> dict[str, Any]:
    """The build of a KB, its entities and the hash of their records."""
    meta = kb.records.latest_meta()
    records = meta.get("hashes", {}).get("entities")  # the KBs of older formats have none
    return {"build": meta["build"], "entities": meta["counts"]["entities"], "records": records}


def vectors_version(kb: KnowledgeBase, fingerprints: Iterable[str]) -> dict[str, Any]:
    """The hashes of the files of the indexes with these `fingerprints`, and how many vectors were added to each since:
    which, the records and the encoder say."""
    indexes = kb.indexes
    own = {one: indexes[one] for one in fingerprints if one in indexes}
    files = {one: [file["sha256"] for _, file in sorted(index.record["files"].items())] for one, index in own.items()}
    return {"files": files, "added": {one: len(index.added) for one, index in own.items()}}


def names_version(kb: KnowledgeBase) -> dict[str, Any]:
    """The hashes of the index of names: of the tables, and of the file where there is one."""
    meta = kb.records.latest_meta()
    file = meta.get("names", {}).get("file", {})
    hashes = meta.get("hashes", {})
    return {"file": file.get("sha256"), "tables": [hashes.get(table) for table in ("name_arrays", "postings")]}
