"""Programs with unreduced axes, for a server whose XLA is newer than jax's.

Shardy once let a program pass an unreduced value on, or return a value as unreduced, without an operation that says so.
Since mid 2026 it wants a sharding constraint (or a reshard) there, and refuses what jax up to 0.11 lowers: a device_put to
PartitionSpec(unreduced=...), a shard_map whose input is unreduced. The constraint that is missing is the sharding that the
value has already, so it changes nothing but that the program compiles.

Only a program that was refused for this reason is looked at, and then compiled once more. The program that jax holds stays
as it is.
"""

import functools

from jax._src import compiler
from jax._src.lib import _jax
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import sdy

_REFUSAL = "without a blessed operation"


def install() -> None:
    compile_and_load = compiler.backend_compile_and_load
    if hasattr(compile_and_load, "retries_unreduced"):
        return

    @functools.wraps(compile_and_load)
    def backend_compile_and_load(backend, module, *args, **kwargs):
        try:
            return compile_and_load(backend, module, *args, **kwargs)
        except _jax.JaxRuntimeError as error:
            if _REFUSAL not in str(error):
                raise
        return compile_and_load(backend, with_constraints(module), *args, **kwargs)

    backend_compile_and_load.retries_unreduced = True
    compiler.backend_compile_and_load = backend_compile_and_load


def with_constraints(module: ir.Module) -> ir.Module:
    """A copy in which each value that is known as unreduced, and each result that shall be, passes through a sharding
    constraint."""
    with module.context, ir.Location.unknown():
        copy = ir.Module.parse(module.operation.get_asm(binary=True))
        for operation in copy.body.operations:
            if operation.operation.name == "func.func":
                _constrain_function(operation.operation)
        return copy


def _constrain_function(function: ir.Operation) -> None:
    if len(function.regions[0].blocks) == 0:
        return  # a declaration
    entry = function.regions[0].blocks[0]
    returned = [op for op in entry.operations if op.operation.name == "func.return"]
    results = _shardings(function, "res_attrs", len(returned[0].operands))
    _constrain_block(entry)
    for i, (operand, sharding) in enumerate(zip(list(returned[0].operands), results)):
        if _is_unreduced(sharding) and not _is_constraint(operand.owner):
            with ir.InsertionPoint(returned[0]):
                returned[0].operation.operands[i] = sdy.ShardingConstraintOp(operand, sharding).result
    for argument, sharding in zip(entry.arguments, _shardings(function, "arg_attrs", len(entry.arguments))):
        _constrain(argument, sharding, ir.InsertionPoint.at_block_begin(entry))


def _constrain_block(block: ir.Block) -> None:
    operations = list(block.operations)
    for operation, following in zip(operations, operations[1:]):
        for region in operation.regions:
            for inner in region.blocks:
                _constrain_block(inner)
        if _is_constraint(operation.operation):
            continue
        attributes = operation.operation.attributes
        for name in ("sdy.sharding", "out_shardings"):
            if name in attributes:
                for value, sharding in zip(operation.results, sdy.TensorShardingPerValueAttr(attributes[name]).shardings):
                    _constrain(value, sharding, ir.InsertionPoint(following))


def _constrain(value: ir.Value, sharding, where: ir.InsertionPoint) -> None:
    if _is_unreduced(sharding):
        with where:
            constraint = sdy.ShardingConstraintOp(value, sharding)
        value.replace_all_uses_except(constraint.result, constraint.operation)


def _shardings(function: ir.Operation, name: str, count: int) -> list:
    if name not in function.attributes:
        return [None] * count
    return [ir.DictAttr(each)["sdy.sharding"] if "sdy.sharding" in ir.DictAttr(each) else None
            for each in ir.ArrayAttr(function.attributes[name])]


def _is_unreduced(sharding) -> bool:
    return sharding is not None and len(sdy.TensorShardingAttr(sharding).unreduced_axes) > 0


def _is_constraint(owner) -> bool:
    return isinstance(owner, ir.Operation) and owner.name in ("sdy.sharding_constraint", "sdy.reshard")
