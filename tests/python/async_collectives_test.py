"""Collectives with a start and an end, made whole: what plain CPU JAX computes of them doesn't change."""

import os
import pathlib
import sys
import unittest

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax._src.lax import parallel  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P  # noqa: E402

from switchtower import async_collectives  # noqa: E402


@unittest.skipUnless(hasattr(parallel, "psum_start"), "this jax has no collectives with a start")
class AsyncCollectives(unittest.TestCase):
    def lowered(self, start):
        mesh = Mesh(np.array(jax.devices()), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))

        def shard(x):
            handle = start(x)
            y = jnp.sin(x)
            return handle.done() * y.sum()

        x = jax.device_put(np.arange(64.0 * 8).reshape(64, 8), NamedSharding(mesh, P("i")))
        return jax.jit(jax.shard_map(shard, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)).lower(x)

    def test_starts_are_gone_and_nothing_else_changes(self):
        for start in (lambda x: parallel.psum_start(x, "i"),
                      lambda x: parallel.all_gather_start(x, "i", tiled=True),
                      lambda x: parallel.psum_scatter_start(x, "i", scatter_dimension=0, tiled=True),
                      lambda x: parallel.all_to_all_start(x, "i", 0, 0, tiled=True),
                      lambda x: parallel.ppermute_start(x, "i", [(0, 1), (1, 0)])):
            with self.subTest(start=start):
                module = self.lowered(start).compiler_ir()
                before = str(module)
                whole = async_collectives.with_whole_collectives(module)
                self.assertIn("async_start", before)
                self.assertNotIn("async", str(whole))
                self.assertTrue(whole.operation.verify())
                self.assertEqual(str(module), before)
                self.assertIs(async_collectives.with_whole_collectives(whole), whole)

    def test_orders_for_starts_go_and_others_stay(self):
        try:
            from jax.experimental.control_deps import control_dep, schedule
        except ImportError:
            self.skipTest("this jax has no control dependencies")

        mesh = Mesh(np.array(jax.devices()), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))

        def begun(handle):
            return getattr(handle, "x", handle)  # jax 0.10.2 wraps what it traces

        def shard(x):
            first, second = (parallel.psum_start(each, "i") for each in (x, x * 2))
            ends = first.done(), second.done()
            schedule([begun(first), begun(second), ends[0]])
            control_dep(begun(first), begun(first))
            control_dep(jnp.sin(ends[0]), ends[1])
            return ends[0] + ends[1]

        x = jax.device_put(np.arange(8.0), NamedSharding(mesh, P("i")))
        module = jax.jit(jax.shard_map(shard, mesh=mesh, in_specs=P("i"), out_specs=P(), check_vma=False)).lower(x).compiler_ir()
        whole = async_collectives.with_whole_collectives(module)
        self.assertEqual([str(each).count("@control_dep(") for each in (module, whole)], [4, 1])
        self.assertNotIn("async", str(whole))
        self.assertTrue(whole.operation.verify())


if __name__ == "__main__":
    unittest.main()
