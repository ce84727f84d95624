"""Small programs that cover every collective form, layout and dtype; each returns arrays to be compared.

    python programs.py OUT.npz        runs them all on jax.devices()[:8] and stores the results

conformance_test.py runs this file on plain CPU JAX and on clusters of several shapes.
"""

import functools
import sys

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def devices():
    return np.array(jax.devices()[:8])


def mesh(shape=(8,), names=("x",), order=None):
    d = devices() if order is None else devices()[list(order)]
    return Mesh(d[: int(np.prod(shape))].reshape(shape), names)


def data(*shape, dtype=np.float32, seed=0):
    r = np.random.default_rng(seed)
    if dtype == bool:
        return r.integers(0, 2, shape).astype(bool)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return r.integers(max(info.min, -50), min(info.max, 50), shape).astype(dtype)
    if np.issubdtype(dtype, np.complexfloating):
        return (r.standard_normal(shape) + 1j * r.standard_normal(shape)).astype(dtype)
    return r.standard_normal(shape).astype(dtype)


def put(value, m, spec):
    return jax.device_put(value, NamedSharding(m, spec))


def smap(f, m, in_specs, out_specs):
    return jax.jit(jax.shard_map(f, mesh=m, in_specs=in_specs, out_specs=out_specs, check_vma=False))


def over_x(f, value, out=P("x"), m=None, spec=P("x")):
    m = m or mesh()
    return smap(f, m, spec, out)(put(value, m, spec))


# ---- reductions


@program
def psum_f32():
    return over_x(lambda a: lax.psum(a, "x"), data(8, 33))


@program
def psum_large():
    # Over the size at which an all-reduce is cut into chunks.
    return over_x(lambda a: lax.psum(a, "x"), data(8, 70001), out=P(None))


@program
def psum_scalar():
    return over_x(lambda a: lax.psum(a[0], "x"), data(8), out=P())


def psum_of(dtype):
    return over_x(lambda a: lax.psum(a, "x"), data(8, 5, dtype=dtype))


for _t in (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.float16, np.complex64):
    PROGRAMS[f"psum_{np.dtype(_t).name}"] = functools.partial(psum_of, _t)


@program
def psum_bf16():
    return over_x(lambda a: lax.psum(a.astype(jnp.bfloat16), "x").astype(jnp.float32), data(8, 9))


@program
def psum_x64():
    with jax.enable_x64(True):
        return (over_x(lambda a: lax.psum(a, "x"), data(8, 5, dtype=np.float64)),
                over_x(lambda a: lax.psum(a, "x"), data(8, 5, dtype=np.int64)),
                over_x(lambda a: lax.psum(a, "x"), data(8, 5, dtype=np.complex128)))


@program
def pmax_pmin():
    return over_x(lambda a: lax.pmax(a, "x") - 2 * lax.pmin(a, "x"), data(8, 17))


@program
def pmax_int():
    return over_x(lambda a: lax.pmax(a, "x") * lax.pmin(a, "x"), data(8, 17, dtype=np.int32))


@program
def pmean():
    return over_x(lambda a: lax.pmean(a, "x"), data(8, 6))


@program
def reduce_any_all():
    m = mesh()
    f = jax.jit(lambda a: (jnp.any(a, 0), jnp.all(a, 0)), out_shardings=NamedSharding(m, P()))
    return f(put(data(16, 7, dtype=bool), m, P("x")))


@program
def reduce_prod():
    m = mesh()
    return jax.jit(lambda a: jnp.prod(a, 0))(put(1 + 0.1 * data(16, 3), m, P("x")))


@program
def psum_two_axes():
    m = mesh((4, 2), ("a", "b"))
    f = smap(lambda v: (lax.psum(v, "a"), lax.psum(v, "b"), lax.psum(v, ("a", "b"))), m, P("a", "b"),
             (P(None, "b"), P("a", None), P()))
    return f(put(data(8, 4), m, P("a", "b")))


@program
def psum_pytree_variadic():
    def f(a, b, c):
        return lax.psum((a, b * 2, c.sum()), "x")
    m = mesh()
    return smap(f, m, (P("x"), P("x"), P("x")), (P(), P(), P()))(
        put(data(8, 3), m, P("x")), put(data(8, 2, 2, seed=1), m, P("x")), put(data(8, 5, dtype=np.int32), m, P("x")))


