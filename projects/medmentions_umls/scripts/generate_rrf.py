"""Write the META folder of a made-up release, to measure what building a KB of its size takes."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

SOURCES = ("MSH", "SNOMEDCT_US", "NCI", "MTH", "RXNORM", "ICD10CM", "MDR", "OMIM")
TYPES = (("T047", "B2.2.1.2.1", "Disease or Syndrome"), ("T121", "A1.4.1.1.1", "Pharmacologic Substance"))


def main(
    meta: Annotated[Path, typer.Argument(help="Folder to write")],
    rows: Annotated[int, typer.Option(help="Rows of MRCONSO")] = 10_000_000,
    rows_a_concept: Annotated[int, typer.Option(help="Names of a concept, on average")] = 4,
    shuffle: Annotated[bool, typer.Option("--shuffle", help="Deal the rows out of order, to ten places")] = False,
    seed: Annotated[int, typer.Option(help="Of the draws")] = 0,
) -> None:
    """Write MRCONSO, MRSTY, MRDEF (for every third concept), MRRANK and MRCUI."""
    draw = random.Random(seed)
    meta.mkdir(parents=True, exist_ok=True)
    left, concept = rows, 0
    parts: list[list[str]] = [[] for _ in range(10 if shuffle else 1)]
    with ExitStack() as stack:
        names, types, definitions = (
            stack.enter_context((meta / f"{table}.RRF").open("w")) for table in ("MRCONSO", "MRSTY", "MRDEF")
        )
        while left:
            concept += 1
            cui, n = f"C{concept:07d}", min(left, draw.randint(1, 2 * rows_a_concept - 1))
            left -= n
            part = draw.choice(parts)
            part.extend(name(draw, cui, atom) for atom in range(n))
            tui, tree, kind = draw.choice(TYPES)
            types.write(f"{cui}|{tui}|{tree}|{kind}|AT{concept}||\n")
            if concept % 3 == 0:
                text = f"A made-up condition, {cui} of its kind, that is written here for the sake of its length. " * 2
                definitions.write(f"{cui}|A{concept}|AT{concept}||{draw.choice(SOURCES)}|{text}|N||\n")
            if not shuffle:
                names.writelines(part)
                part.clear()
        for part in parts:
            names.writelines(part)
    (meta / "MRRANK.RRF").write_text("".join(f"{99 - i:04d}|{sab}|PT|N|\n" for i, sab in enumerate(SOURCES)))
    retired = (f"C9{i:06d}|2020AA|SY|||C{draw.randint(1, concept):07d}|Y|\n" for i in range(concept // 10))
    (meta / "MRCUI.RRF").write_text("".join(retired))
    typer.echo(f"Wrote {rows:,} rows of {concept:,} concepts to {meta}")


def name(draw: random.Random, cui: str, atom: int) -> str:
    """A row of MRCONSO; one in six is in Spanish, one in ten suppressed."""
    language = "SPA" if atom and draw.random() < 1 / 6 else "ENG"
    suppressed = "O" if atom and draw.random() < 0.1 else "N"
    flags = "P|L1|PF|S1|Y" if not atom else "S|L1|VO|S1|Y"
    source = draw.choice(SOURCES)
    text = f"{cui} condition, acute or chronic, form {atom} of the {source} vocabulary"
    return f"{cui}|{language}|{flags}|A{cui[1:]}{atom}||M{cui}||{source}|PT|{cui[1:]}|{text}|0|{suppressed}||\n"


if __name__ == "__main__":
    typer.run(main)
