"""Collectives that the program names: reductions; gathers, scatters and exchanges; in loops and conditionals."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

from registry import PROGRAMS, data, mesh, over_x, program, put, smap


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