@program
def many_independent_psums():
    m = mesh((4, 2), ("a", "b"))
    def f(v):
        return sum(lax.psum(jnp.sin(v * i), "a") + lax.pmax(v * i, "b") - lax.pmin(v + i, "a") for i in range(1, 5))
    return smap(f, m, P("a", "b"), P(None, None))(put(data(64, 32), m, P("a", "b")))


# ---- gathers, scatters, exchanges


@program
def all_gather_dims():
    v = data(8, 6, 4)
    return tuple(over_x(lambda a, d=d: lax.all_gather(a, "x", axis=d, tiled=True), v, out=P(None)) for d in range(3))


@program
def all_gather_untiled():
    return over_x(lambda a: lax.all_gather(a, "x", axis=1), data(8, 3), out=P("x"))


@program
def all_gather_types():
    return tuple(over_x(lambda a: lax.all_gather(a, "x", tiled=True), data(16, 3, dtype=t), out=P())
                 for t in (bool, np.int8, np.uint16, np.complex64, np.float16))


@program
def all_gather_subgroups():
    m = mesh((2, 4), ("a", "b"))
    return smap(lambda v: lax.all_gather(v, "a", tiled=True) * 2, m, P("a", "b"), P(None, "b"))(
        put(data(4, 8), m, P("a", "b")))


@program
def psum_scatter_dims():
    v = data(8, 16, 8)
    return tuple(over_x(lambda a, d=d: lax.psum_scatter(a[0], "x", scatter_dimension=d, tiled=True)[None], v)
                 for d in range(2))


@program
def psum_scatter_int():
    return over_x(lambda a: lax.psum_scatter(a[0], "x", scatter_dimension=0, tiled=True), data(8, 8, 3, dtype=np.int32))


@program
def all_to_all_dims():
    v = data(8, 8, 8)
    return (over_x(lambda a: lax.all_to_all(a, "x", 1, 0, tiled=True), v),
            over_x(lambda a: lax.all_to_all(a, "x", 2, 1, tiled=True), v),
            over_x(lambda a: lax.all_to_all(a, "x", 1, 2, tiled=True), v))


@program
def all_to_all_subgroup():
    m = mesh((2, 4), ("a", "b"))
    return smap(lambda v: lax.all_to_all(v, "b", 0, 1, tiled=True), m, P("a", "b"), P("a", "b"))(
        put(data(16, 16), m, P("a", "b")))


@program
def ppermute_ring():
    return over_x(lambda a: lax.ppermute(a, "x", [(i, (i + 3) % 8) for i in range(8)]), data(8, 5))


@program
def ppermute_holes():
    return over_x(lambda a: lax.ppermute(a, "x", [(0, 5), (3, 1)]) + 1, data(8, 5))


@program
def ppermute_self_and_swap():
    return over_x(lambda a: lax.ppermute(a, "x", [(0, 0), (1, 2), (2, 1)]), data(8, 2, dtype=np.int8))


@program
def axis_index():
    m = mesh((2, 4), ("a", "b"))
    return smap(lambda: jnp.stack([lax.axis_index("a"), lax.axis_index("b")])[None, None], m, (), P("a", "b"))()


@program
def shift_halo():
    m = mesh()
    return jax.jit(lambda a: a[1:-1] - 0.5 * (a[2:] + a[:-2]))(put(data(66 - 2, 3), m, P("x")))


@program
def roll_sharded():
    m = mesh()
    return jax.jit(lambda a: jnp.roll(a, 5, 0))(put(data(64), m, P("x")))


@program
def conv_halo():
    m = mesh()
    f = jax.jit(lambda a, k: lax.conv_general_dilated(a, k, (1, 1), "SAME"))
    return f(put(data(1, 2, 32, 8), m, P(None, None, "x")), data(3, 2, 3, 3, seed=1))


# ---- jit with shardings: what the partitioner makes


@program
def matmul_contracted():
    m = mesh((4, 2), ("a", "b"))
    f = jax.jit(lambda x, w: x @ w, out_shardings=NamedSharding(m, P("a", "b")))
    return f(put(data(16, 32), m, P(None, ("a", "b"))), put(data(32, 8, seed=1), m, P(("a", "b"))))


@program
def matmul_fsdp():
    m = mesh((2, 2, 2), ("d", "f", "t"))
    f = jax.jit(lambda x, w, u: jax.nn.relu(x @ w) @ u)
    return f(put(data(16, 8), m, P(("d", "f"))), put(data(8, 16, seed=1), m, P("f", "t")),
             put(data(16, 8, seed=2), m, P("t", "f")))


