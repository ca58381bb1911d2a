"""The examples of docs/scale.md, each run with the real engine: what it writes is what one process links."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tiny import SENTENCES

from spacy_pel.linking import LinkBatch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
TEXTS = [text for text, _ in SENTENCES]
# What stands before an example: Ray would count the cores of this machine, and others start processes of Python's.
BEFORE = {"Ray Data": "import ray\nray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)\n"}
MAIN = "if __name__ == '__main__':\n"


def example(heading: str) -> str:
    """The Python under a heading of the page."""
    section = PAGE.read_text(encoding="utf-8").split(f"### {heading}\n")[1]
    return re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]


@pytest.fixture
def folder(pipeline, tmp_path):
    """With `linker`, and with `abstracts` in two files; the last row of one has no text."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    shutil.copytree(pipeline, tmp_path / "linker")
    (tmp_path / "abstracts").mkdir()
    for part in range(2):
        texts = [*TEXTS * 3, None if part else TEXTS[0]]
        table = pyarrow.table({"pmid": [100 * part + i for i in range(len(texts))], "text": texts})
        parquet.write_table(table, tmp_path / "abstracts" / f"{part}.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("heading", "module"),
    [
        ("Ray Data", "ray"),
        ("Spark", "pyspark"),
        ("Dask", "dask"),
        ("Hugging Face datasets", "datasets"),
    ],
)
def test_the_example_links_as_one_process_does(folder, pipeline, heading, module):
    if find_spec(module) is None:
        pytest.skip(f"no {module}")
    from pyarrow import parquet

    code = BEFORE.get(heading, "") + example(heading)
    script = folder / "example.py"
    script.write_text(MAIN + "".join(f"    {line}\n" for line in code.splitlines()))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}  # of Spark's workers, which else are any python3
    done = subprocess.run(
        [sys.executable, script], cwd=folder, env=environment, capture_output=True, text=True, timeout=1400
    )
    assert done.returncode == 0, done.stderr[-3000:]

    expected = LinkBatch(str(pipeline))(parquet.read_table(folder / "abstracts")).to_pylist()
    found = parquet.read_table(folder / "linked").to_pylist()
    found = sorted(({key: row[key] for key in expected[0]} for row in found), key=lambda row: row["pmid"])
    assert [comparable(row) for row in found] == [comparable(row) for row in expected]
    assert len(found) == 38 and "missing" in found[-1]["error"] and len(found[0]["ents"]) == 2


def comparable(row):
    """Scores are rounded: batches of other sizes differ in their last digits."""
    ents = row["ents"]
    if ents is not None:
        candidates = [[(one["id"], round(one["score"], 3)) for one in ent["kb_ents"]] for ent in ents]
        ents = [{**ent, "kb_ents": sorted(each)} for ent, each in zip(ents, candidates)]
    return {**row, "ents": ents}
