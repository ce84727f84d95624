"""What Shardy will say of a program: the wheel contains it, so its propagation runs here, on a copy, before the program is sent.

A Placement tells how one custom call's operands and results lie. A function that is called from several places has a call for
each of them, which may lie differently.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from jax._src.lib import xla_client as xc
from jax._src.lib.mlir import ir, passmanager
from jax._src.lib.mlir.dialects import sdy
from jax._src.sharding_impls import NamedSharding, PartitionSpec, parse_flatten_op_sharding
from jax.sharding import AbstractMesh

_NUMBER = "switchtower_call"


class Unknown(Exception):
    """Shardy cut a value in a way that has no name in jax: along a part of a mesh axis, or over devices in another order."""


@dataclass(frozen=True)
class Placement:
    mesh: ir.Attribute  # sdy.MeshAttr
    operands: tuple[ir.Attribute | None, ...]  # sdy.TensorShardingAttr; None: whole on every device
    results: tuple[ir.Attribute | None, ...]


def calls_of(module: ir.Module, wanted) -> list[ir.Operation]:
    """The custom calls that `wanted` says yes to, in the module's order."""
    found = []

    def visit(operation):
        if operation.name == "stablehlo.custom_call" and wanted(operation):
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def target_of(call: ir.Operation) -> str:
    return ir.StringAttr(call.attributes["call_target_name"]).value


def placements(module: ir.Module, calls: Sequence[ir.Operation], partitions: int) -> list[list[Placement]]:
    """For each of the module's `calls`, all ways in which it lies over the program's `partitions`."""
    for number, call in enumerate(calls):
        call.attributes[_NUMBER] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
    propagated = ir.Module.parse(module.operation.get_asm(binary=True))
    for call in calls:
        del call.attributes[_NUMBER]
    passmanager.PassManager.parse("builtin.module(sdy-propagation-pipeline)").run(propagated.operation)
    meshes = {
        ir.StringAttr(op.attributes["sym_name"]).value: sdy.MeshAttr(op.attributes["mesh"])
        for op in propagated.body.operations
        if op.operation.name == "sdy.mesh"
    }
    found: dict[int, list[Placement]] = defaultdict(list)
    for call in calls_of(propagated, lambda call: _NUMBER in call.attributes):
        operands = tuple(_sharding_of(value, meshes) for value in call.operands)
        results = tuple(_sharding_of(value, meshes) for value in call.results)
        used = {_mesh_of(sharding, meshes) for sharding in operands + results if sharding is not None}
        # Nothing is cut: any mesh can say so.
        used = used or {mesh for mesh in list(meshes.values())[:1]}
        if len(used) == 1 and _size(mesh := used.pop()) == partitions:
            placement = Placement(mesh, operands, results)
            ways = found[ir.IntegerAttr(call.attributes[_NUMBER]).value]
            if placement not in ways:
                ways.append(placement)
    return [found[number] for number in range(len(calls))]


def _sharding_of(value: ir.Value, meshes):
    """None: whole on every device. jax says so of arguments on no device in particular by a mesh without axes."""
    sharding = _annotated(value) if rank_of(value) > 0 else None
    return sharding if sharding is not None and len(_mesh_of(sharding, meshes).axes) > 0 else None


def _annotated(value: ir.Value):
    if isinstance(value, ir.BlockArgument):
        owner, index = value.owner.owner.operation, value.arg_number
        if owner.name == "func.func":
            attributes = ir.DictAttr(ir.ArrayAttr(owner.attributes["arg_attrs"])[index]) if "arg_attrs" in owner.attributes else {}
            return sdy.TensorShardingAttr(attributes["sdy.sharding"]) if "sdy.sharding" in attributes else None
        if owner.name != "stablehlo.while":
            return None
    else:
        owner, index = value.owner, ir.OpResult(value).result_number
    if "sdy.sharding" not in owner.attributes:
        return None
    return sdy.TensorShardingAttr(sdy.TensorShardingPerValueAttr(owner.attributes["sdy.sharding"]).shardings[index])


def _size(mesh) -> int:
    return math.prod(sdy.MeshAxisAttr(axis).size for axis in mesh.axes)


