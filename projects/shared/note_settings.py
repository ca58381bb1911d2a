"""What decides the measures of a run besides its seed, noted in their file: `pel table --over-seeds` averages runs that
have all of it in common, and no others."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

import srsly
import typer

from spacy_pel.files.hashes import sha256
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.version import kb_version


def main(
    metrics: Annotated[Path, typer.Argument(help="JSON of measures, which gets these settings")],
    settings: Annotated[str, typer.Argument(help="Settings of the run, as a JSON object")],
    kb: Annotated[Path, typer.Argument(help="Its KB")],
    encoder: Annotated[str, typer.Argument(help="Its encoder: a folder, or a name")],
    files: Annotated[list[Path], typer.Argument(help="The files that it has read")],
) -> None:
    """Write SETTINGS and the digests of the KB, the encoder and the files into METRICS, under "settings"."""
    found: Any = srsly.read_json(metrics)
    own: Any = srsly.json_loads(settings)
    own |= {"kb": kb_version(KnowledgeBase(kb))["records"], "encoder": digest_of(encoder)}
    own |= {str(path): sha256(path) for path in files}
    srsly.write_json(metrics, found | {"settings": own})


def digest_of(encoder: str) -> str:
    """What tells an encoder from others: the digest of its weights and settings, or its name where it is no folder."""
    if not Path(encoder).is_dir():
        return encoder
    own = sorted(path for path in Path(encoder).glob("*.*") if path.suffix in (".json", ".safetensors", ".bin"))
    return hashlib.sha256("".join(map(sha256, own)).encode()).hexdigest()


if __name__ == "__main__":
    typer.run(main)
