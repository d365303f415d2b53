"""Sixty-four lanes at a time: compare a column of codes with one value, as one machine word.

In: a flat int16 array that holds, at some offset, 64 low codes followed by 64 high codes.
Out: a uint64 whose bit ``i`` says that the value lies between lane ``i``'s low and high.
LLVM turns the 64-wide comparison into whatever vectors the processor has (4 x 256 bits on
AVX2); nothing here depends on a processor.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 64
"""Rows in a block, blocks in a group, groups in a supergroup: one bit of a word each."""

_I16 = ir.IntType(16)
_I64 = ir.IntType(64)
_VECTOR = ir.VectorType(_I16, LANES)


def _load(builder: Any, data: Any, offset: Any) -> Any:
    place = builder.gep(data, [offset])
    vector = builder.load(builder.bitcast(place, _VECTOR.as_pointer()))
    vector.align = 2
    return vector


def _splat(builder: Any, value: Any) -> Any:
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(_I64, 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), zeros)


@intrinsic
def within(typing_context: Any, codes: Any, offset: Any, low: Any, high: Any) -> Any:
    """Bits of the lanes at ``codes[offset:]`` with lane_low <= low and high <= lane_high."""
    signature = types.uint64(codes, types.int64, types.int16, types.int16)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, args[0])
        offset_value = args[1]
        lows = _load(builder, array.data, offset_value)
        highs = _load(builder, array.data, builder.add(offset_value, ir.Constant(_I64, LANES)))
        above = builder.icmp_signed("<=", lows, _splat(builder, args[2]))
        below = builder.icmp_signed("<=", _splat(builder, args[3]), highs)
        return builder.bitcast(builder.and_(above, below), _I64)

    return signature, generate


@intrinsic
def prefetch(typing_context: Any, array: Any, offset: Any) -> Any:
    """Ask for the memory at ``array.flat[offset]`` ahead of its use; changes nothing."""
    signature = types.void(array, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        to_bytes = ir.IntType(8).as_pointer()
        place = builder.bitcast(builder.gep(data, [args[1]]), to_bytes)
        number = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [to_bytes, number, number, number]),
            "llvm.prefetch.p0",
        )
        to_read, keep, data_cache = (ir.Constant(number, n) for n in (0, 3, 1))
        builder.call(function, [place, to_read, keep, data_cache])
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """Position of the lowest set bit; undefined for zero."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_I64, [_I64, ir.IntType(1)]), "llvm.cttz.i64"
        )
        return builder.call(function, [args[0], ir.Constant(ir.IntType(1), 1)])

    return types.int64(types.uint64), generate


@intrinsic
def count_bits(typing_context: Any, word: Any) -> Any:
    """Number of set bits."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_I64, [_I64]), "llvm.ctpop.i64"
        )
        return builder.call(function, [args[0]])

    return types.int64(types.uint64), generate
