"""What terminals obey is shown, not obeyed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import spacy_pel
from spacy_pel.errors import PelError
from spacy_pel.visible import visible


@pytest.mark.parametrize(
    "text, shown",
    [
        ("plain β-Amyloid 心筋梗塞 💔", "plain β-Amyloid 心筋梗塞 💔"),
        ("\x1b]0;owned\x07\x1b[2J", r"\x1b]0;owned\x07\x1b[2J"),
        ("a\u202eb\u2066c\u2028d", r"a\u202eb\u2066c\u2028d"),
        ("\x9b31m\x7f\r\n\t", r"\x9b31m\x7f\r\n\t"),
        ("caf\udce9 \ud800", r"caf\xe9 \ud800"),
    ],
)
def test_visible(text, shown):
    assert visible(text) == shown and visible(shown) == shown


def test_what_is_kept():
    assert visible("a\nb\tc\x1b", keep="\n\t") == "a\nb\tc\\x1b"


def test_errors_are_visible():
    assert str(PelError("the id \x1b[31mX is bad")) == r"the id \x1b[31mX is bad"


PRINTS = re.compile(
    r"\b(wasabi|rich|secho|(typer|click)\.echo|from (typer|click) |sys\.std(out|err)|tqdm\.write)\b|\bprint\("
)
PRINTED = {  # no text for a terminal, or visible
    ("ground.py", "sys.stdout.buffer.write(data)"),
    ("ground.py", "sys.stdout.buffer.flush()"),
    ("link.py", "os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())"),
    ("link_report.py", "tqdm.write(visible(message), file=sys.stderr)"),
}


def test_all_commands_print_through_it():
    files = [file for file in Path(spacy_pel.__file__).parent.glob("cli/*.py") if file.name != "printing.py"]
    lines = {(file.name, line.partition("  #")[0].strip()) for file in files for line in file.read_text().splitlines()}
    assert {(name, line) for name, line in lines if PRINTS.search(line)} == PRINTED
