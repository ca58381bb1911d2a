"""The pages of docs/ and the README, run as their reader would, on a small linker over the quickstart's KB."""

from __future__ import annotations

import pkgutil
import re
import shutil
from pathlib import Path

import pytest
import srsly
from confection import Config, ConfigValidationError
from pages import run
from project_files import ROOT, load_script
from tiny import make_pipeline, train, write_encoder
from typer import BadParameter
from typer.main import get_command
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.pipeline.factory import DEFAULT_CONFIG
from spacy_pel.pipeline.linker import PelLinker
from spacy_pel.search.explanation import Explanation, Parts, ScoredEntity
from spacy_pel.tuning.calibration import Calibration
from spacy_pel.tuning.tuned import Tuned

README = ROOT / "README.md"
(UsageError,) = BadParameter.__bases__  # of click, which newer versions of typer bring along
QUICKSTART = Path("projects", "quickstart")
PAGES = sorted((ROOT / "docs").rglob("*.md"))
API = [page for page in PAGES if page.parent.name == "api"]
MS, MITRAL, SEIZURE = "C0026769", "C0026269", "C0036572"
SENTENCES = [
    ("Her MS began with optic neuritis and vertigo.", {"MS": MS}),
    ("The valve narrowed by MS was replaced.", {"MS": MITRAL}),
    ("Mitral stenosis and seizure followed stroke.", {"Mitral stenosis": MITRAL, "seizure": SEIZURE}),
]
RANDOM = {"@misc": "spacy_pel.RandomNegatives.v1", "n": 8}


hooks = load_script(ROOT / "docs" / "hooks.py", "docs_hooks")
COMMANDS = hooks.leaves(get_command(pel_app))


def pel(*arguments):
    result = CliRunner().invoke(pel_app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """The quickstart after its command has been run, with a tiny encoder that knows the sentences of the pages."""
    root = tmp_path_factory.mktemp("checkout")
    folder = root / QUICKSTART
    for part in ("configs", "data", "project.yml"):
        copy = shutil.copytree if (ROOT / QUICKSTART / part).is_dir() else shutil.copy
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / QUICKSTART / part, folder / part)
    encoder = write_encoder(folder / "assets" / "encoder")
    for split in ("train", "dev", "test"):
        pel(
            "convert",
            folder / "data" / f"{split}.pubtator",
            folder / "corpus" / f"{split}.spacy",
            "--format",
            "pubtator",
        )
    pel("build-kb", folder / "data" / "kb.jsonl", folder / "kb")
    settings = {"negatives": RANDOM, "adversarial": None, "save_kb": False, "model": {"context": 3}}
    nlp, linker, examples, optimizer = make_pipeline(encoder, KnowledgeBase(folder / "kb"), SENTENCES, **settings)
    train(nlp, examples, optimizer, steps=60)
    linker.tuned = Tuned(nil_threshold=0.0, calibration=Calibration(20.0, 0.0))
    (folder / "training").mkdir()
    nlp.to_disk(folder / "training" / "model-last")
    pel("index", folder / "training" / "model-last", folder / "kb", folder / "linker")
    srsly.write_json(folder / "linker" / "pel_linker" / "cfg", linker.tuned.to_dict())
    shutil.copytree(ROOT / "projects" / "catalogue" / "data", root / "projects" / "catalogue" / "data")
    shutil.copy(folder / "data" / "kb.jsonl", root / "entities.jsonl")
    shutil.copy(folder / "data" / "train.pubtator", root / "annotated.pubtator")
    return root


@pytest.fixture
def copied(checkout, tmp_path):
    return shutil.copytree(checkout, tmp_path / "checkout")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_page_runs(copied, monkeypatch, page):
    monkeypatch.chdir(copied / QUICKSTART)
    run(page, Path("configs", "train.cfg"))


