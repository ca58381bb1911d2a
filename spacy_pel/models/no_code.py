"""Loading with transformers, and never code that comes with the files."""

from __future__ import annotations

import textwrap
from typing import Any

# Without this, an `auto_map` in a configuration makes transformers ask on the terminal whether to run code.
NO_CODE = {"trust_remote_code": False}


def without_kernel(config: Any) -> Any:
    """The configuration without an attention of its own: that could name a kernel to download and run."""
    config._attn_implementation = None
    return config


def reason(error: Exception) -> str:
    """Why transformers could not load something, in one line."""
    text = str(error)
    if "trust_remote_code" in text:
        return "it comes with code of its own (`auto_map`), which is never run"
    first, *others = text.splitlines() or [type(error).__name__]
    said = " ".join([first, *others[:1]]) if first.endswith(":") else first  # that of torch says nothing by itself
    return textwrap.shorten(said, 160, placeholder=" …")
