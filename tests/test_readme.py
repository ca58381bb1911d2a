"""What the README shows is run: its example, on a linker over the quickstart's KB."""

from __future__ import annotations

import re
from pathlib import Path

from tiny import make_pipeline, write_encoder

from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.kb.readers.jsonl import read_jsonl

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
KB = ROOT / "projects" / "quickstart" / "data" / "kb.jsonl"


def block(language: str, after: str = "") -> str:
    found = re.search(rf"{re.escape(after)}\s*```{language}\n(.*?)```", README, re.DOTALL)
    assert found, f"README.md has no {language} block after {after!r}"
    return found[1]


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    encoder = write_encoder(tmp_path / "encoder")
    kb = KnowledgeBase.create(tmp_path / "kb", read_jsonl(KB))
    known = [("MS was found .", {"MS": "C0026269"})]
    nlp, linker, *_ = make_pipeline(encoder, kb, known)
    linker.index()
    (tmp_path / "projects" / "quickstart").mkdir(parents=True)
    nlp.to_disk(tmp_path / "projects" / "quickstart" / "linker")
    monkeypatch.chdir(tmp_path)
    code = block("python", after="<!-- example -->")
    assert len(code.strip().splitlines()) <= 16
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[::3]] == ["MS", "vertigo", "MS"]
    assert [line.split()[1] for line in lines[1::3]] == ["→"] * 3
    assert len(lines) == 9 and all(line.split()[1] in kb for line in lines if line.startswith(" "))
    exec(compile(block("python", after="<!-- rendered -->"), "README.md", "exec"), names)
    page = (tmp_path / "links.html").read_text()
    assert page.count("<mark") == 2 and 'href="https://uts.nlm.nih.gov/uts/umls/concept/C' in page


def test_the_front_page_stays_short():
    assert len(README.splitlines()) <= 130
