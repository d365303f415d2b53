"""Sixty-four lanes at a time: compare a column of codes with one value, as one machine word.

In: a flat int16 array that holds, at some offset, 64 low codes followed by 64 high codes.
Out: a uint64 whose bit ``i`` says that the value lies between lane ``i``'s low and high.
LLVM turns the 64-wide comparison into whatever vectors the processor has (4 x 256 bits on
AVX2); nothing here depends on a processor.
"""

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

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
        return builder.ctpop(args[0])

    return types.int64(types.uint64), generate


class Depths(types.Type):
    """Sixty-four int16 in registers: how deep a value lies inside each lane's interval."""

    def __init__(self) -> None:
        super().__init__("Depths")


_DEPTHS = Depths()


@register_model(Depths)
class _DepthsModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _VECTOR)


@intrinsic
def deepest(typing_context: Any) -> Any:
    """The depths before any slot was looked at: as deep as can be."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.Constant(_VECTOR, [32767] * LANES)

    return _DEPTHS(), generate


@intrinsic
def narrowed(
    typing_context: Any, depths: Any, codes: Any, offset: Any, reaches: Any, at: Any
) -> Any:
    """Depths after one more slot: min(depths, above - low, high - below), saturated.

    ``reaches[at]`` and ``reaches[at + 1]``, of a flat int16 array, are above and below.
    """
    signature = _DEPTHS(_DEPTHS, codes, types.int64, reaches, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[1])(context, builder, args[1]).data
        pair = context.make_array(sig.args[3])(context, builder, args[3]).data
        above = builder.load(builder.gep(pair, [args[4]]))
        below = builder.load(builder.gep(pair, [builder.add(args[4], ir.Constant(_I64, 1))]))
        lows = _load(builder, data, args[2])
        highs = _load(builder, data, builder.add(args[2], ir.Constant(_I64, LANES)))
        return _least(builder, args[0], _depth(builder, lows, highs, above, below))

    return signature, generate


@intrinsic
def lanes_at(typing_context: Any, codes: Any, offset: Any) -> Any:
    """The 64 codes at ``codes[offset:]``, to be kept in registers."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        return _load(builder, data, args[1])

    return _DEPTHS(codes, types.int64), generate


@intrinsic
def put_lanes(typing_context: Any, values: Any, where: Any, lanes: Any) -> Any:
    """Write 64 codes or depths to ``values[where:]``."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        _store(builder, args[2], data, args[1])
        return context.get_dummy_value()

    return types.void(values, types.int64, _DEPTHS), generate


@intrinsic
def depth_in(typing_context: Any, lows: Any, highs: Any, reaches: Any, at: Any) -> Any:
    """How deep a value lies in the intervals of one slot: min(above - low, high - below).

    ``reaches[at]`` and ``reaches[at + 1]``, of a flat int16 array, are above and below.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pair = context.make_array(sig.args[2])(context, builder, args[2]).data
        above = builder.load(builder.gep(pair, [args[3]]))
        below = builder.load(builder.gep(pair, [builder.add(args[3], ir.Constant(_I64, 1))]))
        return _depth(builder, args[0], args[1], above, below)

    return _DEPTHS(_DEPTHS, _DEPTHS, reaches, types.int64), generate


@intrinsic
def least(typing_context: Any, a: Any, b: Any) -> Any:
    """The lesser of two depths, lane by lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _least(builder, args[0], args[1])

    return _DEPTHS(_DEPTHS, _DEPTHS), generate


@intrinsic
def copy_lanes(typing_context: Any, values: Any, where: Any, source: Any) -> Any:
    """Copy the 64 values at ``values[source:]`` to ``values[where:]``."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        _store(builder, _load(builder, data, args[2]), data, args[1])
        return context.get_dummy_value()

    return types.void(values, types.int64, types.int64), generate


def _depth(builder: Any, lows: Any, highs: Any, above: Any, below: Any) -> Any:
    """min(above - low, high - below), saturated, lane by lane."""
    subtract = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR]),
        f"llvm.ssub.sat.v{LANES}i16",
    )
    from_low = builder.call(subtract, [_splat(builder, above), lows])
    to_high = builder.call(subtract, [highs, _splat(builder, below)])
    return _least(builder, from_low, to_high)


def _store(builder: Any, vector: Any, data: Any, offset: Any) -> None:
    place = builder.gep(data, [offset])
    builder.store(vector, builder.bitcast(place, _VECTOR.as_pointer())).align = 2


def _least(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.icmp_signed("<", a, b), a, b)


