"""Errors by remedy: a new kind exists only where the caller would act differently.

    ArgosyError
    ├── Invalid      400  the request is wrong: mend it, do not retry
    ├── Unauthorized 401  say who you are
    ├── Forbidden    403  not for you, or not open at all
    ├── NotFound     404  there is no such thing
    ├── Conflict     409  somebody else was first: look again, then decide
    ├── Gone         410  the history you ask for is no longer kept: list again
    ├── NotOwner     421  ask the node in the hint
    ├── Throttled    429  come back after `retry_after_s`
    └── Unavailable  503  a store or node is away: retry with back-off
        └── Fenced   503  you have been replaced: stop, never retry

A message says what happened and what to do, in lower case, values included. A broken invariant is an assertion, not one
of these.
"""

from typing import ClassVar


class ArgosyError(Exception):
    """Root of the tree; never raised itself."""

    status: ClassVar[int] = 500


class Invalid(ArgosyError):
    """The request is wrong; the same request will always be wrong."""

    status = 400


class Unauthorized(ArgosyError):
    """The caller has not shown who it is."""

    status = 401


class Forbidden(ArgosyError):
    """The caller may not do this."""

    status = 403


class NotFound(ArgosyError):
    """There is no such thing."""

    status = 404


class Conflict(ArgosyError):
    """The state is not what the caller thought: somebody else was first."""

    status = 409


class Gone(ArgosyError):
    """What the caller wants to continue from is no longer kept: it must start anew."""

    status = 410


class NotOwner(ArgosyError):
    """This node does not hold the unit; `hint` is the address that last did, as far as this node knows."""

    status = 421

    def __init__(self, message: str, *, hint: str | None = None, node: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.node = node


class Throttled(ArgosyError):
    """Too much at once; come back after `retry_after_s`."""

    status = 429

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Unavailable(ArgosyError):
    """Something this call needs cannot be reached just now; the call may or may not have taken effect."""

    status = 503


class Fenced(Unavailable):
    """The caller's lease or session is no longer the newest: it has been replaced and must stop."""
