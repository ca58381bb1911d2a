"""Text of others, made safe to print: a terminal obeys some characters instead of showing them."""

from __future__ import annotations

import re

# Control characters, those that turn the direction of writing or break lines, and lone surrogates, which stand for the
# bytes of a file name that is not UTF-8.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str, keep: str = "") -> str:
    """`text` with each character that a terminal would obey written as its escape, but for those in `keep`."""
    return UNSAFE.sub(lambda match: match[0] if match[0] in keep else _escaped(match[0]), text)


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape", "surrogatepass").decode()
