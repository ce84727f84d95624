"""Arrays of other libraries (NumPy stands for all) and arrays of the cluster, exchanged by DLPack."""

import pathlib
import tempfile
import unittest

from cluster import run_on_cluster

SCRIPT = """
import os; os.environ["JAX_PLATFORMS"] = "{platforms}"
import jax, jax.numpy as jnp, numpy as np

d = jax.devices()
assert len(d) == 4
lands_on = set(d[:1]) if os.environ["JAX_PLATFORMS"] == "proxy" else set(jax.devices("cpu")[:1])  # of "proxy,cpu" it is the local one
for x in (np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(4).reshape(2, 2).T, np.array(3), np.zeros((0, 3), np.float16),
          np.array([True, False])):
    y = jnp.from_dlpack(x)
    assert y.devices() == lands_on and (np.asarray(y) == x).all(), y
    there = jnp.from_dlpack(x, device=d[3])
    assert there.devices() == {{d[3]}} and (np.asarray(jax.jit(lambda v: v == 1)(there)) == (x == 1)).all(), there
    assert (np.from_dlpack(there) == x).all() and np.from_dlpack(there).dtype == there.dtype
    assert jax.dlpack.from_dlpack(there).devices() == lands_on
for exchange in (lambda: jnp.from_dlpack(np.arange(3.0), device=d[1], copy=False), lambda: there.__dlpack__(copy=False)):
    try:
        exchange()
        raise SystemExit("no error")
    except ValueError as error:
        assert "requires a copy" in str(error), error
sharded = jax.device_put(jnp.arange(4), jax.sharding.NamedSharding(jax.make_mesh((4,), ("x",)), jax.sharding.PartitionSpec("x")))
try:
    sharded.__dlpack__()
    raise SystemExit("no error")
except BufferError as error:
    assert "over 4 devices" in str(error), error
"""


class DLPack(unittest.TestCase):
    def test_arrays_come_and_go_by_the_host(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "script.py"
            for platforms in ("proxy", "proxy,cpu"):
                with self.subTest(platforms=platforms):
                    script.write_text(SCRIPT.format(platforms=platforms))
                    run_on_cluster((1, 2, 2), [script])


if __name__ == "__main__":
    unittest.main()
