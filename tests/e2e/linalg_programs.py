"""Every linear algebra function of jax on all element types; linalg_test.py compares the results with plain CPU JAX.

    python linalg_programs.py OUT.npz [NAME..]        runs them (all) and stores the results

What isn't unique (signs of vectors, order of eigenvalues, pivots of equals) is turned into something that is: products
that give the input back, sorted values, orthogonality.
"""

import os
import sys

os.environ["JAX_ENABLE_X64"] = "1"
# Plain CPU JAX: a threaded SciPy on matrices this small only waits for its threads.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax import lax
from jax._src.lax.linalg import geqrf, ormqr as multiply_by_q
from jax.experimental import sparse
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
BATCHES = [(), (2, 2)]
FUNCTIONS = {}


def function(f):
    FUNCTIONS[f.__name__] = f
    return f


def data(dtype, *shape, seed=0):
    r = np.random.default_rng(seed + sum(shape))
    value = r.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        value = value + 1j * r.standard_normal(shape)
    return value.astype(dtype)


def adjoint(a):
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def hermitian(a):
    return (a + adjoint(a)) / 2


def positive(a):
    return a @ adjoint(a) + jnp.eye(a.shape[-1], dtype=a.dtype)


def gram(q):
    return adjoint(q) @ q


def by_value(w):
    """Eigenvalues in an order that rounding doesn't change: powers sums instead of the values."""
    return jnp.stack([jnp.sum(w**k, axis=-1) for k in range(1, 4)], axis=-1)


# ---- factorisations: each takes a batch of square matrices


@function
def cholesky(a):
    return jnp.linalg.cholesky(positive(a)), jnp.linalg.cholesky(positive(a), upper=True), lax.linalg.cholesky(positive(a))


@function
def cholesky_of_indefinite(a):
    return jnp.isnan(lax.linalg.cholesky(-positive(a)))


@function
def cho_solve(a):
    return jsl.cho_solve(jsl.cho_factor(positive(a)), a)


@function
def lu(a):
    factors, pivots, permutation = lax.linalg.lu(a)
    wide = lax.linalg.lu(a[..., :-2, :])
    tall = lax.linalg.lu(a[..., :-2])
    return factors, pivots, permutation, *wide, *tall


@function
def solve(a):
    return jnp.linalg.solve(a, a[..., :2]), jnp.linalg.inv(a), jnp.linalg.det(a), *jnp.linalg.slogdet(a)


@function
def qr(a):
    results = []
    for part in (a, a[..., :-2, :], a[..., :-2]):
        q, r = jnp.linalg.qr(part)
        results += [q @ r, gram(q), jnp.abs(r)]
        q, r = jnp.linalg.qr(part, mode="complete")
        results += [q @ r, gram(q)]
    return results


@function
def qr_with_pivots(a):
    q, r, p = jsl.qr(a, pivoting=True)
    return q @ r, gram(q), p


@function
def householder(a):
    factors, taus = geqrf(a[..., :-1])
    return factors, taus, lax.linalg.householder_product(factors, taus)


@function
def ormqr(a):
    factors, taus = geqrf(a[..., :-1])
    c = a[..., :3]
    return (multiply_by_q(factors, taus, c, left=True, transpose=False), multiply_by_q(factors, taus, c, left=True, transpose=True),
            multiply_by_q(factors, taus, adjoint(c), left=False, transpose=False),
            multiply_by_q(factors, taus, adjoint(c), left=False, transpose=True))


@function
def svd(a):
    results = []
    for part in (a, a[..., :-2, :], a[..., :-2]):
        for full in (False, True):
            u, s, vt = jnp.linalg.svd(part, full_matrices=full)
            k = s.shape[-1]
            results += [s, (u[..., :k] * s[..., None, :]) @ vt[..., :k, :], gram(u), gram(adjoint(vt))]
        results.append(jnp.linalg.svd(part, compute_uv=False))
        u, s, vt = lax.linalg.svd(part, full_matrices=False, algorithm=lax.linalg.SvdAlgorithm.QR)
        results += [s, (u * s[..., None, :]) @ vt]
    return results


