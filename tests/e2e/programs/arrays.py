"""Dtypes and layouts, and arrays that are made and moved without a program."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

from registry import data, devices, mesh, program, put, smap


# ---- dtypes and layouts


@program
def dtypes_round_trip():
    types = [bool, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.float16, np.float32, np.complex64]
    m = mesh()
    return tuple(jax.jit(lambda a: a[::-1])(put(data(16, 3, dtype=t), m, P("x"))) for t in types)


@program
def bf16_matmul():
    m = mesh()
    f = jax.jit(lambda a, b: (a @ b).astype(jnp.float32))
    return f(put(data(16, 32).astype(jnp.bfloat16), m, P(None, "x")), put(data(32, 8, seed=1).astype(jnp.bfloat16), m, P("x")))


@program
def small_floats():
    m = mesh()
    out = []
    for t in (jnp.float8_e4m3fn, jnp.float8_e5m2):
        a = put(data(16, 4).astype(t), m, P("x"))
        out.append(jax.jit(lambda a: jnp.flip(a, 0).astype(jnp.float32))(a))
    return tuple(out)


@program
def int4_values():
    m = mesh()
    a = put((np.arange(32) % 15 - 7).reshape(16, 2).astype(jnp.int4), m, P("x"))
    b = jax.jit(lambda a: jnp.flip(a, 0))(a)
    return np.asarray(a).astype(np.int32), np.asarray(b).astype(np.int32), jax.jit(lambda a: a.astype(jnp.int32) * 2)(a)


@program
def zero_d_and_empty():
    m = mesh()
    return (jax.jit(lambda a: a + 1)(np.float32(3)), jax.jit(lambda a: a * 2)(np.zeros((0, 3), np.float32)),
            put(np.zeros((8, 0), np.float32), m, P("x")), put(np.float32(4), m, P()))


@program
def strided_inputs():
    m = mesh()
    a = data(16, 24)
    return (put(a.T, m, P("x")), put(a[:, ::3], m, P("x")), put(np.asfortranarray(a), m, P("x")),
            jax.jit(lambda v: v * 2)(a.T), jax.device_put(a[::2].T))


@program
def inputs_that_walk_backwards_or_stand_still():
    m = mesh()
    a, rows = data(16, 24), data(24)
    still = np.broadcast_to(rows, (16, 24))
    aligned = NamedSharding(m, P("x"))
    f = jax.jit(lambda v: v * 2)
    return (jnp.asarray(a[::-1]), jnp.ones(24) + rows[::-1], [f(a[:, ::-1]) for _ in range(3)], f.lower(a).compile()(np.flip(a)),
            put(still, m, P("x")), put(still, m, P()), jax.device_put(np.rot90(a), jax.devices()[1]),
            jax.make_array_from_callback((16, 24), aligned, lambda index: still[index]),
            jax.make_array_from_process_local_data(aligned, still))


@program
def column_major_collectives():
    m = mesh()
    f = smap(lambda a: (lax.psum(a.T @ a, "x"), lax.all_gather(a.T, "x", axis=1, tiled=True)), m, P("x"), (P(), P()))
    return f(put(data(16, 5), m, P("x")))


# ---- arrays without programs


@program
def device_put_moves():
    d = devices()
    a = jax.device_put(data(5, 3), d[1])
    b = jax.device_put(a, d[6])
    m, r = mesh(), mesh(order=range(7, -1, -1))
    c = put(data(16, 2), m, P("x"))
    return b, jax.device_put(c, NamedSharding(r, P("x"))), jax.device_put(c, NamedSharding(m, P())), jax.device_put(b, NamedSharding(m, P()))


@program
def array_from_callback():
    s = NamedSharding(mesh((4, 2), ("a", "b")), P("b", "a"))
    v = data(8, 8)
    return jax.make_array_from_callback((8, 8), s, lambda i: v[i])


@program
def array_from_single_devices():
    s = NamedSharding(mesh(), P("x"))
    parts = [jax.device_put(np.full((2, 3), i, np.float32), d) for i, d in enumerate(devices())]
    a = jax.make_array_from_single_device_arrays((16, 3), s, parts)
    return a, a.addressable_shards[3].data, jax.jit(lambda a: a.sum(0))(a)


@program
def memory_kinds():
    d = devices()[0]
    a = jax.device_put(data(4, 4), SingleDeviceSharding(d, memory_kind="pinned_host"))
    b = jax.device_put(a, SingleDeviceSharding(d, memory_kind="device"))
    return a, b, jax.jit(lambda v: v + 1)(b)


@program
def reversed_device_order():
    m = mesh(order=range(7, -1, -1))
    return smap(lambda a: lax.psum(a * (1 + lax.axis_index("x")), "x"), m, P("x"), P())(put(data(8, 3), m, P("x")))


@program
def part_of_the_devices():
    m = Mesh(devices()[[5, 2, 7]], ("x",))
    return smap(lambda a: lax.psum(a, "x"), m, P("x"), P())(put(data(6, 3), m, P("x")))


@program
def two_meshes_pipeline():
    d = devices()
    one, two = Mesh(d[:4], ("x",)), Mesh(d[4:], ("x",))
    a = jax.jit(lambda v: v @ v.T)(put(data(8, 8), one, P("x")))
    b = jax.device_put(a, NamedSharding(two, P("x")))
    return jax.jit(lambda v: jnp.tanh(v).sum(0))(b)


@program
def strings():
    text = np.array([["a", "bcd"], ["", "h\u00f6her"]], dtype=np.dtypes.StringDType())
    arrays = [jax.device_put(text, devices()[3]), put(text, mesh((2,)), P("x"))]  # replicated ones can't be read on plain CPU
    return [jax.device_get(array).astype("U8") for array in arrays]
