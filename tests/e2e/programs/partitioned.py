"""jit with shardings: the collectives that the partitioner makes, and what it asks its client for."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec as P

from registry import data, mesh, program, put


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
