"""Vector and pointer intrinsics: compares 64 bytes at once, prefetches memory, views arrays by address.

numba does not generate these from a loop, and no compiled extension of our own is needed for them. A kernel that reads
many segments per call takes a table of array addresses (`index/kernel_tables.py`), which `bytes_at` and its siblings
turn back into arrays. The caller must keep the arrays alive during the call.
"""

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

from argosy.search.kernels.compiler import helper

WINDOW = 64  # positions compared at once, one bit each
FETCH_BYTES = 64  # one cache line


@intrinsic
def equal(_: Any, data: Any, at: Any, byte: Any, fold: Any) -> tuple[Any, Callable[..., Any]]:
    """A mask of the 64 bytes of `data` from `at` on that equal `byte` after `| fold`; the lowest bit is the first byte.

    Written as vector instructions, because LLVM does not vectorize a loop that collects flags in a word.
    """
    vector = ir.VectorType(ir.IntType(8), WINDOW)
    first = ir.Constant(ir.VectorType(ir.IntType(32), WINDOW), [0] * WINDOW)

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        def in_every_place(value: Any) -> Any:
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(one, one, first)

        start = builder.gep(context.make_array(signature.args[0])(context, builder, values[0]).data, [values[1]])
        # Unaligned, because positions are arbitrary.
        text = builder.load(builder.bitcast(start, vector.as_pointer()), align=1)
        folded = builder.or_(text, in_every_place(values[3]))
        return builder.bitcast(builder.icmp_unsigned("==", folded, in_every_place(values[2])), ir.IntType(WINDOW))

    return numba.uint64(data, numba.uintp, numba.uint8, numba.uint8), build


@intrinsic
def lowest(_: Any, word: Any) -> tuple[Any, Callable[..., Any]]:
    """The position of the lowest set bit of a word that is not 0."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        # The flag declares 0 as undefined, so that LLVM emits the bare instruction.
        return builder.cttz(values[0], ir.Constant(ir.IntType(1), 1))

    return numba.int64(numba.uint64), build


@intrinsic
def fetch(_: Any, data: Any, at: Any) -> tuple[Any, Callable[..., Any]]:
    """Prefetches the bytes at a position, which may be out of bounds."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        start = builder.gep(context.make_array(signature.args[0])(context, builder, values[0]).data, [values[1]])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [start.type, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [start.type], kind)
        builder.call(fetch, [start, number(0), number(3), number(1)])  # read access, high locality, data cache
        return context.get_dummy_value()

    return numba.void(data, numba.uintp), build


def _pointer(item: Any) -> Any:
    """An intrinsic that turns an address into a pointer to items of this type."""

    @intrinsic
    def pointer(_: Any, address: Any) -> tuple[Any, Callable[..., Any]]:
        def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], context.get_value_type(signature.return_type))

        return numba.types.CPointer(item)(numba.int64), build

    return pointer


_byte_at, _short_at, _word_at, _long_at = map(_pointer, (numba.uint8, numba.uint16, numba.uint32, numba.uint64))


@helper
def bytes_at(address: int, size: int) -> Any:
    return numba.carray(_byte_at(address), (size,))


@helper
def shorts_at(address: int, size: int) -> Any:
    return numba.carray(_short_at(address), (size,))


@helper
def words_at(address: int, size: int) -> Any:
    return numba.carray(_word_at(address), (size,))


@helper
def longs_at(address: int, size: int) -> Any:
    return numba.carray(_long_at(address), (size,))
