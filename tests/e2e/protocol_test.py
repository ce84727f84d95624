"""Older versions of the IFRT proxy protocol, each negotiated with the real client: the same results as the newest."""

import concurrent.futures
import pathlib
import tempfile
import unittest

import numpy as np

from cluster import run_on_cluster

HERE = pathlib.Path(__file__).parent
SHAPE = (1, 2, 4)
OLDER = range(16, 25)
# Puts and reads of all kinds, first and later launches, tokens, copies, layouts, donation, deletion.
PROGRAMS = ["dtypes_round_trip", "int4_values", "zero_d_and_empty", "strided_inputs", "device_put_moves", "array_from_callback",
            "memory_kinds", "donation", "two_meshes_pipeline", "random_numbers", "single_device_jits", "chained_steps"]
CHECKS = """
import runpy, sys, jax, jax.numpy as jnp
compiled = jax.jit(lambda a: a @ a).lower(jnp.ones((8, 8))).compile()
compiled.cost_analysis(), compiled.as_text()
a = jax.jit(lambda a: a + 1)(jnp.ones(4))
a.delete()
assert a.is_deleted()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class OlderProtocols(unittest.TestCase):
    def test_results_are_those_of_the_newest(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "checks.py").write_text(CHECKS)

            def results(protocol):
                out = folder / f"{protocol}.npz"
                run_on_cluster(SHAPE, [folder / "checks.py", HERE / "programs", out, *PROGRAMS],
                               flags=[f"--protocol-max={protocol}", f"--compile-cache-dir={folder}/cache"])
                return dict(np.load(out))

            newest = results(25)
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                for protocol, older in zip(OLDER, pool.map(results, OLDER)):
                    with self.subTest(protocol=protocol):
                        self.assertEqual(set(older), set(newest))
                        for name, value in newest.items():
                            self.assertEqual(value.tobytes(), older[name].tobytes(), name)


if __name__ == "__main__":
    unittest.main()
