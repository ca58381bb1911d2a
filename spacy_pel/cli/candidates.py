"""`spacy pel candidates`: what another linker finds for the training mentions of a ranker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import PelError
from .app import command
from .pipeline import CODE, GPU_ID, load_linker
from .printing import msg

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.training import Corpus


@command("candidates", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def candidates(
    ctx: typer.Context,
    config: Annotated[Path, typer.Argument(help="The config of the ranker's training; --section.key VALUE changes it")],
    by: Annotated[str, typer.Argument(help="A pipeline with a linker that was not trained on these mentions")],
    code: CODE = None,
    gpu_id: GPU_ID = -1,
) -> None:
    """Let another linker find the candidates of a ranker's training mentions.

    They go to the file that [initialize.components.pel_ranker] candidates names, from which the training takes them.
    A linker has the right entity first too often among mentions that it was trained on: let two, each trained on one
    half of the corpus, find candidates for the other half.

    Example: python -m spacy pel candidates configs/ranker.cfg training/half-1/linker --paths.train corpus/half-0.spacy
    """
    from ..pipeline.candidates import found_by_another

    if not config.is_file() and config != Path("-"):  # which spaCy reads from stdin
        raise PelError(f"{config} is no file: name the config of the ranker's training")
    other = load_linker(by, gpu_id=gpu_id, code=code)[2]
    nlp, ranker, corpus, file = _training(config, ctx.args)
    new, there = found_by_another(ranker, other, corpus(nlp), file, where=by)
    if there:
        msg.warn(f"{there:,} mentions have candidates in {file}, and keep them: remove the file to find them anew")
    msg.good(f"{by} has found candidates of {new:,} mentions: {file}")


def _training(config: Path, overrides: list[str]) -> tuple[Language, Any, Corpus, Path]:
    """The pipeline, its ranker, the training corpus and the file of candidates of a config.

    Raises:
        PelError: It is none, or none of a `pel_ranker` that keeps its candidates.
    """
    import click
    from spacy.cli._util import parse_config_overrides
    from spacy.schemas import ConfigSchemaTraining
    from spacy.util import load_config, load_model_from_config, registry, resolve_dot_names
    from thinc.api import ConfigValidationError

    from ..components import require_ranker

    try:
        made = load_config(config, overrides=parse_config_overrides(overrides), interpolate=False)
        nlp = load_model_from_config(made, auto_fill=True)
        nlp._link_components()
        settings: Any = nlp.config.interpolate()
        training = registry.resolve(settings["training"], schema=ConfigSchemaTraining)
        (corpus,) = resolve_dot_names(settings, [training["train_corpus"]])
    except click.NoSuchOption as error:  # typer knows only its own
        raise PelError(f"{error.option_name} is no option; change the config by --section.key VALUE") from error
    except (ValueError, ConfigValidationError) as error:
        raise PelError(f"{config}: {error}") from error
    name, ranker = require_ranker(nlp, str(config))
    if not (file := settings["initialize"]["components"].get(name, {}).get("candidates")):
        raise PelError(f"{config}: name the file that they go to, in [initialize.components.{name}] candidates")
    return nlp, ranker, corpus, Path(file)
