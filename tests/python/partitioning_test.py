"""What is asked while a program is partitioned, answered beforehand: on plain CPU JAX, whose own partitioner must then have
nothing to ask."""

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
from jax._src.lib.mlir import ir  # noqa: E402
from jax.experimental.custom_partitioning import custom_partitioning  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P  # noqa: E402

from switchtower import partitioning, shardings  # noqa: E402

partitioning.install(lambda backend: True)


def put(value, *spec):
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    return jax.device_put(value, NamedSharding(mesh, P(*spec)))


def matrices(count=8, size=6, dtype=np.float32):
    random = np.random.default_rng(0).standard_normal((count, size, size)).astype(dtype)
    return random @ random.swapaxes(1, 2) + size * np.eye(size, dtype=dtype)


def asked(function, *arguments) -> list[str]:
    """The custom calls that are left."""
    module = partitioning.partition_calls(jax.jit(function).lower(*arguments).compiler_ir())
    with module.context:
        return [shardings.target_of(call) for call in shardings.calls_of(module, partitioning._answer)]


class Batches(unittest.TestCase):
    def check(self, function, *arguments):
        compiled = jax.jit(function).lower(*arguments).compile()
        self.assertNotIn("all-", compiled.as_text())
        expected = function(*(np.asarray(argument) for argument in arguments))
        for actual, wanted in zip(jax.tree.leaves(compiled(*arguments)), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(np.abs(actual), np.abs(wanted), rtol=1e-3, atol=1e-4)

    def test_each_device_has_its_matrices(self):
        for spec in (("x",), (("x", "y"),), ("y",)):
            a = put(matrices(), *spec)
            for function in (jnp.linalg.cholesky, jnp.linalg.qr, jnp.linalg.eigh, jax.scipy.linalg.lu_factor,
                             lambda a: jnp.linalg.svd(a, full_matrices=False), lambda a: jnp.linalg.solve(a, a)):
                with self.subTest(spec=spec, function=function):
                    self.check(function, a)

    def test_inside_loops_functions_and_shard_map(self):
        a = put(matrices(), "x")
        step = jax.jit(lambda a: jnp.linalg.cholesky(a) + 6 * jnp.eye(6))
        self.check(lambda a: jax.lax.scan(lambda c, _: (step(c), None), a, None, length=2)[0], a)
        by_y = jax.shard_map(jnp.linalg.cholesky, mesh=a.sharding.mesh, in_specs=P(None), out_specs=P(None), axis_names={"y"},
                             check_vma=False)
        compiled = jax.jit(by_y).lower(a).compile()
        self.assertNotIn("all-", compiled.as_text())
        np.testing.assert_allclose(compiled(a), jnp.linalg.cholesky(np.asarray(a)), rtol=1e-4)

    def test_what_lies_differently_from_call_to_call_stays(self):
        a, b = put(matrices(), "x"), put(matrices(), "y")
        factor = jax.jit(jnp.linalg.cholesky)
        both = lambda a, b: (factor(a), factor(b))  # noqa: E731
        self.assertEqual(len(asked(both, a, b)), 1)
        for actual, wanted in zip(jax.jit(both)(a, b), both(np.asarray(a), np.asarray(b))):
            np.testing.assert_allclose(actual, wanted, rtol=1e-4)

    def test_matrices_that_are_cut_themselves_or_not_at_all(self):
        for spec in (("x", None, "y"), (None, None, "y"), ()):
            a = put(matrices(), *spec)
            np.testing.assert_allclose(jax.jit(jnp.linalg.cholesky)(a), jnp.linalg.cholesky(np.asarray(a)), rtol=1e-4)

    def test_the_program_that_jax_holds_stays(self):
        lowered = jax.jit(jnp.linalg.cholesky).lower(put(matrices(), "x"))
        before = str(lowered.compiler_ir())
        self.assertIsNot(partitioning.partition_calls(lowered.compiler_ir()), lowered.compiler_ir())
        self.assertEqual(str(lowered.compiler_ir()), before)
        plain = jax.jit(jnp.sin).lower(put(matrices(), "x")).compiler_ir()
        self.assertIs(partitioning.partition_calls(plain), plain)


class Inspecting(unittest.TestCase):
    def test_the_callback_hears_how_a_value_lies(self):
        heard = []

        def function(a):
            jax.debug.inspect_array_sharding(a, callback=heard.append)
            b = a @ a.T
            jax.debug.inspect_array_sharding(b, callback=heard.append)
            return b.sum()

        a = put(np.ones((8, 4), np.float32), "x", "y")
        self.assertEqual(asked(function, a), [])
        del heard[:]
        self.assertEqual(float(jax.jit(function)(a)), 256)
        self.assertEqual(len(heard), 2)
        self.assertTrue(heard[0].is_equivalent_to(a.sharding, 2))
        self.assertEqual(heard[1].shard_shape((8, 8)), (2, 8))

    def test_an_error_of_the_callback_is_the_compiles(self):
        def function(a):
            jax.debug.inspect_array_sharding(a, callback=lambda sharding: 1 / 0)
            return a

        with self.assertRaises(ZeroDivisionError):
            jax.jit(function)(put(np.ones(8), "x"))


class OwnRules(unittest.TestCase):
    def test_the_partitioned_function_takes_the_calls_place(self):
        seen = []

        @custom_partitioning
        def scaled_sum(a, b):
            return a * b, a.sum(axis=1)

        def partition(mesh, arguments, results):
            seen.append([argument.sharding.spec for argument in arguments])
            rows = NamedSharding(mesh, P(arguments[0].sharding.spec[0]))

            def by_device(a, b):
                return a * b, jax.lax.psum(a.sum(axis=1), "y") / 2

            return mesh, by_device, (rows, rows), (rows, rows)

        scaled_sum.def_partition(partition, sharding_rule="i j, i j -> i j, i")
        a, b = put(np.arange(32.0).reshape(8, 4), "x", "y"), put(np.ones((8, 4)), "x")
        function = lambda a, b: scaled_sum(a + 1, b)  # noqa: E731
        self.assertEqual(asked(function, a, b), [])
        product, total = jax.jit(function)(a, b)
        np.testing.assert_array_equal(product, np.asarray(a) + 1)
        np.testing.assert_allclose(total, (np.asarray(a) + 1).sum(axis=1))
        self.assertEqual(seen[-1][0], P("x", "y"))


class PartitionedCallbacks(unittest.TestCase):
    def test_each_device_calls_with_its_shard(self):
        a = put(np.arange(8.0), "x")

        def function(a):
            jax.debug.callback(lambda a: None, a, partitioned=True)
            return a

        module = partitioning.partition_calls(jax.jit(function).lower(a).compiler_ir())
        with module.context:
            (call,) = shardings.calls_of(module, lambda call: "partitioned" in shardings.target_of(call))
            self.assertEqual(ir.RankedTensorType(call.operands[0].type).shape, [2])
            self.assertEqual(call.parent.operation.name, "sdy.manual_computation")

    def test_scalars_beside_it_lie_nowhere_in_particular(self):
        @custom_partitioning
        def scaled(a, by):
            return a * by

        scaled.def_partition(
            lambda mesh, arguments, result: (mesh, lambda a, by: a * by, arguments[0].sharding, tuple(a.sharding for a in arguments)),
            sharding_rule="i, -> i")
        heard = []

        def function(a, by):
            jax.debug.callback(lambda a, by: None, a, by, partitioned=True)
            jax.debug.inspect_array_sharding(by, callback=heard.append)
            return scaled(a, by)

        left = asked(function, put(np.arange(8.0), "x"), 3.0)
        self.assertEqual(left, ["xla_ffi_partitioned_python_cpu_callback"])  # by device
        self.assertEqual([sharding.spec for sharding in heard], [P()])

    def test_what_is_cut_in_several_ways_says_what_to_do(self):
        look = jax.jit(lambda a: jax.debug.callback(lambda a: None, a, partitioned=True))
        a, b = put(np.arange(8.0), "x"), put(np.arange(8.0), "y")
        with self.assertRaisesRegex(NotImplementedError, "leave partitioned out"):
            jax.jit(lambda a, b: (look(a), look(b))).lower(a, b).compile()


if __name__ == "__main__":
    unittest.main()
