"""Features of jax as a whole."""

import jax
import jax.export
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from registry import data, devices, mesh, over_x, program, put, smap


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
