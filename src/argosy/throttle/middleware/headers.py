"""The response headers: when to retry, and what remains until then.

`RateLimit` and `RateLimit-Policy` follow draft-ietf-httpapi-ratelimit-headers-09 (the form since draft 08): lists of
named items, a policy with its quota `q` and window `w`, a limit with the remaining `r` and the seconds `t` until there
is more. A fair throttle has no quota to promise, so it sends no policy, and a limit only with a refusal.
"""

from math import ceil

from argosy.base.errors import Invalid

POLICY = "ratelimit-policy"
LIMIT = "ratelimit"
THROTTLED = "x-argosy-throttled"  # marks refusals of the middleware as opposed to the application's, and shadow mode
SHADOW = "shadow"

NAME_LENGTH_MAX = 64
_INTEGER_MAX = 10**15 - 1  # of a structured field (RFC 9651)


def policy_item(name: str, *, quota: int, window_s: float) -> str:
    """The policy of a client: the same in every response."""
    return f"{_string(name)};q={_integer(quota)};w={_integer(window_s)}"


def limit_item(name: str, *, remaining: int, reset_s: float) -> str:
    """What a client may do at the moment."""
    return f"{_string(name)};r={_integer(remaining)};t={_integer(reset_s)}"


def check_name(name: str) -> str:
    """Validates the name of a policy: a string of a structured field."""
    if not 0 < len(name) <= NAME_LENGTH_MAX or not (name.isascii() and name.isprintable()):
        raise Invalid(f"the name of a policy is 1 to {NAME_LENGTH_MAX} printable ASCII characters, not {name!r}")
    return name


def _string(name: str) -> str:
    escaped = check_name(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _integer(value: float) -> int:
    return min(max(ceil(value), 0), _INTEGER_MAX)
