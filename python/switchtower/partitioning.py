"""What XLA asks its client while it partitions a program, answered before the program is sent.

jaxlib's own clients have XLA call back into jax: who looks at a sharding, how a function with partitioning rules of its own is
cut, that the matrices of a batch are independent. The server's XLA is in another process and can't ask. Shardy's answers are
known here (shardings.py), so that the program can be written in a way that leaves no question:

  inspect_array_sharding  the callback runs now, the call is left out
  custom_partitioning     the partitioned function takes the call's place
  batches of matrices     each device calls LAPACK with its own matrices
  partitioned callbacks   each device calls with its own shard

A call that lies differently from place to place, or in a way that jax has no name for, stays as it is. The program that jax
holds is never changed.
"""

import functools
import logging
import weakref

from jax._src import compiler, custom_partitioning, debugging
from jax._src.interpreters import mlir
from jax._src.lib import xla_client as xc
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func

from switchtower import shardings
from switchtower.overlay import Overlay
from switchtower.shardings import Unknown, axes_of, mesh_axes, rank_of, replace_by_device, target_of, to_hlo

_log = logging.getLogger("switchtower")

_INSPECT = "InspectSharding"
_CUSTOM = "CustomSPMDPartitioning"
_PARTITIONED_CALLBACK = "xla_ffi_partitioned_python_cpu_callback"

_NOT_PARTITIONED = (
    "a jax.debug callback with partitioned=True, whose operands the program cuts in different ways or in a way that jax has "
    "no name for: leave partitioned out (one call with the whole value), or call inside jax.shard_map (one call with each shard)"
)

# The call names the function by an address that only XLA can follow.
_inspectors: "weakref.WeakValueDictionary[bytes, object]" = weakref.WeakValueDictionary()


def install(is_ours) -> None:
    """`is_ours` tells the clients that this is for."""
    encode = debugging.xc.encode_inspect_sharding_callback

    def encode_inspect_sharding_callback(function):
        key = encode(function)
        _inspectors[bytes(key)] = function
        return key

    debugging.xc = Overlay(debugging.xc, encode_inspect_sharding_callback=encode_inspect_sharding_callback)
    compile_and_load = compiler.backend_compile_and_load

    @functools.wraps(compile_and_load)
    def backend_compile_and_load(backend, module, *args, **kwargs):
        return compile_and_load(backend, partition_calls(module) if is_ours(backend) else module, *args, **kwargs)

    compiler.backend_compile_and_load = backend_compile_and_load


def partition_calls(module: ir.Module) -> ir.Module:
    """The module itself, or a copy without what XLA would ask about."""
    attributes = module.operation.attributes
    if "mhlo.num_partitions" not in attributes or ir.IntegerAttr(attributes["mhlo.num_partitions"]).value == 1:
        return module
    with module.context, ir.Location.unknown():
        if not shardings.calls_of(module, _answer):
            return module
        copy = ir.Module.parse(module.operation.get_asm(binary=True))
        calls = shardings.calls_of(copy, _answer)
        partitions = ir.IntegerAttr(attributes["mhlo.num_partitions"]).value
        try:
            placements = shardings.placements(copy, calls, partitions)
        except ir.MLIRError as error:
            _log.debug("the program's shardings aren't known before it is compiled: %s", error)
            return module
        for call, ways in zip(calls, placements):
            try:
                _answer(call)(copy, call, ways)
            except Unknown:
                if target_of(call) == _PARTITIONED_CALLBACK:
                    raise NotImplementedError(_NOT_PARTITIONED) from None
                _log.debug("a call of %s is left to the server's partitioner", target_of(call))
        return copy


def _answer(call: ir.Operation):
    """What to do with a custom call; None: nothing."""
    target = target_of(call)
    if target in _ANSWERS:
        return _ANSWERS[target]
    return _cut_batch if "sdy.sharding_rule" in call.attributes and _batch_dims(call) > 0 else None


def _key(call: ir.Operation) -> bytes:
    return ir.StringAttr(call.attributes["backend_config"]).value_bytes


def _only(ways):
    if len(ways) != 1:
        raise Unknown
    return ways[0]


