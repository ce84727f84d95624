"""jax.experimental.buffer_callback: functions that are given buffers and fill buffers.

The wheel's own lowering has the function run where the buffers are, which is another machine. Here it is a callback like the
others: the agent gives the function the operands and new memory for the results, and what the function has left there goes
back. A result that an operand aliases is the operand's memory, as jax promises.
"""

import numpy as np

from jax._src import buffer_callback

from switchtower.overlay import Overlay

_TARGET = "xla_buffer_python_cpu_callback"
_CALLBACK = "xla_ffi_python_cpu_callback"


class HostBuffer:
    """What a function sees of an operand or a result; has jax.experimental.buffer_callback.Buffer's attributes."""

    def __init__(self, memory: np.ndarray, writeable: bool):
        self._memory, self.writeable = memory, writeable

    shape = property(lambda self: self._memory.shape)
    dtype = property(lambda self: self._memory.dtype)
    ndim = property(lambda self: self._memory.ndim)

    def __array__(self, dtype=None, copy=None):
        seen = self._memory.view()
        seen.flags.writeable = self.writeable
        if dtype is not None and dtype != seen.dtype:
            if copy is False:
                raise ValueError(f"a buffer of {seen.dtype} isn't one of {dtype} without a copy")
            return seen.astype(dtype)
        return seen.copy() if copy else seen

    def __dlpack__(self, **options):
        return self._memory.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._memory.__dlpack_device__()


class HostContext:
    """What a function sees of its call."""

    stage = buffer_callback.ExecutionStage.EXECUTE

    @property
    def stream(self):
        from jax.errors import JaxRuntimeError

        raise JaxRuntimeError("UNIMPLEMENTED: XLA FFI GPU context is not available: the function runs in the client's process")


def install(is_ours, build_callback) -> None:
    """`is_ours` tells the clients that this is for, `build_callback` lowers a callback of theirs."""
    ffi = buffer_callback.ffi

    def ffi_lowering(target, **options):
        lower = ffi.ffi_lowering(target, **options)
        if target != _TARGET:
            return lower

        def lower_callback(ctx, *operands, index):
            module = ctx.module_context
            if not is_ours(module.get_backend()):
                return lower(ctx, *operands, index=index)
            functions, at = module.host_callbacks, int(index)
            functions[at] = on_arrays(functions[at], ctx.avals_out, options.get("operand_output_aliases") or {})
            call = build_callback(_CALLBACK, has_side_effect=options.get("has_side_effect", False))
            return call(ctx, *operands, index=index).results

        return lower_callback

    buffer_callback.ffi = Overlay(ffi, ffi_lowering=ffi_lowering)


def on_arrays(function, result_types, aliases):
    """The function of buffers as one of arrays. `aliases`: operand -> the result that is in its memory."""
    operand_of = {result: operand for operand, result in aliases.items()}

    def run(*operands):
        results = [
            operands[operand_of[i]] if i in operand_of else np.empty(each.shape, each.dtype)
            for i, each in enumerate(result_types)
        ]
        given = [HostBuffer(operand, writeable=False) for operand in operands]
        function(HostContext(), *given, *(HostBuffer(result, writeable=True) for result in results))
        return results

    return run
