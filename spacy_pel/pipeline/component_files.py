"""What the folders of a linker and of a ranker have in common: spaCy's vocabulary, a model and what was tuned, which
appear together; and the `config.cfg` beside them, which spaCy writes before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from spacy.vocab import Vocab
from thinc.api import Config, Model

from ..errors import PelError
from ..files.parts import STATE, Layout, Saved
from .notices import warn_of_unsaved

VOCAB = {"exclude": ("strings", "vectors")}
Write = Callable[[Path], object]


class Component(Protocol):
    """What is written and read."""

    name: str
    vocab: Vocab
    model: Model
    settings: Any

    def set_model(self, model: Model) -> None: ...


def write_component(
    component: Component,
    path: Path,
    exclude: Iterable[str],
    layout: Layout,
    save: Callable[[Model, Path], object],
    state: dict[str, Any],
    *,
    writers: Mapping[str, Write] | None = None,
    kept: Mapping[str, str] | None = None,
) -> None:
    """Write a component to the folder `path`, in place of all that is saved there. What is excluded stays as it is.

    Args:
        component: What to write.
        path: Its folder.
        exclude: Names of parts.
        layout: Of the folder.
        save: Writes a model into a folder.
        state: What was tuned.
        writers: Of further parts, by name.
        kept: The names of the files of further parts that stay as they are.
    """
    excluded, before = set(exclude), layout.read_before_writing(path)
    section = section_of_config(path)
    warn_of_unsaved(component.name, component.settings, section)
    own: dict[str, Write] = {
        "vocab": lambda p: component.vocab.to_disk(p, **VOCAB),
        "model": lambda p: save(component.model, p),
    }
    there = before.parts if before else {}
    layout.write(
        path,
        before.state if before and STATE in excluded else state,
        {part: write for part, write in (own | dict(writers or {})).items() if not _in(part, excluded)},
        kept={part: record["name"] for part, record in there.items() if _in(part, excluded)} | dict(kept or {}),
        notes={"model": _model_in(section), "excluded": sorted(excluded)},
    )


def read_component(
    component: Component,
    path: Path,
    exclude: Iterable[str],
    layout: Layout,
    load: Callable[[Path, str], Model],
    read_state: Callable[[dict[str, Any]], object],
) -> None:
    """Read into `component` what `write_component` wrote, whatever the architecture of its model.

    Args:
        component: What to read into.
        path: Its folder.
        exclude: Names of parts.
        layout: Of the folder.
        load: Reads a model that computes in a precision.
        read_state: Takes what was tuned.

    Raises:
        PelError: Naming what is broken.
    """
    excluded, saved = set(exclude), layout.read(path)
    if saved is None:
        own = path / component.name
        advice = f"name {own}, or read" if own.is_dir() else "read"
        raise PelError(
            f"{path}: no {component.name} was saved here; {advice} the whole pipeline with spacy.load. If saving was "
            "interrupted, save again."
        )
    _check_config(saved)
    parts = [part for part in ("vocab", "model") if part not in excluded]
    for part in parts:
        saved.check(part)
    if "model" in parts and saved.has_hashes and saved.path("model") is None:
        raise PelError(f'{path}: was saved without its model; read it with exclude=["model"], or save it whole.')
    precision = component.model.attrs["settings"]["precision"]
    loaded = load(saved.path("model") or path / "model", precision) if "model" in parts else None
    if STATE not in excluded:
        try:
            read_state(saved.state)
        except (TypeError, ValueError, KeyError) as error:
            raise PelError(f"{path / STATE}: what was tuned cannot be read ({error}); tune it again.") from error
    if "vocab" in parts and (vocab := saved.path("vocab")):
        component.vocab.from_disk(vocab, **VOCAB)
    if loaded is not None:
        component.set_model(loaded)


def left_out(folder: Path, layout: Layout) -> set[str]:
    """The names, as in `exclude`, of the parts that were left out of bytes, which were unpacked to `folder`. Who reads
    these keeps its own, as components of spaCy do."""
    saved = layout.read(folder)
    return set() if saved is None else set(saved.notes.get("excluded", ())) - {STATE}


def _in(part: str, excluded: set[str]) -> bool:
    return part.split(".")[0] in excluded  # as spaCy does: "kb" means `kb.json` too


# --- what spaCy writes beside us ---


def section_of_config(path: Path) -> dict[str, Any]:
    """What the `config.cfg` beside the folder `path` says of that component; empty if there is none. spaCy writes it
    before the components, and not at once with them."""
    return sections_of_config(path.absolute().parent).get(path.name, {})


def sections_of_config(pipeline: Path) -> dict[str, dict[str, Any]]:
    """What the `config.cfg` of a pipeline says of its components; empty if there is none, or a broken one."""
    try:
        sections = Config().from_disk(pipeline / "config.cfg", interpolate=False)["components"]
        return {name: dict(section) for name, section in sections.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _model_in(section: dict[str, Any]) -> dict[str, Any] | None:
    """The settings of the model in the section of a component, but for the precision; None if there are none."""
    model = section.get("model")
    return {key: value for key, value in model.items() if key != "precision"} if model else None


def _check_config(saved: Saved) -> None:
    """Check that the `config.cfg` beside a component is that of the pipeline it was saved with.

    Raises:
        PelError: If it has other settings of the model.
    """
    noted, now = saved.notes.get("model"), _model_in(section_of_config(saved.folder))
    if noted is None or now is None or noted == now:
        return
    keys = ", ".join(sorted(key for key in noted.keys() | now.keys() if noted.get(key) != now.get(key)))
    section = f"[components.{saved.folder.name}.model]"
    raise PelError(
        f"{saved.folder}: was saved with another config.cfg than the one beside it ({section}: {keys}); a process that "
        "is killed while it saves a pipeline leaves it so: save the pipeline again."
    )
