"""The forms under which entities are looked up by name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from hashlib import blake2b


def normalized(text: str) -> str:
    """`text` with case, compatibility forms of characters, punctuation and the amount of white space set aside; of a
    text that is nothing but those, its case only."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", folded)) or folded.strip()


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
