"""Array types shared by the index, the kernels and the symbol extractor.

It imports none of them, so that each can name its arrays without importing another. `freeze` is part of the contract:
kernels are compiled for read-only arrays and reject writable ones. Index arrays are read by many threads at once, and a
write to one would change the results of a running search.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

U8: TypeAlias = npt.NDArray[np.uint8]
U16: TypeAlias = npt.NDArray[np.uint16]
U32: TypeAlias = npt.NDArray[np.uint32]
U64: TypeAlias = npt.NDArray[np.uint64]
I32: TypeAlias = npt.NDArray[np.int32]
I64: TypeAlias = npt.NDArray[np.int64]
F64: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]

# A block that ends inside a line also indexes this many of the following bytes. A literal is looked up by the trigrams
# of its first OVERLAP_BYTES bytes, so a longer value finds long literals more precisely and makes postings larger.
OVERLAP_BYTES = 128


def freeze(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns the array C-contiguous and read-only, as kernel signatures require; copies only if it must."""
    # Kernels are compiled for contiguous arrays, which numba indexes without strides.
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array
