"""The errors of all packages, by kind: two kinds differ only if the caller should act differently.

    ArgosyError
    ├── Invalid      400  the request is invalid: fix it, do not retry
    ├── Unauthorized 401  missing or wrong credentials
    ├── Forbidden    403  permission denied
    ├── NotFound     404  not found
    ├── Conflict     409  the state has changed: read it again, then decide
    ├── Gone         410  the history is past its retention: list again
    ├── NotOwner     421  retry at the node in `hint`
    ├── Throttled    429  retry after `retry_after_s`
    └── Unavailable  503  a store or node is unreachable: retry with back-off
        └── Fenced   503  a newer holder exists: stop, never retry

A message states what failed and how to fix it, in lower case, with the values: `<what failed>: <cause>; <fix>`. A
broken invariant is an assertion, not one of these.
"""

from typing import ClassVar


class ArgosyError(Exception):
    """Base class; never raised itself."""

    status: ClassVar[int] = 500


class Invalid(ArgosyError):
    """The request is invalid, and will be invalid again when repeated."""

    status = 400


class Unauthorized(ArgosyError):
    """The caller sent no valid credentials."""

    status = 401


class Forbidden(ArgosyError):
    """The caller lacks permission, or the operation is disabled."""

    status = 403


class NotFound(ArgosyError):
    """The named object does not exist."""

    status = 404


class Conflict(ArgosyError):
    """The state has changed since the caller read it, or the object already exists."""

    status = 409


class Gone(ArgosyError):
    """The position to continue from is past its retention: the caller must start with a full list."""

    status = 410


class NotOwner(ArgosyError):
    """This node does not own the unit; `hint` is the address of its last known owner."""

    status = 421

    def __init__(self, message: str, *, hint: str | None = None, node: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.node = node


class Throttled(ArgosyError):
    """The rate or capacity limit is reached; retry after `retry_after_s`."""

    status = 429

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Unavailable(ArgosyError):
    """A dependency of the call is unreachable; the call may or may not have taken effect."""

    status = 503


class Fenced(Unavailable):
    """The caller's lease or session has been replaced by a newer one (fencing): the caller must stop."""