@function
def svd_values(a):
    u, s, vt = jnp.linalg.svd(a, full_matrices=False)
    return s, (u * s[..., None, :]) @ vt, gram(u), jnp.linalg.svd(a[..., :-2, :], compute_uv=False)


@function
def svd_of_nan(a):
    return [jnp.isnan(x) for x in jnp.linalg.svd(a.at[..., 0, 0].set(jnp.nan))]


@function
def from_svd(a):
    return jnp.linalg.pinv(a[..., :-1]), jnp.linalg.matrix_rank(a), jnp.linalg.cond(a), jnp.linalg.norm(a, 2, (-2, -1))


@function
def eigh(a):
    results = []
    for uplo in "LU":
        w, v = jnp.linalg.eigh(a, UPLO=uplo, symmetrize_input=False)
        results += [w, (v * w[..., None, :]) @ adjoint(v), gram(v), jnp.linalg.eigvalsh(hermitian(a), UPLO=uplo)]
    return results


@function
def eig(a):
    w, v = jnp.linalg.eig(a)
    results = [by_value(w), by_value(jnp.linalg.eigvals(a)), a @ v - v * w[..., None, :], jnp.sum(jnp.abs(v) ** 2, axis=-2)]
    w, left = lax.linalg.eig(a, compute_left_eigenvectors=True, compute_right_eigenvectors=False)
    return results + [adjoint(left) @ a - w[..., :, None] * adjoint(left)]


@function
def eig_of_infinity(a):
    return [jnp.isnan(x) for x in jnp.linalg.eig(a.at[..., 0, 0].set(jnp.inf))]


@function
def schur(a):
    t, v = lax.linalg.schur(a)
    values_only, = lax.linalg.schur(a, compute_schur_vectors=False)
    return v @ t @ adjoint(v), gram(v), by_value(jnp.diagonal(values_only, axis1=-2, axis2=-1))


@function
def hessenberg(a):
    reduced, taus = lax.linalg.hessenberg(a)
    return reduced, taus, *jsl.hessenberg(a, calc_q=True)


@function
def tridiagonal(a):
    return lax.linalg.tridiagonal(hermitian(a), lower=True) + lax.linalg.tridiagonal(hermitian(a), lower=False)


@function
def triangular_solve(a):
    results = []
    a = a + 4 * jnp.eye(a.shape[-1], dtype=a.dtype)
    # Each side with each form of the matrix; the other two switches alternate.
    for left in (False, True):
        for i, (transpose, conjugate) in enumerate(((False, False), (True, False), (True, True), (False, True))):
            b = a[..., :3] if left else a[..., :3, :]
            for lower, unit in ((left, i % 2 == 0), (not left, i % 2 == 1)):
                results.append(lax.linalg.triangular_solve(a / 8 if unit else a, b, left_side=left, lower=lower, transpose_a=transpose,
                                                           conjugate_a=conjugate, unit_diagonal=unit))
    return results


@function
def tridiagonal_solve(a):
    dl, d, du = a[..., 0], a[..., 1] + 4, a[..., 2]
    dl, du = dl.at[..., 0].set(0), du.at[..., -1].set(0)
    return (lax.linalg.tridiagonal_solve(dl, d, du, a[..., :3]),
            lax.linalg.tridiagonal_solve(dl, d, du, a[..., :3], perturb_singular=True),
            # Rows are exchanged where the diagonal is small.
            lax.linalg.tridiagonal_solve(dl, d / 64, du, a[..., :1], perturb_singular=True),
            # A zero matrix: nothing but moved pivots.
            lax.linalg.tridiagonal_solve(0 * dl, 0 * d, 0 * du, a[..., :2], perturb_singular=True))