@program
def einsum_batched():
    m = mesh((2, 4), ("a", "b"))
    f = jax.jit(lambda q, k: jnp.einsum("bthd,bshd->bhts", q, k))
    return f(put(data(4, 6, 4, 8), m, P("a", None, "b")), put(data(4, 6, 4, 8, seed=1), m, P("a", None, "b")))


@program
def reshard_rows_to_columns():
    m = mesh()
    f = jax.jit(lambda a: a * 2, out_shardings=NamedSharding(m, P(None, "x")))
    return f(put(data(16, 24), m, P("x")))


@program
def reshard_axes_swap():
    m = mesh((4, 2), ("a", "b"))
    f = jax.jit(lambda a: a + 1, out_shardings=NamedSharding(m, P("b", "a")))
    return f(put(data(8, 16), m, P("a", "b")))


@program
def replicate_and_slice():
    m = mesh()
    a = jax.jit(lambda a: a, out_shardings=NamedSharding(m, P()))(put(data(16, 3), m, P("x")))
    return a, jax.jit(lambda a: a * 3, out_shardings=NamedSharding(m, P("x")))(a)


@program
def embedding_gather():
    m = mesh()
    return jax.jit(lambda t, i: t[i])(put(data(64, 8), m, P("x")), data(10, dtype=np.int32) % 64)


@program
def scatter_add():
    m = mesh()
    f = jax.jit(lambda t, i, u: t.at[i].add(u))
    return f(put(data(64, 4), m, P("x")), np.arange(0, 60, 6), data(10, 4, seed=2))


@program
def sort_and_argsort():
    m = mesh()
    a = put(data(64), m, P("x"))
    return jax.jit(lambda a: (jnp.sort(a), jnp.argsort(a)))(a)


@program
def cumsum_sharded():
    m = mesh()
    return jax.jit(lambda a: jnp.cumsum(a, 0))(put(data(32, 3), m, P("x")))


@program
def associative_scan():
    m = mesh()
    return jax.jit(lambda a: lax.associative_scan(jnp.maximum, a))(put(data(32), m, P("x")))


@program
def fft_sharded():
    m = mesh()
    f = jax.jit(lambda a: jnp.fft.fft(a, axis=0))
    return f(put(data(16, 8), m, P(None, "x"))), f(put(data(16, 8), m, P("x")))


@program
def top_k():
    m = mesh()
    return jax.jit(lambda a: lax.top_k(a, 3))(put(data(8, 32), m, P("x")))


@program
def segment_sum():
    m = mesh()
    f = jax.jit(lambda v, s: jax.ops.segment_sum(v, s, num_segments=6))
    return f(put(data(48, 2), m, P("x")), np.arange(48) % 6)


@program
def softmax_over_shards():
    m = mesh((2, 4), ("a", "b"))
    return jax.jit(lambda a: jax.nn.softmax(a, -1))(put(data(4, 64), m, P("a", "b")))


@program
def variance_and_norm():
    m = mesh()
    return jax.jit(lambda a: ((a - a.mean(0)) / a.std(0), jnp.linalg.norm(a)))(put(data(64, 4), m, P("x")))


@program
def dynamic_slice_sharded():
    m = mesh()
    return jax.jit(lambda a, i: lax.dynamic_slice(a, (i, 0), (7, 3)))(put(data(32, 4), m, P("x")), 13)


@program
def pad_concatenate():
    m = mesh()
    f = jax.jit(lambda a, b: jnp.pad(jnp.concatenate([a, b]), ((2, 3), (0, 1))))
    return f(put(data(8, 3), m, P("x")), put(data(16, 3, seed=1), m, P("x")))


# ---- control flow


@program
def scan_with_psum():
    def f(a):
        def body(carry, x):
            carry = carry + lax.psum(x * carry, "x")
            return carry, carry.sum()
        return lax.scan(body, a, jnp.arange(1.0, 6.0))
    m = mesh()
    return smap(f, m, P("x"), (P("x"), P(None)))(put(data(8, 3) * 0.1, m, P("x")))


@program
def fori_ring_reduce():
    def f(a):
        def body(_, s):
            acc, moving = s
            moving = lax.ppermute(moving, "x", [(i, (i + 1) % 8) for i in range(8)])
            return acc + moving, moving
        return lax.fori_loop(0, 7, body, (a, a))[0]
    return over_x(f, data(8, 4))


