"""Error replies of a server, as `Unavailable` with advice. No message contains a password."""

import os

from argosy.base.errors import Unavailable
from argosy.base.redact import redact

ALL_COMMANDS = "all commands on its keys"  # what a user needs, unless the store says it more exactly

# By the first word of the reply.
_ADVICE = {
    "OOM": "is out of memory, nothing was written; raise its maxmemory",
    "READONLY": "is a replica, nothing was written; set the URL to the primary",
    "MOVED": "is one node of a cluster, and another one has this key; use a URL with redis+cluster://",
    "ASK": "is a cluster that is migrating this slot; retry when it is migrated",
    "TRYAGAIN": "is a cluster that is migrating this slot; retry when it is migrated",
    "CLUSTERDOWN": "is a cluster that is down; repair it, then retry",
    "CROSSSLOT": "is a cluster, and the keys of one script are on several nodes; use a server without cluster mode",
    "LOADING": "is still loading its data, nothing was written; retry later",
    "MISCONF": "cannot save to disk and rejects writes, nothing was written; see the log of the server",
    "BUSY": "is blocked by a long script; retry later",
    "MASTERDOWN": "is a replica that has lost its primary; set the URL to the primary",
    "NOREPLICAS": "has too few replicas to write, nothing was written; restore the replicas",
    "NOAUTH": "requires a password; add it to the URL",
    "WRONGPASS": "rejected the login; check the user and the password in the URL",
}
_LOGIN = "AUTH"  # `ERR AUTH <password> called without any password configured…`


class ReplyError(Exception):
    """An error reply, as the server sent it. `code` is its first word."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = text.partition(" ")[0]

    @property
    def has_done_nothing(self) -> bool:
        """Whether the command may be sent again: the server does not know the script, or is the wrong one."""
        return self.code in ("NOSCRIPT", "ASK") or self.is_elsewhere

    @property
    def is_elsewhere(self) -> bool:
        """Whether another server would have done it; this one did nothing."""
        return self.code in ("READONLY", "MOVED", "MASTERDOWN")


def reply_unavailable(name: str, error: ReplyError, *, permissions: str = ALL_COMMANDS) -> Unavailable:
    """The error to raise for a reply that the store cannot handle."""
    text = str(error)
    advice = _ADVICE.get(error.code)
    if error.code == "NOPERM":
        advice = f"denied permission to this user; grant it {permissions}"
    elif advice is None and ("invalid password" in text or _LOGIN in text.split()[:2]):
        advice = _ADVICE["WRONGPASS"]
    return Unavailable(f"redis at {name} {advice or 'returned an error; see its log'} ({redact(text)[:200]})")


def unreachable(name: str, cause: object, *, may_have_happened: bool) -> Unavailable:
    """The error for a server without a connection, or whose connection broke while a reply was due."""
    text = redact(_cause_text(cause))[:200] or type(cause).__name__
    fate = "; the call may or may not have taken effect" if may_have_happened else ""
    advice = "check that it is running and that the URL is correct"
    return Unavailable(f"redis at {name} unreachable: {text}{fate}; {advice}")


def _cause_text(cause: object) -> str:
    """`connection refused` instead of asyncio's `[Errno 111] Connect call failed ('127.0.0.1', 6379)`."""
    if isinstance(cause, ConnectionError) and cause.errno:
        return os.strerror(cause.errno).lower()
    return str(cause)
