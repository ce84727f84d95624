"""Callbacks of each kind in each place; prints what came of them as JSON. Run on plain CPU and on clusters of eight."""

import functools
import json
import threading

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jax.experimental.buffer_callback import buffer_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

RESULTS = {}
MESH = Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b"))
LINE = Mesh(np.array(jax.devices()), ("x",))


class Log:
    """What callbacks were called with, from whatever thread."""

    def __init__(self):
        self.lock, self.items = threading.Lock(), []

    def __call__(self, *values):
        with self.lock:
            self.items.append([np.asarray(v).tolist() for v in values])

    def in_order(self):
        jax.effects_barrier()
        return self.items

    def in_any_order(self):
        return sorted(self.in_order(), key=repr)


def case(function):
    RESULTS[function.__name__] = function()
    return function


@case
def debug_callback_in_jit():
    log = Log()
    jax.jit(lambda x: jax.debug.callback(log, x, x * 2))(jnp.arange(3))
    return log.in_any_order()


@case
def debug_callback_without_operands():
    log = Log()
    jax.jit(lambda: jax.debug.callback(log))()
    return log.in_any_order()


@case
def eager():
    log = Log()
    jax.debug.callback(log, jnp.arange(3))
    return [log.in_any_order(), jax.pure_callback(lambda v: v + 1, jnp.float32(1), jnp.float32(1)).tolist()]


@case
def ordered_in_scan():
    log = Log()

    def body(carry, x):
        jax.debug.callback(log, carry, x, ordered=True)
        return carry + x, carry * x

    total, _ = jax.jit(lambda xs: jax.lax.scan(body, 0, xs))(jnp.arange(6))
    return [log.in_order(), int(total)]


@case
def ordered_across_launches():
    log = Log()
    f = jax.jit(lambda x: io_callback(log, None, x, ordered=True))
    for i in range(10):
        f(i)
    return log.in_order()


@case
def in_while_and_cond():
    log = Log()

    def body(i):
        jax.lax.cond(i % 2 == 0, lambda: jax.debug.callback(log, i), lambda: None)
        return i + 1

    jax.jit(lambda n: jax.lax.while_loop(lambda i: i < n, body, 0))(7)
    return log.in_any_order()


@case
def under_vmap():
    log = Log()
    out = jax.jit(jax.vmap(lambda x: (jax.debug.callback(log, x), x + 1)[1]))(jnp.arange(4))
    return [log.in_any_order(), out.tolist()]


@case
def pure_callback_vmap_methods():
    def f(method):
        g = lambda x: jax.pure_callback(lambda v: np.sin(v), jax.ShapeDtypeStruct((), x.dtype), x, vmap_method=method)
        return jax.jit(jax.vmap(g))(jnp.arange(3.0)).tolist()

    return [f(method) for method in ("sequential", "expand_dims", "broadcast_all")]


