"""Tiny made-up worlds in the files of ZESHEL: four documents each, and mentions of every category."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from on_disk import write_lines

SPLITS = {
    "train": ("american_football", "fallout"),
    "heldout_train_seen": ("fallout",),
    "heldout_train_unseen": ("american_football",),
    "val": ("coronation_street", "muppets"),
    "test": ("lego", "yugioh"),
}
WORLDS = sorted({world for worlds in SPLITS.values() for world in worlds})
TITLES = ("Aspirin", "Seizures (ship)", "Heart Failure", "Lithium")
# Words that stand in the text of the first document, the title they mean, and its category in ZESHEL
MENTIONS = (
    ("aspirin", 0, "HIGH_OVERLAP"),
    ("Seizures", 1, "MULTIPLE_CATEGORIES"),
    ("Heart", 2, "AMBIGUOUS_SUBSTRING"),
    ("the metal", 3, "LOW_OVERLAP"),
)
TEXT = "Aspirin aspirin met Seizures after the Heart of  the metal was given in {world} ."


def id_of(world: str, number: int) -> str:
    return f"{world.upper()[:4]}{number:04X}"


def documents(world: str) -> list[dict[str, str]]:
    """The first has the mentions; its second word is the first of them, as the title is part of the text."""
    texts = [TEXT.format(world=world)]
    texts += [f"{title.replace('(', '( ').replace(')', ' )')} is a thing of {world} ." for title in TITLES[1:]]
    return [
        {"document_id": id_of(world, number), "title": title, "text": text}
        for number, (title, text) in enumerate(zip(TITLES, texts))
    ]


def mentions(world: str) -> list[dict[str, Any]]:
    words, found = TEXT.format(world=world).split(), []
    for number, (form, meant, category) in enumerate(MENTIONS):
        start = words.index(form.split()[0], 1)
        if form == "the metal":
            start = words.index("metal") - 1
        place = {"start_index": start, "end_index": start + len(form.split()) - 1, "text": form}
        ids = {"context_document_id": id_of(world, 0), "label_document_id": id_of(world, meant)}
        found.append({"mention_id": f"{world}{number}", **ids, "corpus": world, **place, "category": category})
    return found


def write_zeshel(folder: Path) -> Path:
    """`documents/` and `mentions/`, as they are published."""
    for world in WORLDS:
        write_lines(folder / "documents" / f"{world}.json", documents(world))
    for split, worlds in SPLITS.items():
        write_lines(folder / "mentions" / f"{split}.json", (one for world in worlds for one in mentions(world)))
    return folder
