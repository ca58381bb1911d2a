"""What a user can put right: the one error type."""

from .visible import visible


class PelError(ValueError):
    """Bad input or a missing step. Its message is one sentence that names the file, line, id or config key and says
    what to do; the command line prints it as it is."""

    def __str__(self) -> str:
        return visible(super().__str__(), keep="\n\t")


def first_line(error: Exception) -> str:
    """What another library says, without what follows, such as where in its code; the kind of error where it says
    nothing."""
    return next(iter(str(error).splitlines()), type(error).__name__)
