"""Every program of programs/ gives plain CPU JAX's results, and the same bits on every shape of cluster."""

import pathlib
import tempfile
import unittest

import numpy as np

from cluster import SHAPES, plain_cpu, run_on_cluster

HERE = pathlib.Path(__file__).parent


class Conformance(unittest.TestCase):
    def test_same_results_as_plain_cpu_and_same_bits_on_all_shapes(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            plain_cpu([HERE / "programs", folder / "cpu.npz"])
            expected = np.load(folder / "cpu.npz")
            self.assertGreaterEqual(len({key.split("/")[0] for key in expected}), 60)
            first = None
            for shape in SHAPES:
                run_on_cluster(shape, [HERE / "programs", folder / "out.npz"], flags=[f"--compile-cache-dir={folder}/cache"])
                actual = dict(np.load(folder / "out.npz"))
                self.assertEqual(set(actual), set(expected.files))
                first = first or actual
                for key in expected.files:
                    with self.subTest(shape=shape, result=key):
                        self.compare(expected[key], actual[key], key.startswith("bf16"))
                        self.assertEqual(first[key].tobytes(), actual[key].tobytes(), "bits differ between shapes")

    def compare(self, expected, actual, is_bf16):
        self.assertEqual(expected.dtype, actual.dtype)
        self.assertEqual(expected.shape, actual.shape)
        if np.issubdtype(expected.dtype, np.inexact):
            half = expected.dtype == np.float16 or is_bf16
            np.testing.assert_allclose(actual, expected, rtol=2e-2 if half else 2e-4, atol=2e-2 if half else 2e-5)
        else:
            np.testing.assert_array_equal(actual, expected)


if __name__ == "__main__":
    unittest.main()
