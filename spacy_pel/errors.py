"""What a user can put right: the one error type."""


class PelError(ValueError):
    """Bad input or a missing step. Its message is one sentence that names the file, line, id or config key and says
    what to do; the command line prints it as it is."""
