"""Run a notebook from its first cell to its last, and keep what it prints."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Annotated, Any

import nbformat
import typer
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from spacy_pel.files.atomic import write_atomically

KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}

# No progress bars, nor warnings of scispaCy's regular expressions and tqdm's widgets: they name files of the machine
QUIET = {"TQDM_DISABLE": "1", "PYTHONWARNINGS": "ignore::FutureWarning,ignore:IProgress not found"}


def main(
    path: Annotated[Path, typer.Argument(metavar="NOTEBOOK.ipynb")],
    values: Annotated[str, typer.Option(help="Other values for the cell tagged `parameters`, as a JSON object")] = "{}",
) -> None:
    """Execute NOTEBOOK in its folder, and write it with its outputs. If a cell fails, nothing is written."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata = {"kernelspec": KERNEL}
    for name, value in json.loads(values).items():
        set_parameter(notebook, name, value)
    resources = {"metadata": {"path": str(path.parent)}}
    try:
        NotebookClient(notebook, timeout=None, record_timing=False, resources=resources).execute(env=os.environ | QUIET)
    except CellExecutionError as error:
        typer.secho(f"✘ {path.name}: {error}", fg="red", err=True)
        raise typer.Exit(1) from error
    notebook.metadata = {"kernelspec": KERNEL}
    write_atomically(path, (nbformat.writes(notebook) + "\n").encode())
    typer.echo(f"Wrote {path}")


def set_parameter(notebook: NotebookNode, name: str, value: Any) -> None:
    """Give `name` another value in the cell tagged `parameters`."""
    cell = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ()))
    assignment = re.compile(rf"^{name} = [^#\n]*?(?=  #|$)", re.MULTILINE)
    cell.source, found = assignment.subn(f"{name} = {value!r}", cell.source)
    if found != 1:
        raise typer.BadParameter(f"{name} is not among the parameters of the notebook", param_hint="--values")


if __name__ == "__main__":
    typer.run(main)
