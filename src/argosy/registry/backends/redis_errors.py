"""What a server's complaints mean, in the house's words: what happened and what to do. No password is ever shown."""

from argosy.base.errors import Unavailable
from argosy.base.redact import redact

# By the first word of the reply.
_ADVICE = {
    "OOM": "has reached maxmemory, nothing was written: raise maxmemory or prune",
    "READONLY": "is a read-only replica, nothing was written: connect to the primary",
    "MOVED": "is a cluster whose nodes disagree about where the registry is: retry",
    "ASK": "is a cluster that is moving the registry's slot: retry when it has moved",
    "TRYAGAIN": "is a cluster that is moving the registry's slot: retry when it has moved",
    "CLUSTERDOWN": "is a cluster that is down: mend it, then retry",
    "LOADING": "is still loading its data, nothing was written: retry in a while",
    "MISCONF": "cannot save to disk and refuses writes, nothing was written: free the disk or see the server's log",
    "BUSY": "is held up by a long script: retry, or see who runs it",
    "MASTERDOWN": "is a replica that has lost its primary: connect to the primary",
    "NOREPLICAS": "has too few replicas to write, nothing was written: bring them back",
    "NOAUTH": "wants a password: put it into the URL",
    "WRONGPASS": "refused the login: check the user and the password in the URL",
    "NOPERM": "does not allow this user to do that: give it all commands on the registry's keys",
}
_LOGIN = "AUTH"  # `ERR AUTH <password> called without any password configured…`


class Refused(Exception):
    """An error reply, as the server said it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = text.partition(" ")[0]

    @property
    def is_harmless(self) -> bool:
        """Whether the server did nothing, and may do it yet."""
        return self.code == "NOSCRIPT" or self.is_elsewhere

    @property
    def is_elsewhere(self) -> bool:
        """Whether another server would have done it; this one did nothing."""
        return self.code in ("READONLY", "MOVED", "MASTERDOWN")


def unavailable(name: str, error: Refused) -> Unavailable:
    """The error to raise for a reply that the registry cannot do anything about."""
    text = str(error)
    advice = _ADVICE.get(error.code)
    if advice is None and ("invalid password" in text or _LOGIN in text.split()[:2]):
        advice = _ADVICE["WRONGPASS"]
    return Unavailable(f"redis at {name} {advice or 'answered with an error: see its log'} ({redact(text)[:200]})")


def away(name: str, cause: object, *, may_have_happened: bool) -> Unavailable:
    """The error for a server that cannot be reached, or was lost while it owed an answer."""
    fate = ", the call may or may not have taken effect" if may_have_happened else ""
    shown = redact(str(cause))[:200] or type(cause).__name__
    advice = "check that it runs and that the URL is right, then retry"
    return Unavailable(f"redis at {name} is away{fate}: {advice} ({shown})")
