"""Errors that a user can act on: shown as one message without a traceback."""


class UserError(Exception):
    """Something the user can mend; the message says where, what was wanted, what was found."""


class InputError(UserError, ValueError):
    """An input file, record or model that can't be used."""


def said(error: OSError) -> str:
    """What the system says of a file: its words and the file's name, without a number."""
    where = "" if error.filename is None else f": {error.filename}"
    return f"{error.strerror or error}{where}"