@intrinsic
def inside(typing_context: Any, depths: Any) -> Any:
    """Bits of the lanes that surely hold the value: a depth above 0."""
    return types.uint64(_DEPTHS), _bits_above(0)


@intrinsic
def touched(typing_context: Any, depths: Any) -> Any:
    """Bits of the lanes that may hold the value: a depth of 0 or more."""
    return types.uint64(_DEPTHS), _bits_above(-1)


def _bits_above(limit: int) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bound = ir.Constant(_VECTOR, [limit] * LANES)
        return builder.bitcast(builder.icmp_signed(">", args[0], bound), _I64)

    return generate


@intrinsic
def between(typing_context: Any, values: Any, offset: Any, low: Any, high: Any) -> Any:
    """Bits of the 64 values at ``values[offset:]`` that lie in [low, high]."""
    signature = types.uint64(values, types.int64, types.int16, types.int16)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        lanes = _load(builder, data, args[1])
        above = builder.icmp_signed("<=", _splat(builder, args[2]), lanes)
        below = builder.icmp_signed("<=", lanes, _splat(builder, args[3]))
        return builder.bitcast(builder.and_(above, below), _I64)

    return signature, generate


_KEYS = ir.VectorType(ir.DoubleType(), LANES)


def _load_keys(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    loaded = builder.load(builder.bitcast(builder.gep(data, [offset]), _KEYS.as_pointer()))
    loaded.align = 8
    return loaded


def _splat_key(builder: Any, key: Any) -> Any:
    first = builder.insert_element(ir.Constant(_KEYS, ir.Undefined), key, ir.Constant(_I64, 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(_KEYS, ir.Undefined), zeros)


@intrinsic
def keys_between(typing_context: Any, keys: Any, offset: Any, low: Any, high: Any) -> Any:
    """Bits of the 64 float64 at ``keys.flat[offset:]`` that lie in [low, high]; never of a NaN."""
    signature = types.uint64(keys, types.int64, types.float64, types.float64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes = _load_keys(context, builder, sig.args[0], args[0], args[1])
        above = builder.fcmp_ordered(">=", lanes, _splat_key(builder, args[2]))
        below = builder.fcmp_ordered("<=", lanes, _splat_key(builder, args[3]))
        return builder.bitcast(builder.and_(above, below), _I64)

    return signature, generate


KEYS_AT_ONCE = 32
_FEW_KEYS = ir.VectorType(ir.DoubleType(), KEYS_AT_ONCE)


@intrinsic
def keys_below(typing_context: Any, keys: Any, offset: Any, key: Any) -> Any:
    """Bits of the 32 float64 at ``keys[offset:]`` that are less than a key; none if it is NaN."""
    signature = types.uint64(keys, types.int64, types.float64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        place = builder.gep(data, [args[1]])
        loaded = builder.load(builder.bitcast(place, _FEW_KEYS.as_pointer()))
        loaded.align = 8
        undefined = ir.Constant(_FEW_KEYS, ir.Undefined)
        first = builder.insert_element(undefined, args[2], ir.Constant(_I64, 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), KEYS_AT_ONCE), [0] * KEYS_AT_ONCE)
        below = builder.fcmp_ordered("<", loaded, builder.shuffle_vector(first, undefined, zeros))
        return builder.zext(builder.bitcast(below, ir.IntType(KEYS_AT_ONCE)), _I64)

    return signature, generate


@intrinsic
def steps(typing_context: Any, values: Any, offset: Any) -> Any:
    """Bits of the 64 values at ``values[offset:]`` that the next value differs from."""
    signature = types.uint64(values, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        lanes = _load(builder, data, args[1])
        after = _load(builder, data, builder.add(args[1], ir.Constant(_I64, 1)))
        return builder.bitcast(builder.icmp_signed("!=", lanes, after), _I64)

    return signature, generate


@intrinsic
def lowest(typing_context: Any, values: Any, offset: Any) -> Any:
    """The least of the 64 values at ``values[offset:]``."""
    return types.int16(values, types.int64), _reduced("smin")


@intrinsic
def highest(typing_context: Any, values: Any, offset: Any) -> Any:
    """The greatest of the 64 values at ``values[offset:]``."""
    return types.int16(values, types.int64), _reduced("smax")


def _reduced(how: str) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        reduce = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(_I16, [_VECTOR]),
            f"llvm.vector.reduce.{how}.v{LANES}i16",
        )
        return builder.call(reduce, [_load(builder, data, args[1])])

    return generate


SPARE = 16
"""Elements beyond the last one that ``gather`` may overwrite."""
_OCTET = ir.VectorType(ir.IntType(32), 8)
_SIXTEEN = ir.VectorType(ir.IntType(32), 16)
_FEATURES = binding.get_host_cpu_features()


def _orders() -> list[list[int]]:
    """For each byte, the places of its set bits, in order."""
    orders = []
    for byte in range(256):
        places = [bit for bit in range(8) if byte >> bit & 1]
        orders.append(places + [0] * (8 - len(places)))
    return orders


@intrinsic
def gather(typing_context: Any, values: Any, base: Any, lanes: Any, out: Any, at: Any) -> Any:
    """Copy the int32 ``values[base + lane]`` of the set lanes to ``out[at:]``, in order.

    Returns where they end. Up to ``SPARE`` elements beyond are overwritten.
    """
    signature = types.int64(values, types.int64, types.uint64, out, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        source = context.make_array(sig.args[0])(context, builder, args[0]).data
        target = context.make_array(sig.args[3])(context, builder, args[3]).data
        emit = _gather_one_by_one
        if _FEATURES.get("avx512vbmi2"):
            emit = _gather_by_places
        elif _FEATURES.get("avx512f"):
            emit = _gather_sixteens
        elif _FEATURES.get("avx2"):
            emit = _gather_octets
        return emit(builder, source, args[1], args[2], target, args[4])

    return signature, generate


def _gather_sixteens(builder: Any, source: Any, base: Any, lanes: Any, target: Any, at: Any) -> Any:
    """Sixteen lanes at a time, by the instruction that is made for it."""
    mask_type = ir.VectorType(ir.IntType(1), 16)
    compress = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(_SIXTEEN, [_SIXTEEN, _SIXTEEN, mask_type]),
        "llvm.x86.avx512.mask.compress.v16i32",
    )
    for part in range(4):
        shifted = builder.lshr(lanes, ir.Constant(_I64, 16 * part))
        mask = builder.bitcast(builder.trunc(shifted, _I16), mask_type)
        place = builder.gep(source, [builder.add(base, ir.Constant(_I64, 16 * part))])
        values = builder.load(builder.bitcast(place, _SIXTEEN.as_pointer()))
        values.align = 4
        where = builder.bitcast(builder.gep(target, [at]), _SIXTEEN.as_pointer())
        packed = builder.call(compress, [values, values, mask])
        builder.store(packed, where).align = 4
        here = builder.and_(shifted, ir.Constant(_I64, 0xFFFF))
        at = builder.add(at, builder.ctpop(here))
    return at


def _gather_by_places(
    builder: Any, source: Any, base: Any, lanes: Any, target: Any, at: Any
) -> Any:
    """The places of all set lanes are packed at once; by them, sixteen values a store."""
    numbers_type = ir.VectorType(ir.IntType(8), LANES)
    mask_type = ir.VectorType(ir.IntType(1), LANES)
    compress = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(numbers_type, [numbers_type, numbers_type, mask_type]),
        "llvm.x86.avx512.mask.compress.v64i8",
    )
    choose = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(_SIXTEEN, [_SIXTEEN, _SIXTEEN, _SIXTEEN]),
        "llvm.x86.avx512.vpermi2var.d.512",
    )
    count = builder.ctpop(lanes)
    numbers = ir.Constant(numbers_type, list(range(LANES)))
    packed = builder.call(compress, [numbers, numbers, builder.bitcast(lanes, mask_type)])
    values = []
    for part in range(4):
        place = builder.gep(source, [builder.add(base, ir.Constant(_I64, 16 * part))])
        values.append(builder.load(builder.bitcast(place, _SIXTEEN.as_pointer())))
        values[-1].align = 4

    def write(part: int) -> None:
        taken = ir.Constant(_SIXTEEN, list(range(16 * part, 16 * part + 16)))
        few = builder.shuffle_vector(packed, ir.Constant(numbers_type, ir.Undefined), taken)
        places = builder.zext(few, _SIXTEEN)
        low = builder.call(choose, [values[0], places, values[1]])
        high = builder.call(choose, [values[2], places, values[3]])
        half = ir.Constant(_SIXTEEN, [LANES // 2] * 16)
        chosen = builder.select(builder.icmp_unsigned("<", places, half), low, high)
        end = builder.add(at, ir.Constant(_I64, 16 * part))
        where = builder.bitcast(builder.gep(target, [end]), _SIXTEEN.as_pointer())
        builder.store(chosen, where).align = 4
        if part < 3:
            more = builder.icmp_unsigned(">", count, ir.Constant(_I64, 16 * part + 16))
            with builder.if_then(more):
                write(part + 1)

    write(0)
    return builder.add(at, count)


@intrinsic
def squeeze(typing_context: Any, values: Any, base: Any, lanes: Any, out: Any, at: Any) -> Any:
    """Copy the int16 ``values[base + lane]`` of the set lanes to ``out[at:]``, in order.

    Up to 64 elements from ``out[at]`` on are overwritten.
    """
    signature = types.void(values, types.int64, types.uint64, out, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        source = context.make_array(sig.args[0])(context, builder, args[0]).data
        target = context.make_array(sig.args[3])(context, builder, args[3]).data
        emit = _squeeze_halves if _FEATURES.get("avx512vbmi2") else _gather_one_by_one
        emit(builder, source, args[1], args[2], target, args[4])
        return context.get_dummy_value()

    return signature, generate


def _squeeze_halves(builder: Any, source: Any, base: Any, lanes: Any, target: Any, at: Any) -> None:
    """Thirty-two lanes at a time, by the instruction that is made for it."""
    half, mask_type = ir.VectorType(_I16, 32), ir.VectorType(ir.IntType(1), 32)
    compress = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(half, [half, half, mask_type]),
        "llvm.x86.avx512.mask.compress.v32i16",
    )
    for part in range(2):
        shifted = builder.lshr(lanes, ir.Constant(_I64, 32 * part))
        mask = builder.bitcast(builder.trunc(shifted, ir.IntType(32)), mask_type)
        place = builder.gep(source, [builder.add(base, ir.Constant(_I64, 32 * part))])
        values = builder.load(builder.bitcast(place, half.as_pointer()))
        values.align = 2
        where = builder.bitcast(builder.gep(target, [at]), half.as_pointer())
        builder.store(builder.call(compress, [values, values, mask]), where).align = 2
        here = builder.and_(lanes, ir.Constant(_I64, 0xFFFFFFFF))
        at = builder.add(at, builder.ctpop(here))


def _gather_octets(builder: Any, source: Any, base: Any, lanes: Any, target: Any, at: Any) -> Any:
    """Eight lanes at a time: one permutation, looked up by their bits, and one store."""
    module = builder.module
    table = module.globals.get("germane.orders")
    if table is None:
        kind = ir.ArrayType(_OCTET, 256)
        table = ir.GlobalVariable(module, kind, "germane.orders")
        table.linkage = "internal"
        table.global_constant = True
        table.initializer = ir.Constant(kind, [ir.Constant(_OCTET, order) for order in _orders()])
    permute = cgutils.get_or_insert_function(
        module, ir.FunctionType(_OCTET, [_OCTET, _OCTET]), "llvm.x86.avx2.permd"
    )
    for octet in range(8):
        shifted = builder.lshr(lanes, ir.Constant(_I64, 8 * octet))
        byte = builder.and_(shifted, ir.Constant(_I64, 255))
        order = builder.load(builder.gep(table, [ir.Constant(_I64, 0), byte]))
        place = builder.gep(source, [builder.add(base, ir.Constant(_I64, 8 * octet))])
        values = builder.load(builder.bitcast(place, _OCTET.as_pointer()))
        values.align = 4
        where = builder.bitcast(builder.gep(target, [at]), _OCTET.as_pointer())
        builder.store(builder.call(permute, [values, order]), where).align = 4
        at = builder.add(at, builder.ctpop(byte))
    return at


def _gather_one_by_one(
    builder: Any, source: Any, base: Any, lanes: Any, target: Any, at: Any
) -> Any:
    """Lane by lane, on processors without the permutation."""
    trailing = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_I64, [_I64, ir.IntType(1)]), "llvm.cttz.i64"
    )
    left = cgutils.alloca_once_value(builder, lanes)
    end = cgutils.alloca_once_value(builder, at)
    head = builder.append_basic_block("gather.head")
    body = builder.append_basic_block("gather.body")
    done = builder.append_basic_block("gather.done")
    builder.branch(head)
    builder.position_at_end(head)
    word = builder.load(left)
    builder.cbranch(builder.icmp_unsigned("!=", word, ir.Constant(_I64, 0)), body, done)
    builder.position_at_end(body)
    lane = builder.call(trailing, [word, ir.Constant(ir.IntType(1), 1)])
    position = builder.load(end)
    value = builder.load(builder.gep(source, [builder.add(base, lane)]))
    builder.store(value, builder.gep(target, [position]))
    builder.store(builder.add(position, ir.Constant(_I64, 1)), end)
    builder.store(builder.and_(word, builder.sub(word, ir.Constant(_I64, 1))), left)
    builder.branch(head)
    builder.position_at_end(done)
    return builder.load(end)
