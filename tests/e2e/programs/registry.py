"""What the programs have in common: how they make themselves known, their devices and their data."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

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