def _mesh_of(sharding, meshes):
    reference = sharding.mesh_or_ref
    if isinstance(reference, ir.FlatSymbolRefAttr):
        return meshes[ir.FlatSymbolRefAttr(reference).value]
    return sdy.MeshAttr(reference)


# ---- between Shardy's words and jax's


def axes_of(sharding, rank: int) -> list[tuple[str, ...]]:
    """The mesh axes that cut each dimension."""
    if sharding is None:
        return [()] * rank
    axes = []
    for dimension in map(sdy.DimensionShardingAttr, sharding.dimension_shardings):
        references = [sdy.AxisRefAttr(axis) for axis in dimension.axes]
        if any(reference.sub_axis_info is not None for reference in references):
            raise Unknown
        axes.append(tuple(reference.name for reference in references))
    return axes


def mesh_axes(mesh) -> dict[str, int]:
    if mesh.device_ids:
        raise Unknown
    return {axis.name: axis.size for axis in map(sdy.MeshAxisAttr, mesh.axes)}


def to_hlo(sharding, mesh, rank: int) -> xc.HloSharding:
    sizes = mesh_axes(mesh)
    spec = PartitionSpec(*[axes or None for axes in axes_of(sharding, rank)])
    return NamedSharding(AbstractMesh(tuple(sizes.values()), tuple(sizes)), spec)._to_xla_hlo_sharding(rank)


def from_hlo(sharding: xc.HloSharding, mesh, rank: int) -> list[tuple[str, ...]]:
    """The reverse, as axes_of gives it."""
    sizes = mesh_axes(mesh)
    spec = parse_flatten_op_sharding(sharding, AbstractMesh(tuple(sizes.values()), tuple(sizes)))[0]
    axes = [() if entry is None else (entry,) if isinstance(entry, str) else tuple(entry) for entry in spec]
    return axes + [()] * (rank - len(axes))


# ---- computations by device


def rank_of(value: ir.Value) -> int:
    return ir.RankedTensorType(value.type).rank if isinstance(value.type, ir.RankedTensorType) else 0


def shard_type(value_type: ir.Type, axes: Sequence[tuple[str, ...]], sizes: dict[str, int]) -> ir.Type:
    if not isinstance(value_type, ir.RankedTensorType):
        return value_type  # a token
    tensor = ir.RankedTensorType(value_type)
    dims = []
    for dim, names in zip(tensor.shape, axes, strict=True):
        parts = math.prod(sizes[name] for name in names)
        if dim % parts:
            raise Unknown
        dims.append(dim // parts)
    return ir.RankedTensorType.get(dims, tensor.element_type)


def replace_by_device(call: ir.Operation, mesh, axes: Sequence[str], operands, results, body) -> None:
    """Puts a computation over `axes` of the mesh in the place of a call. `operands` and `results` say for each value which
    axes cut each dimension; `body` gets the shards and the types of the results and gives the results."""
    sizes = mesh_axes(mesh)
    ordered = [name for name in sizes if name in axes]

    def per_value(values):
        return sdy.TensorShardingPerValueAttr.get([
            sdy.TensorShardingAttr.get(mesh, [
                sdy.DimensionShardingAttr.get([sdy.AxisRefAttr.get(name) for name in names], is_closed=True) for names in value
            ]) for value in values
        ])

    shards = [shard_type(value.type, cut, sizes) for value, cut in zip(call.operands, operands, strict=True)]
    parts = [shard_type(value.type, cut, sizes) for value, cut in zip(call.results, results, strict=True)]
    with ir.InsertionPoint(call):
        manual = sdy.ManualComputationOp(
            [value.type for value in call.results], list(call.operands), per_value(operands), per_value(results),
            sdy.ManualAxesAttr.get([ir.StringAttr.get(name) for name in ordered]))
    block = ir.Block.create_at_start(manual.operation.regions[0], shards)
    with ir.InsertionPoint(block):
        sdy.ReturnOp(body(list(block.arguments), parts))
    for old, new in zip(call.results, manual.operation.results):
        old.replace_all_uses_with(new)
    call.erase()
