"""What the machine can and no loop says: 64 bytes compared at once, memory fetched ahead, arrays by their address.

A kernel that looks at many segments in one call takes a table of the addresses of their arrays (`index/roll.py`), and
`bytes_at` and its like make arrays of them again. Whoever passes a table keeps the arrays.
"""

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

from argosy.search.kernels.compiling import helper

WINDOW = 64  # positions compared at once: a bit each
FETCH_BYTES = 64  # come from memory together


@intrinsic
def equal(_: Any, data: Any, at: Any, byte: Any, fold: Any) -> tuple[Any, Callable[..., Any]]:
    """Which of the 64 bytes of `data` from `at` on are `byte` once they are or-ed with `fold`: the lowest bit first.

    Written as vector instructions, because no loop makes the compiler gather flags in a word.
    """
    vector = ir.VectorType(ir.IntType(8), WINDOW)
    first = ir.Constant(ir.VectorType(ir.IntType(32), WINDOW), [0] * WINDOW)

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        def in_every_place(value: Any) -> Any:
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(one, one, first)

        start = builder.gep(context.make_array(signature.args[0])(context, builder, values[0]).data, [values[1]])
        text = builder.load(builder.bitcast(start, vector.as_pointer()), align=1)
        folded = builder.or_(text, in_every_place(values[3]))
        return builder.bitcast(builder.icmp_unsigned("==", folded, in_every_place(values[2])), ir.IntType(WINDOW))

    return numba.uint64(data, numba.uintp, numba.uint8, numba.uint8), build


@intrinsic
def lowest(_: Any, word: Any) -> tuple[Any, Callable[..., Any]]:
    """The place of the lowest set bit; there is one."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.cttz(values[0], ir.Constant(ir.IntType(1), 1))

    return numba.int64(numba.uint64), build


@intrinsic
def fetch(_: Any, data: Any, at: Any) -> tuple[Any, Callable[..., Any]]:
    """Has the processor bring the bytes at a place nearer; they need not be there."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        start = builder.gep(context.make_array(signature.args[0])(context, builder, values[0]).data, [values[1]])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [start.type, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [start.type], kind)
        builder.call(fetch, [start, number(0), number(3), number(1)])  # to read, often, data
        return context.get_dummy_value()

    return numba.void(data, numba.uintp), build


def _pointer(item: Any) -> Any:
    """What turns an address into a pointer to such items."""

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
