"""Collectives that jax starts and ends apart, made into whole ones.

The wheel can't serialise stablehlo.async_start for any server: what it may send is older than these operations. Between start
and end a program has only what doesn't depend on the collective, so a whole collective in the place of the start computes the
same; what overlaps is the server's to decide, so that orders for a start (jax.experimental.control_deps) go with it. Orders
between ends and other values stay: a whole collective has the place of its end among them, so they can't form a circle.
"""

import functools

from jax._src import compiler
from jax._src.lib.mlir import ir

from switchtower import shardings

_START, _DONE = "stablehlo.async_start", "stablehlo.async_done"
_ORDER = "control_dep"


def install(is_ours) -> None:
    """`is_ours` tells the clients that this is for."""
    compile_and_load = compiler.backend_compile_and_load

    @functools.wraps(compile_and_load)
    def backend_compile_and_load(backend, module, *args, **kwargs):
        return compile_and_load(backend, with_whole_collectives(module) if is_ours(backend) else module, *args, **kwargs)

    compiler.backend_compile_and_load = backend_compile_and_load


def with_whole_collectives(module: ir.Module) -> ir.Module:
    """The module itself, or a copy without starts."""
    with module.context, ir.Location.unknown():
        if not _starts(module):
            return module
        copy = ir.Module.parse(module.operation.get_asm(binary=True))
        for start in _starts(copy):
            _make_whole(start)
        return copy


def _starts(module: ir.Module) -> list[ir.Operation]:
    found = []

    def visit(operation):
        if operation.name == _START:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _make_whole(start: ir.Operation) -> None:
    block = start.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, list(start.operands)):
        argument.replace_all_uses_with(operand)
    *body, end = [each.operation for each in block.operations]
    results = list(end.operands)
    for operation in body:
        operation.move_before(start)
    while uses := list(start.results[0].uses):
        user = uses[0].owner.operation
        if user.name == _DONE:
            for old, new in zip(user.results, results):
                old.replace_all_uses_with(new)
        elif not _is_order(user):
            raise NotImplementedError(f"a collective that was started is used by {user.name} before it ends")
        user.erase()
    start.erase()


def _is_order(operation: ir.Operation) -> bool:
    return operation.name == "stablehlo.custom_call" and shardings.target_of(operation) == _ORDER
