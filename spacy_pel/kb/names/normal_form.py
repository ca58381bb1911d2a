"""The forms under which entities are looked up by name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from hashlib import blake2b

MARKS = ("Mn", "Mc")  # categories of Unicode
VARIANTS = re.compile(r"[\ufe00-\ufe0f\U000e0100-\U000e01ef]")  # marks that choose between pictures of one character
INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")  # within words: soft hyphens and spaces of no width
PERHAPS_MARKS = re.compile(r"[^\w\x00-\xbf\u2000-\u206f]")  # no letters, nor the usual punctuation


def normalized(text: str) -> str:
    """`text` with case, compatibility forms of characters, punctuation and the amount of white space set aside; of a
    text that is nothing but those, its case only."""
    folded = fold(text)
    if PERHAPS_MARKS.search(folded):
        words = "".join(one if kept else " " for one, kept in zip(folded, in_words(folded), strict=True)).split()
    else:
        words = re.findall(r"\w+", folded)
    return " ".join(words) or folded.strip()


def fold(text: str) -> str:
    """`text` with case, compatibility forms and invisible characters within words set aside."""
    if text.isascii():
        return text.casefold()
    folded = unicodedata.normalize("NFKC", INVISIBLE.sub("", text)).casefold()
    return unicodedata.normalize("NFKC", folded)  # which case folding has undone for some letters


def in_words(folded: str) -> Iterator[bool]:
    """Which characters of a text are of words: letters, digits, "_", and the marks on these, as some vowels are."""
    own = False
    for character in folded:
        own = character.isalnum() or character == "_" or (own and _is_mark(character))
        yield own


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in MARKS and not VARIANTS.match(character)


def distinct_forms(name: str, aliases: Iterable[str]) -> list[str]:
    """The names of an entity, normalised, each once; a blank one only where it has no other."""
    forms = dict.fromkeys(map(normalized, (name, *aliases)))
    return list(filter(None, forms)) or list(forms)


def distinct_names(name: str, aliases: Iterable[str]) -> list[str]:
    """The names of an entity as they are written: of those with the same normalised form the first, in the order of
    `distinct_forms`."""
    names: dict[str, str] = {}
    for one in (name, *aliases):
        names.setdefault(normalized(one), one)
    return [one for form, one in names.items() if form] or list(names.values())


def alias_key(text: str) -> int:
    """64 bits that equal normalised forms share: a third of what the forms themselves would take on disk."""
    return form_key(normalized(text))


def form_key(form: str) -> int:
    """The `alias_key` of the texts with this normalised form."""
    digest = blake2b(form.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
