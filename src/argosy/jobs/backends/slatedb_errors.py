"""What SlateDB's errors mean to us, by remedy."""

from slatedb.uniffi import CloseReason, Error  # type: ignore[import-untyped]

from argosy.base.errors import ArgosyError, Fenced, Invalid, Unavailable

SlateError: type[Exception] = Error


def error_from_slatedb(error: Exception, *, store: str) -> ArgosyError:
    """The error to raise in place of one of SlateDB's; `store` is the shard's place in its store."""
    text = str(getattr(error, "message", error))
    match error:
        case Error.Closed(reason=CloseReason.FENCED):
            return Fenced(f"another writer has opened {store}: this one must stop")
        case Error.Closed():
            return Unavailable(f"{store} is closed: open it anew ({text})")
        case Error.Invalid():
            return Invalid(f"{store} refuses this: {text}")
        case Error.Data():
            return Unavailable(f"{store} cannot be read, its files are damaged or of another version: {text}")
        case _:
            return Unavailable(f"{store} does not answer: open it anew once its storage is back ({text})")
