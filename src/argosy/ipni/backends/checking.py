"""What every store refuses, before it changes anything."""

from argosy.base.errors import Invalid
from argosy.ipni.model import CONTEXT_BYTES_MAX, METADATA_BYTES_MAX, IndexValue


def check_value(value: IndexValue) -> None:
    if len(value.context) > CONTEXT_BYTES_MAX:
        raise Invalid(f"a context id has up to {CONTEXT_BYTES_MAX} bytes, not {len(value.context)}")
    if len(value.metadata) > METADATA_BYTES_MAX:
        raise Invalid(f"metadata has up to {METADATA_BYTES_MAX} bytes, not {len(value.metadata)}")