@function
def gradients(a):
    def loss(x):
        w, v = jnp.linalg.eigh(hermitian(x))
        return jnp.sum(jnp.log(jnp.abs(jnp.linalg.cholesky(positive(x))) + 1)) + jnp.sum(w * jnp.abs(v[..., 0, :]) ** 2)

    return jax.grad(loss)(a)


# ---- matrices only


@function
def functions_of_a_matrix(a):
    m = a.reshape(-1, *a.shape[-2:])[0] / 4
    results = [jsl.expm(m), jsl.polar(m)[1], jsl.lu(m)[1].shape[0] * jnp.ones(()), jsl.inv(m), jsl.det(m),
               jsl.solve(m, m[:, :2]), jsl.solve_triangular(m + jnp.eye(6, dtype=m.dtype), m[:, 0], lower=True)]
    results += [jnp.linalg.lstsq(m[:, :-2], m[:, -1])[0], jnp.linalg.matrix_power(m, 3), jnp.linalg.multi_dot([m, m, m])]
    root = jsl.sqrtm(positive(m))
    return results + [root @ root, by_value(jsl.eigh(hermitian(m), eigvals_only=True).astype(m.dtype))]


@function
def empty(a):
    none = a[..., :0, :0]
    results = [jnp.linalg.cholesky(none), jnp.linalg.det(none), jnp.linalg.inv(none), *jnp.linalg.eigh(none), *lax.linalg.lu(none)]
    results += [*jnp.linalg.qr(a[..., :0]), *jnp.linalg.qr(a[..., :0, :]), *jnp.linalg.svd(a[..., :0]), *jnp.linalg.eig(none)]
    batch = jnp.broadcast_to(a.reshape(-1, 6, 6)[:1], (1, 6, 6))[:0]
    return results + [jnp.linalg.cholesky(batch), *jnp.linalg.svd(batch), jnp.linalg.solve(batch, batch)]


@function
def csr(a):
    m = a.reshape(-1, 6, 6)[0]
    m = jnp.where(jnp.abs(m) > 0.7, m, 0)
    results = []
    for index in (np.int32, np.int64):
        s = sparse.CSR.fromdense(m, nse=36, index_dtype=index)
        results += [s @ m, s @ m[0]]
    b = sparse.BCSR.fromdense(m, nse=36)
    return results + [b @ m]


def sharded(f, a):
    """The batch over eight devices, left to XLA's partitioner, and one matrix a device under shard_map."""
    mesh = Mesh(np.array(jax.devices()[:8]), ("x",))
    placed = jax.device_put(a, NamedSharding(mesh, P("x")))
    mapped = jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    return jax.tree.leaves(jax.jit(f)(placed)) + jax.tree.leaves(jax.jit(mapped)(placed))


SHARDED = ["cholesky", "lu", "eigh", "svd_values", "tridiagonal_solve"]
LARGE = ["cholesky", "qr", "svd_values", "eigh"]  # for the blocked paths, and batches that are spread over threads


def run(name):
    f = FUNCTIONS[name]
    for dtype in DTYPES:
        # One program for all batches: compiling is what takes the time.
        inputs = [data(dtype, *batch, 6, 6) for batch in BATCHES]
        yield f"{name}/{np.dtype(dtype).name}", jax.jit(lambda *xs: [f(x) for x in xs])(*inputs)
        if name in LARGE:
            yield f"large_{name}/{np.dtype(dtype).name}", jax.jit(f)(data(dtype, 5, 150, 150))
    if name in SHARDED:
        yield f"sharded_{name}/complex64", sharded(f, data(np.complex64, 8, 6, 6))


def main():
    results = {}
    for name in sys.argv[2:] or FUNCTIONS:
        for key, values in run(name):
            results |= {f"{key}/{i}": np.asarray(value) for i, value in enumerate(jax.tree.leaves(values))}
    np.savez(sys.argv[1], **results)


if __name__ == "__main__":
    main()
