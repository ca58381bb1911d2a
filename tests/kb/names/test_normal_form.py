"""The forms under which names are looked up, and the names that an entity has once."""

from __future__ import annotations

import re
import unicodedata

import pytest

from spacy_pel.kb.names.normal_form import distinct_forms, distinct_names, normalized


@pytest.mark.parametrize(
    ("names", "distinct"),
    [
        (["Fever", "", " \t", "fever"], ["Fever"]),
        (["", "Fever", "Pyrexia"], ["Fever", "Pyrexia"]),
        (["+/-", " "], ["+/-"]),
        ([" ", ""], [" "]),
    ],
)
def test_a_blank_name_counts_only_where_there_is_no_other(names, distinct):
    assert distinct_names(names[0], names[1:]) == distinct
    assert distinct_forms(names[0], names[1:]) == [name.strip().lower() for name in distinct]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("दिल, दाल", "दिल दाल"),
        ("ไข้-ไข่", "ไข้ ไข่"),
        ("مُحَمَّد", "مُحَمَّد"),
        ("Ẹ̀kọ́", "ẹ̀kọ́"),
        ("İzmir", "i̇zmir"),
        ("cafe\u0301 — 10⁵", "café 105"),
        ("5´-end, \u0301a", "5 end a"),
    ],
)
def test_a_mark_is_part_of_its_word(text, form):
    assert normalized(text) == unicodedata.normalize("NFKC", form)


def before_marks_counted(text):
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", folded)) or folded.strip()


def test_names_in_latin_letters_and_emoji_are_read_as_ever():
    latin = [chr(point) for point in (*range(32, 0x250), *range(0x1E00, 0x1F00))]
    texts = [f"a{letter}b {letter}" for letter in latin] + [
        "❤️",
        "a ❤️ b",
        "1️⃣",
        "葛\U000e0100城",
        "IL-2 “α’s”",
        "+/-",
        "👍🏽",
    ]
    other = {text for text in texts if normalized(text) != before_marks_counted(text)}
    of_marks = "İǰẖẗẘẙ"  # whose lower case has a mark of its own
    assert other == {f"a{letter}b {letter}" for letter in (*of_marks, "\u00ad")}


@pytest.mark.parametrize("invisible", ["\u00ad", "\u200b", "\u2060", "\ufeff"])
def test_what_nobody_sees_parts_no_word(invisible):
    assert normalized(f"cardio{invisible}myopathy TNF{invisible}α") == "cardiomyopathy tnfα"


def test_case_is_set_aside_of_every_letter():
    letters = map(chr, (*range(0x80, 0x2000), *range(0xFB00, 0xFB18)))
    assert [one for one in letters if normalized(one) != normalized(normalized(one))] == []
    assert [one for one in "ΐΰßŉǰﬃ" if normalized(one) != normalized(one.upper())] == []
