"""`python -m spacy pel …`: importing this package adds the commands to spaCy's own command line."""

from spacy.cli._util import app as spacy_app

from . import (  # noqa: F401  (importing registers them)
    baselines,
    build_kb,
    candidates,
    card,
    convert,
    distil,
    evaluate,
    ground,
    index,
    kb,
    link,
    new_linker,
    new_project,
    okb,
    report,
    table,
    tune_lexical,
    tune_nil,
    tune_ranker,
    verify,
)
from .app import pel_app

spacy_app.add_typer(pel_app, name="pel")
