"""The one error type for what a user can put right."""

from __future__ import annotations


class PelError(ValueError):
    """Bad input or a missing step. Its message is one sentence that names the file, line, id or config key and says
    what to do; the command line prints it as it is."""
