"""Linear algebra (linalg_programs.py) gives plain CPU JAX's results; what the workers lack is refused by name."""

import pathlib
import tempfile
import unittest

import numpy as np

from cluster import Up, plain_cpu, run_on_cluster

HERE = pathlib.Path(__file__).parent

UNKNOWN = """
import jax, jax.numpy as jnp
call = jax.ffi.ffi_call("lapack_sbogus_ffi", jax.ShapeDtypeStruct((3, 3), jnp.float32))
try:
    jax.jit(call)(jnp.ones((3, 3)))
except jax.errors.JaxRuntimeError as error:
    print("refused:", error)
"""

# Well-formed programs around malformed calls: each must be an error, and the workers must stay.
HOSTILE = """
import jax, jax.numpy as jnp, numpy as np
f32, s32 = jnp.float32, jnp.int32
shape = jax.ShapeDtypeStruct
one = np.ones((4, 4), np.float32)
letter = lambda c: np.uint8(ord(c))
calls = [
    ("lapack_spotrf_ffi", [shape((4, 4), f32), shape((2,), s32)], [one], dict(uplo=letter("L"))),
    ("lapack_spotrf_ffi", [shape((2, 2), f32), shape((), s32)], [one], dict(uplo=letter("L"))),
    ("lapack_spotrf_ffi", [shape((4, 4), f32), shape((), s32)], [one], dict(uplo=letter("x"))),
    ("lapack_spotrf_ffi", [shape((4, 4), f32), shape((), s32)], [one], dict()),
    ("lapack_spotrf_ffi", [shape((4,), f32), shape((), s32)], [one[0]], dict(uplo=letter("L"))),
    ("lapack_dpotrf_ffi", [shape((4, 4), f32), shape((), s32)], [one], dict(uplo=letter("L"))),
    ("lapack_sgetrf_ffi", [shape((4, 4), f32), shape((1,), s32), shape((), s32)], [one], dict()),
    ("lapack_sgesdd_ffi", [shape((4, 4), f32), shape((4,), f32), shape((4, 1), f32), shape((4, 4), f32), shape((), s32)], [one],
     dict(mode=letter("A"))),
    ("lapack_sgesdd_ffi", [shape((4, 4), f32), shape((4,), f32), shape((4, 4), f32), shape((4, 4), f32), shape((), s32)], [one],
     dict(mode=letter("O"))),
    ("lapack_sorgqr_ffi", [shape((4, 4), f32)], [one, one.ravel()], dict()),
    ("lapack_sorgqr_ffi", [shape((2, 4), f32)], [one[:2], one[0, :2]], dict()),
    ("lapack_sormqr_ffi", [shape((4, 4), f32)], [one[:2], one[0, :2], one], dict(left=True, transpose=False)),
    ("lapack_sgehrd_ffi", [shape((4, 4), f32), shape((3,), f32), shape((), s32)], [one], dict(low=np.int32(1), high=np.int32(9))),
    ("lapack_sgehrd_ffi", [shape((4, 4), f32), shape((3,), f32), shape((), s32)], [one], dict(low=np.int32(-7), high=np.int32(4))),
    ("lapack_strsm_ffi", [shape((4, 4), f32)], [one[:2, :2], one],
     dict(side=letter("L"), uplo=letter("L"), trans_x=letter("N"), diag=letter("N"))),
    ("lapack_sgtsv_ffi", [shape((4,), f32)] * 3 + [shape((4, 1), f32), shape((), s32)], [one[0, :2]] + [one[0]] * 2 + [one[:, :1]], dict()),
    ("tridiagonal_solve_perturbed_ffi", [shape((4, 1), f32)], [one[0, :1]] * 3 + [one[:, :1]], dict()),
    ("cpu_csr_sparse_dense_ffi", [shape((4, 4), f32)], [one[0], np.array([0, 1, 2, 3, 99], np.int32), np.arange(4, dtype=np.int32), one], dict()),
    ("cpu_csr_sparse_dense_ffi", [shape((4, 4), f32)], [one[0], np.arange(5, dtype=np.int32), np.array([0, 1, 2, -5], np.int32), one], dict()),
]
refused = 0
for target, results, operands, attributes in calls:
    try:
        jax.block_until_ready(jax.jit(lambda *x: jax.ffi.ffi_call(target, results)(*x, **attributes))(*operands))
        print("accepted:", target, attributes)
    except Exception as error:
        assert "DATA_LOSS" not in str(error), error
        refused += 1
assert np.allclose(jnp.linalg.cholesky(4 * jnp.eye(3)), 2 * np.eye(3))
print("refused", refused, "of", len(calls))
"""


class LinearAlgebra(unittest.TestCase):
    def test_same_results_as_plain_cpu(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            plain_cpu([HERE / "linalg_programs.py", folder / "cpu.npz"])
            run_on_cluster((1, 4, 2), [HERE / "linalg_programs.py", folder / "out.npz"])
            expected, actual = np.load(folder / "cpu.npz"), np.load(folder / "out.npz")
            self.assertEqual(set(actual.files), set(expected.files))
            self.assertGreater(len(expected.files), 1000)
            for key in expected.files:
                with self.subTest(key):
                    self.compare(key, expected[key], actual[key])

    def compare(self, key, expected, actual):
        self.assertEqual((expected.dtype, expected.shape), (actual.dtype, actual.shape))
        if not np.issubdtype(expected.dtype, np.inexact):
            np.testing.assert_array_equal(actual, expected)
            return
        single = expected.dtype in (np.float32, np.complex64)
        tolerance = (2e-3 if single else 1e-8) * (10 if key.startswith("large") else 1)
        # Relative to the largest element: the small ones of a product carry the rounding of the large ones.
        finite = np.abs(expected[np.isfinite(expected)])
        scale = max(1.0, float(finite.max())) if finite.size else 1.0
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * scale)

    def test_an_unknown_target_is_refused_by_name(self):
        with Up((1, 1, 2)) as up:
            output = up.run(UNKNOWN)
        self.assertIn("refused:", output.stdout, output.stderr[-2000:])
        self.assertIn("lapack_sbogus_ffi", output.stdout)

    def test_malformed_calls_are_errors(self):
        with Up((1, 1, 2)) as up:
            output = up.run(HOSTILE)
        self.assertIn("refused 19 of 19", output.stdout, output.stderr[-2000:])


if __name__ == "__main__":
    unittest.main()