@program
def while_until_small():
    def f(a):
        return lax.while_loop(lambda s: lax.psum(jnp.sum(s), "x") > 1.0, lambda s: s * 0.7, jnp.abs(a))
    return over_x(f, data(8, 4))


@program
def cond_divergent():
    # Ranks take different branches; the collective is outside of them.
    def f(a):
        b = lax.cond(lax.axis_index("x") % 2 == 0, lambda v: v * 2, lambda v: v - 1, a)
        return lax.psum(b, "x") + a
    return over_x(f, data(8, 3))


@program
def cond_collective_inside():
    # All members of a group take the same branch, different groups different ones.
    m = mesh((2, 4), ("a", "b"))
    def f(v):
        return lax.cond(lax.axis_index("a") == 0, lambda u: lax.psum(u, "b"), lambda u: u * 3, v)
    return smap(f, m, P("a", "b"), P("a", "b"))(put(data(4, 8), m, P("a", "b")))


@program
def nested_scan_gather():
    def f(a):
        def outer(c, _):
            def inner(d, _):
                return d + lax.all_gather(d, "x", tiled=True).sum() * 0.01, None
            return lax.scan(inner, c, None, length=3)[0], None
        return lax.scan(outer, a, None, length=2)[0]
    return over_x(f, data(8, 2))


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


# ---- whole features


@program
def donation():
    m = mesh()
    f = jax.jit(lambda a, b: (a + b, a - b), donate_argnums=0)
    a, b = put(data(16, 4), m, P("x")), put(data(16, 4, seed=1), m, P("x"))
    for _ in range(3):
        a, b = f(a, b)
    return a, b


@program
def pmap_psum():
    return jax.pmap(lambda a: lax.psum(a, "i") + lax.axis_index("i"), axis_name="i", devices=list(devices()))(data(8, 3))


@program
def random_numbers():
    m = mesh()
    f = jax.jit(lambda k: (jax.random.normal(k, (16, 4)), jax.random.randint(k, (8,), 0, 100)),
                out_shardings=NamedSharding(m, P("x")))
    return f(jax.random.key(3)), jax.random.permutation(jax.random.key(1), 20)


@program
def dropout_sharded():
    m = mesh()
    f = jax.jit(lambda a, k: jnp.where(jax.random.bernoulli(k, 0.5, a.shape), a * 2, 0))
    return f(put(data(32, 4), m, P("x")), jax.random.key(0))


@program
def gradient_data_parallel():
    m = mesh()
    def loss(w, x, y):
        return jnp.mean((jnp.tanh(x @ w) - y) ** 2)
    step = jax.jit(lambda w, x, y: w - 0.1 * jax.grad(loss)(w, x, y))
    w = put(data(6, 2) * 0.1, m, P())
    for i in range(5):
        w = step(w, put(data(32, 6, seed=i), m, P("x")), put(data(32, 2, seed=i + 9), m, P("x")))
    return w


@program
def gradient_through_collectives():
    m = mesh()
    def loss(a):
        return jnp.sum(lax.all_gather(lax.psum(a ** 2, "x") * a, "x") ** 2)
    return smap(jax.grad(loss), m, P("x"), P("x"))(put(data(8, 3) * 0.3, m, P("x")))


@program
def vmap_of_psum():
    return over_x(lambda a: jax.vmap(lambda v: lax.psum(v, "x") * v)(a), data(8, 4, 3))


@program
def moe_dispatch():
    def f(x, e):
        routed = lax.all_to_all(x.reshape(8, -1, x.shape[-1]), "x", 0, 0)
        return lax.all_to_all(routed * e[0], "x", 0, 0).reshape(x.shape)
    m = mesh()
    return smap(f, m, (P("x"), P("x")), P("x"))(put(data(128, 4), m, P("x")), put(data(8, seed=1), m, P("x")))


@program
def single_device_jits():
    f = jax.jit(lambda a: jnp.sort(jnp.tanh(a) @ a.T))
    return tuple(f(jax.device_put(data(4, 4, seed=i), d)) for i, d in enumerate(devices()[[0, 3, 7]]))


@program
def chained_steps():
    m = mesh()
    f = smap(lambda a: lax.pmean(a, "x") * 0.9 + a * 0.1, m, P("x"), P("x"))
    a = put(data(8, 16), m, P("x"))
    for _ in range(50):
        a = f(a)
    return a