@case
def gradient_with_custom_jvp():
    @jax.custom_jvp
    def sin(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    @sin.defjvp
    def _(primals, tangents):
        (x,), (t,) = primals, tangents
        return sin(x), jax.pure_callback(np.cos, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * t

    return [float(jax.jit(jax.grad(sin))(1.0)), float(jax.jit(jax.value_and_grad(sin))(0.5)[0])]


@case
def many_types():
    out = {}
    for dtype in ("bool", "int8", "uint8", "int16", "int32", "uint32", "float16", "bfloat16", "float32", "complex64",
                  "float8_e4m3fn", "int4", "uint4"):
        x = jnp.array([0, 1, 2, 3, 1], dtype=getattr(jnp, dtype, bool))
        seen = []
        f = jax.jit(lambda x: jax.pure_callback(lambda v: (seen.append(str(v.dtype)), v[::-1])[1], x, x))
        try:
            out[dtype] = [str(v) for v in np.asarray(f(x))] + seen
        except Exception as error:  # as on plain CPU
            out[dtype] = type(error).__name__
    return out


@case
def empty_and_scalar():
    return [
        jax.jit(lambda x: jax.pure_callback(lambda v: v, x, x))(jnp.zeros((0, 3))).shape,
        jax.jit(lambda: jax.pure_callback(lambda: np.float32(4), jnp.float32(0)))().tolist(),
        [r.tolist() for r in jax.jit(lambda x: jax.pure_callback(lambda v: (v, v + 1), (x, x), x))(jnp.int32(2))],
    ]


@case
def sharded_operands_in_jit():
    log = Log()
    x = jax.device_put(np.arange(16.0).reshape(8, 2), NamedSharding(MESH, P("a", "b")))

    @jax.jit
    def f(x):
        jax.debug.callback(log, x)
        y = jax.pure_callback(lambda v: np.asarray(v) * 2, x, x)
        return y + 1, x.sum()

    y, total = f(x)
    return [log.in_any_order(), y.tolist(), float(total)]


@case
def io_callback_on_sharded_operands():
    log = Log()
    x = jax.device_put(np.arange(8.0), NamedSharding(LINE, P("x")))
    out = jax.jit(lambda x: io_callback(lambda v: (log(v), np.asarray(v)[::-1])[1], x, x, ordered=False))(x)
    return [out.tolist(), log.in_any_order()]


@case
def in_shard_map():
    log = Log()

    @jax.jit
    @functools.partial(jax.shard_map, mesh=LINE, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    def f(x):
        jax.debug.callback(log, x, jax.lax.axis_index("x"))
        return jax.pure_callback(lambda v: np.asarray(v) * 10, x, x) + jax.lax.psum(x, "x")

    x = jax.device_put(np.arange(16.0), NamedSharding(LINE, P("x")))
    return [f(x).tolist(), log.in_any_order()]


@case
def io_callback_in_shard_map():
    log = Log()

    @jax.jit
    @functools.partial(jax.shard_map, mesh=MESH, in_specs=P("a", "b"), out_specs=P("a", "b"), check_vma=False)
    def f(x):
        io_callback(log, None, x)
        return x * 2

    x = jax.device_put(np.arange(16.0).reshape(8, 2), NamedSharding(MESH, P("a", "b")))
    return [f(x).tolist(), log.in_any_order()]


@case
def debug_print_formats():
    jax.jit(lambda x: jax.debug.print("x {x} {y:.2f}", x=x, y=x[0]))(jnp.arange(2.0))
    jax.effects_barrier()
    return "printed"


@case
def in_a_context_of_64_bits():
    log = Log()
    with jax.enable_x64(True):
        jax.jit(lambda x: jax.debug.callback(log, x))(2**40 + 1)
        twice = jax.jit(lambda x: jax.pure_callback(lambda v: np.float64(v) * 2, jax.ShapeDtypeStruct((), jnp.float64), x))(1.1)
        return [log.in_order(), float(twice)]


@case
def runs_jax_inside():
    f = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(jnp.cumsum(v)), x, x))
    return f(jnp.arange(5)).tolist()


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@case
def buffers_of_many_types():
    def reverse(ctx, out, x):
        flags = [ctx.stage.name, x.writeable, out.writeable, x.ndim, list(out.shape), out.dtype == x.dtype]
        seen.append(flags)
        np.asarray(out)[...] = np.asarray(x)[::-1]

    seen, out = [], {}
    for dtype in ("bool", "int8", "uint32", "bfloat16", "float16", "float32", "complex64", "float8_e4m3fn"):
        x = jnp.array([[0, 1], [2, 3]], dtype=getattr(jnp, dtype, bool))
        out[dtype] = [str(v) for v in np.asarray(jax.jit(buffer_callback(reverse, like(x)))(x)).ravel()]
    return [out, seen]


@case
def buffers_by_dlpack():
    def add(ctx, out, x):
        np.asarray(out)[...] = np.from_dlpack(x) + np.asarray(x)

    x = jnp.arange(3.0)
    return buffer_callback(add, like(x))(x).tolist()


@case
def buffers_under_vmap():
    def add(ctx, out, x, y):
        np.asarray(out)[...] = np.asarray(x) + np.asarray(y)

    x = jnp.arange(6.0).reshape(2, 3)
    return [
        jax.jit(jax.vmap(buffer_callback(add, like(x[0]), vmap_method=method)))(x, x * 10).tolist()
        for method in ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all")
    ]


@case
def buffers_in_place():
    def double(ctx, outs, x, y):
        with_x, own = (np.asarray(out) for out in outs)
        same.append([with_x.ctypes.data == np.asarray(x).ctypes.data, own.ctypes.data == np.asarray(y).ctypes.data])
        with_x *= 2
        own[...] = np.asarray(y) + 1

    same, x = [], jnp.arange(4.0)
    f = jax.jit(buffer_callback(double, (like(x), like(x)), input_output_aliases={0: 0}))
    return [[v.tolist() for v in f(x, x + 5)], x.tolist(), same]


@case
def buffers_in_shard_map():
    def scale(ctx, out, x, *, by):
        np.asarray(out)[...] = np.asarray(x) * np.asarray(by)

    @jax.jit
    @functools.partial(jax.shard_map, mesh=LINE, in_specs=(P("x"), P()), out_specs=P("x"), check_vma=False)
    def f(x, by):
        return buffer_callback(scale, like(x))(x, by=by)

    return f(jax.device_put(np.arange(16.0), NamedSharding(LINE, P("x"))), np.float32(3)).tolist()


@case
def buffers_with_effects():
    log = Log()

    def note(ctx, out):
        log(1)

    jax.block_until_ready(jax.jit(buffer_callback(note, jax.ShapeDtypeStruct((), jnp.float32), has_side_effect=True))())
    return log.in_order()


print(json.dumps(RESULTS))
