"""Handlers: the functions a worker calls, and the decorator that makes one known before there is a worker.

    @job("mail")
    async def send_mail(payload, context): ...

A handler takes the payload, and the context as a second argument if it wants it. What it returns is the job's result.
"""

import inspect
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from argosy.base.errors import Invalid
from argosy.jobs.model import Failure
from argosy.jobs.sdk.payload_codec import pack

F = TypeVar("F", bound=Callable[..., Any])

HANDLER_ERROR = "HANDLER_ERROR"  # the code of a failure that was an exception
MESSAGE_CHARS_MAX = 2_000
TRACEBACK_CHARS_MAX = 8_000  # its end, where the cause is
_MARK = "_argosy_task_group"


@dataclass(frozen=True)
class Handler:
    """Whether it is async and wants the context is read off its signature once."""

    task_group: str
    function: Callable[..., Any]
    is_async: bool
    wants_context: bool


def job(task_group: str) -> Callable[[F], F]:
    """Marks a function as the handler of a group; it stays an ordinary function."""

    def mark(function: F) -> F:
        setattr(function, _MARK, task_group)
        return function

    return mark


def handler_of(task_group: str, function: Callable[..., Any]) -> Handler:
    positional = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if len(positional) not in (1, 2):
        raise Invalid(
            f"the handler of {task_group!r} must take the payload and, if it likes, the context; "
            f"it takes {len(positional)} arguments"
        )
    return Handler(task_group, function, inspect.iscoroutinefunction(function), len(positional) == 2)


def find_marked(things: Iterable[object]) -> list[Handler]:
    """The handlers among some things: those with the decorator `job`."""
    return [handler_of(getattr(thing, _MARK), thing) for thing in things if callable(thing) and hasattr(thing, _MARK)]


def failure_of(error: BaseException) -> Failure:
    """What is told of an exception: never more than the bounds, whatever it drags along."""
    trace = "".join(traceback.format_exception(error))
    return Failure(
        HANDLER_ERROR,
        pack(
            {
                "type": type(error).__name__,
                "message": str(error)[:MESSAGE_CHARS_MAX],
                "traceback": trace[-TRACEBACK_CHARS_MAX:],
            }
        ),
    )