def test_the_readme_runs(copied, monkeypatch):
    monkeypatch.chdir(copied)
    run(README, QUICKSTART / "configs" / "train.cfg")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```python\nprint(1.5)\nprint('a')\n```\n\n<!-- prints -->\n```text\n2.5\nb\n```\n", AssertionError),
        ("```bash\npython -m spacy pel kb info nosuch\n```\n", AssertionError),
        ("<!-- not run -->\n```bash\npython -m spacy pel index a b c --fast\n```\n", UsageError),
        ("```bash\npython -m spacy trian\n```\n", AssertionError),
        ("```ini\n[components.pel_linker]\ntop = 3\n```\n", ConfigValidationError),
        ('```ini\n[training.optimizer]\n@optimizers = "spacy_pel.AdamW.v1"\nbeta = 1\n```\n', ConfigValidationError),
        ("```ini\n[training]\nmax_epoch = 3\n```\n", AssertionError),
    ],
)
def test_what_does_not_hold_is_found(tmp_path, monkeypatch, text, error):
    monkeypatch.chdir(tmp_path)
    Path("page.md").write_text(text, encoding="utf-8")
    with pytest.raises(error):
        run(Path("page.md"), ROOT / QUICKSTART / "configs" / "train.cfg")


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, heading = target.partition("#")
        if "://" not in target:
            linked = page.parent / path if path else page
            assert linked.exists(), f"{page.name}: {target}"
            assert not heading or heading in headings(linked), f"{page.name}: {target}"


def headings(page: Path) -> set[str]:
    """The headings of a page, as GitHub's anchors."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_the_api_pages_name_every_registered_function_once():
    named = [name for page in API for name in hooks.REGISTERED.findall(page.read_text(encoding="utf-8"))]
    assert sorted(named) == sorted(hooks.entry_points())


def test_the_api_pages_say_where_they_are_read_but_there():
    for page in API:
        text = page.read_text(encoding="utf-8")
        assert text.count(hooks.READ_HERE) == 1 and hooks.READ_HERE not in hooks.expand(text), page


def test_what_the_api_pages_name_is_there_and_documented():
    text = "\n".join(hooks.expand(page.read_text(encoding="utf-8")) for page in API)
    paths = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    named = [pkgutil.resolve_name(":".join(path.rsplit(".", 1))) for path in paths]
    assert all(target.__doc__ for target in named)
    assert {PelLinker, KnowledgeBase, Entity, Explanation, ScoredEntity, Parts, PelError} <= set(named)


def test_the_config_page_has_every_setting():
    page = hooks.expand((ROOT / "docs" / "api" / "config.md").read_text(encoding="utf-8"))
    shown = re.search(r"```ini\n(.*?)```", page, re.DOTALL)[1]
    config = Config().from_str("[components]\n" + shown)
    assert config["components"]["pel_linker"] == {"factory": "pel_linker", **DEFAULT_CONFIG}


def test_every_command_is_described_option_by_option():
    page = hooks.expand((ROOT / "docs" / "api" / "commands.md").read_text(encoding="utf-8"))
    sections = re.split(r"^## (.*)$", page, flags=re.MULTILINE)
    described = dict(zip(sections[1::2], sections[2::2]))
    assert described.keys() == COMMANDS.keys()
    for name, command in COMMANDS.items():
        assert f"python -m spacy pel {name} " in described[name] and "Example: `" in described[name]
        for param in command.params:
            left = ", ".join(param.opts) if param.param_type_name == "option" else hooks.placeholder(param)
            assert f"| `{left}` | {param.help.split('|')[0]}" in described[name]


def test_the_table_of_commands_has_each_once():
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `python -m spacy pel ((?:kb )?[a-z-]+)", text, re.MULTILINE)
    assert len(shown) == len(set(shown)) and set(shown) == COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_an_example(name):
    result = CliRunner().invoke(pel_app, [*name.split(), "--help"])
    assert result.exit_code == 0 and f"Example: python -m spacy pel {name}" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("page", "link", "turned"),
    [
        ("link.md", "[a](nil.md#set-it)", "[a](nil.md#set-it)"),
        ("api/kb.md", "[a](../own-kb.md)", "[a](../own-kb.md)"),
        ("link.md", "[a](../README.md#link)", "[a](REPO/blob/main/README.md#link)"),
        ("index.md", "![a](../projects/p/figures/b.svg)", "![a](figures/p/b.svg)"),
        ("api/kb.md", "![a](../../projects/p/figures/b.svg)", "![a](../figures/p/b.svg)"),
    ],
)
def test_links_out_of_the_site_lead_somewhere(page, link, turned):
    assert hooks.turn_links(link, page, "REPO") == turned


def test_links_out_of_the_site_are_text_without_a_repository():
    assert hooks.turn_links("see [the bench](../projects/kb_scale)", "link.md", "") == "see the bench"
