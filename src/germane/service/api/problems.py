"""What goes wrong in a request: a status, a sentence, and no traceback."""

from typing import Any

from germane.model import ConditionError, GermaneError


class Problem(Exception):
    """A request that is not answered as it was meant."""

    def __init__(self, status: int, error: str, headers: dict[str, str] | None = None, **more: Any):
        super().__init__(error)
        self.status = status
        self.headers = headers
        self.body = {"error": error, **more}


def of_germane(error: GermaneError, status: int = 422) -> Problem:
    """A refusal of the library, with the position where it is one of a condition."""
    if isinstance(error, ConditionError):
        return Problem(status, str(error), position=error.position)
    return Problem(status, str(error))


def not_there(what: str) -> Problem:
    """Nothing of that name, or nothing that the asker may know of."""
    return Problem(404, f"there is no {what}")