# ---- inspect_array_sharding


def _inspect(module, call, ways) -> None:
    function = _inspectors.get(_key(call))
    if function is None:
        raise Unknown
    rank = rank_of(call.operands[0])
    if not ways:
        _log.warning("inspect_array_sharding: how a value lies isn't known before the program is compiled")
    for way in ways:
        function(to_hlo(way.results[0], way.mesh, rank))
    call.erase()


# ---- custom_partitioning


def _partition_custom(module, call, ways) -> None:
    way = _only(ways)
    values = list(call.operands), list(call.results)
    shapes = [[_shape(value) for value in each] for each in values]
    given = [
        [to_hlo(sharding, way.mesh, rank_of(value)) for sharding, value in zip(each, some)]
        for each, some in zip((way.operands, way.results), values)
    ]
    one = len(values[1]) == 1
    result_shape = shapes[1][0] if one else xc.Shape.tuple_shape(shapes[1])
    result_sharding = given[1][0] if one else xc.HloSharding.tuple_sharding(result_shape, given[1])
    code, of_arguments, of_results = custom_partitioning._custom_partitioning_partition(
        shapes[0], given[0], result_shape, result_sharding, _key(call))
    chosen = [of_arguments, [of_results] if one else of_results.tuple_elements()]
    operands, results = (
        [shardings.from_hlo(sharding, way.mesh, rank_of(value)) for sharding, value in zip(each, some)]
        for each, some in zip(chosen, values)
    )
    name = mlir.merge_mlir_modules(module, "partitioned", ir.Module.parse(code))

    def body(shards, parts):
        return func.CallOp(parts, ir.FlatSymbolRefAttr.get(name), shards).results

    replace_by_device(call, way.mesh, mesh_axes(way.mesh), operands, results, body)


def _shape(value: ir.Value) -> xc.Shape:
    tensor = ir.RankedTensorType(value.type)
    dtypes = [dtype for dtype in mlir._dtype_to_ir_type if mlir.dtype_to_ir_type(dtype) == tensor.element_type]
    return xc.Shape.array_shape(dtypes[0], tensor.shape)


# ---- calls that each device makes with what it has


def _same_call(call: ir.Operation):
    attributes = {name: call.attributes[name] for name in call.attributes}
    for name in ("sdy.sharding", "sdy.sharding_rule"):
        attributes.pop(name, None)

    def body(shards, parts):
        return ir.Operation.create(call.name, results=parts, operands=shards, attributes=attributes).results

    return body


def _batch_dims(call: ir.Operation) -> int:
    attributes = call.attributes
    words = ir.DictAttr(attributes["mhlo.frontend_attributes"]) if "mhlo.frontend_attributes" in attributes else {}
    return int(ir.StringAttr(words["num_batch_dims"]).value) if "num_batch_dims" in words else 0


def _cut_batch(module, call, ways) -> None:
    way, count = _only(ways), _batch_dims(call)
    batch = None
    for sharding, value in zip(way.results + way.operands, [*call.results, *call.operands]):
        if batch is None and sharding is not None and rank_of(value) >= count:
            batch = axes_of(sharding, rank_of(value))[:count]
    if not batch or not any(batch):
        return
    operands, results = (
        [batch + [()] * (rank_of(value) - count) if rank_of(value) >= count else [()] * rank_of(value) for value in values]
        for values in (call.operands, call.results)
    )
    axes = {name for names in batch for name in names}
    replace_by_device(call, way.mesh, axes, operands, results, _same_call(call))


def _call_by_shard(module, call, ways) -> None:
    way = _only(ways)
    operands = [axes_of(sharding, rank_of(value)) for sharding, value in zip(way.operands, call.operands)]
    results = [axes_of(sharding, rank_of(value)) for sharding, value in zip(way.results, call.results)]
    replace_by_device(call, way.mesh, mesh_axes(way.mesh), operands, results, _same_call(call))


_ANSWERS = {_INSPECT: _inspect, _CUSTOM: _partition_custom, _PARTITIONED_CALLBACK: _call_by_shard}