@program
def unreduced_values():
    # Values that are sums over an axis still to be taken: made by device_put, used by shard_map, reduced in part.
    explicit = Mesh(devices()[:4].reshape(2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    with jax.set_mesh(explicit):
        value = jax.device_put(jnp.arange(8.0), P(unreduced={"x"}))
        summed = jax.jit(jax.shard_map(lambda v: lax.psum(v, "x"), in_specs=P(unreduced={"x"}), out_specs=P(), check_vma=False))(value)
        a = jax.device_put(data(8, 2), P("x", "y"))
        b = jax.device_put(data(2, 4, seed=1), P("y", None))
        product = jnp.dot(a, b, out_sharding=P("x", unreduced={"y"}))
        columns = jax.jit(lambda v: lax.reduce_sum(v, axes=[0], out_sharding=P(unreduced={"x"})))(product)
        return jax.reshard(value, P()), summed, jax.reshard(columns, P())


@program
def tokens():
    token = lax.create_token(None)
    x, token = jax.jit(lambda x, t: (x + 1, t))(jnp.arange(8), token)
    token.block_until_ready()
    return x


@program
def exported():
    # A sharded program that left jax as StableHLO and came back.
    sharding = NamedSharding(mesh(), P("x"))
    function = jax.jit(lambda x: jnp.cumsum(x) + jnp.sin(x), in_shardings=sharding, out_shardings=sharding)
    x = jax.device_put(data(16), sharding)
    return jax.jit(jax.export.export(function)(x).call, out_shardings=sharding)(x)


# ---- what XLA asks its client while it partitions


def cut(*spec, shape=(4, 2)):
    return put(data(8, 6, 6), mesh(shape, ("x", "y")), P(*spec))


@program
def batches_of_matrices():
    factor = jax.jit(lambda a: jnp.linalg.cholesky(a @ a.swapaxes(1, 2) + 6 * jnp.eye(6)))
    return [factor(cut("x")), factor(cut(("x", "y"))), factor(cut(None, "y")), jax.jit(jnp.linalg.inv)(cut("y"))]


@program
def inspected_shardings():
    heard = []

    def function(a):
        jax.debug.inspect_array_sharding(a, callback=lambda sharding: heard.append(sharding.shard_shape(a.shape)))
        b = jnp.sin(a).sum(axis=2)
        jax.debug.inspect_array_sharding(b, callback=lambda sharding: heard.append((*sharding.shard_shape(b.shape), 0)))
        return b

    return [jax.jit(function)(cut("x", "y")), np.array(heard)]


@program
def own_partitioning_rules():
    @custom_partitioning
    def weighted(a, b):
        return a * b.sum(axis=(1, 2), keepdims=True)

    def partition(mesh, arguments, result):
        rows = NamedSharding(mesh, P(arguments[0].sharding.spec[0]))
        return mesh, lambda a, b: a * b.sum(axis=(1, 2), keepdims=True), rows, (rows, rows)

    weighted.def_partition(partition, sharding_rule="i j k, i l m -> i j k")
    return jax.jit(lambda a, b: weighted(a + 1, b))(cut("x", "y"), cut("x"))


@program
def partitioned_callbacks():
    seen = []
    jax.jit(lambda a: jax.debug.callback(lambda a: seen.append((a.shape, float(a.sum()))), a, partitioned=True))(cut("x", "y"))
    jax.effects_barrier()
    return [np.array([[*shape, total] for shape, total in sorted(seen)])]


@program
def strings():
    text = np.array([["a", "bcd"], ["", "h\u00f6her"]], dtype=np.dtypes.StringDType())
    arrays = [jax.device_put(text, devices()[3]), put(text, mesh((2,)), P("x"))]  # replicated ones can't be read on plain CPU
    return [jax.device_get(array).astype("U8") for array in arrays]


def run(names=None):
    results = {}
    for name in names or PROGRAMS:
        for i, leaf in enumerate(jax.tree.leaves(PROGRAMS[name]())):
            value = np.asarray(leaf)
            results[f"{name}/{i}"] = value.astype(np.float32) if value.dtype.name in ("bfloat16",) else value
    return results


if __name__ == "__main__":
    np.savez(sys.argv[1], **run(sys.argv[2:]))
    print(f"{len(sys.argv[2:]) or len(PROGRAMS)} programs done")
