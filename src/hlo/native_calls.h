// Functions that jax's CPU lowering takes from a native library: the one list
// of what programs may call.
//
// XLA looks a custom call's handler up by name when it generates code and again
// when a program is loaded. So the compiler registers stubs under these names
// and lets exactly them pass (check_module.h), and every worker registers the
// functions themselves (worker/linalg). Both read this list, which is why it
// stands here.
//
// The names, operands, attributes and results are jaxlib's (typed XLA FFI, api
// version 4); worker/linalg/README.md lists them.
#pragma once

#include <string_view>

namespace switchtower {

inline constexpr std::string_view kNativeCalls[] = {
    // clang-format off
    // Factorisations.
    "lapack_spotrf_ffi", "lapack_dpotrf_ffi", "lapack_cpotrf_ffi", "lapack_zpotrf_ffi",
    "lapack_sgetrf_ffi", "lapack_dgetrf_ffi", "lapack_cgetrf_ffi", "lapack_zgetrf_ffi",
    "lapack_sgeqrf_ffi", "lapack_dgeqrf_ffi", "lapack_cgeqrf_ffi", "lapack_zgeqrf_ffi",
    "lapack_sgeqp3_ffi", "lapack_dgeqp3_ffi", "lapack_cgeqp3_ffi", "lapack_zgeqp3_ffi",
    "lapack_sorgqr_ffi", "lapack_dorgqr_ffi", "lapack_cungqr_ffi", "lapack_zungqr_ffi",
    "lapack_sormqr_ffi", "lapack_dormqr_ffi", "lapack_cunmqr_ffi", "lapack_zunmqr_ffi",
    // Singular values.
    "lapack_sgesdd_ffi", "lapack_dgesdd_ffi", "lapack_cgesdd_ffi", "lapack_zgesdd_ffi",
    "lapack_sgesvd_ffi", "lapack_dgesvd_ffi", "lapack_cgesvd_ffi", "lapack_zgesvd_ffi",
    // Eigenvalues and what leads to them.
    "lapack_ssyevd_ffi", "lapack_dsyevd_ffi", "lapack_cheevd_ffi", "lapack_zheevd_ffi",
    "lapack_ssytrd_ffi", "lapack_dsytrd_ffi", "lapack_chetrd_ffi", "lapack_zhetrd_ffi",
    "lapack_sgeev_ffi",  "lapack_dgeev_ffi",  "lapack_cgeev_ffi",  "lapack_zgeev_ffi",
    "lapack_sgees_ffi",  "lapack_dgees_ffi",  "lapack_cgees_ffi",  "lapack_zgees_ffi",
    "lapack_sgehrd_ffi", "lapack_dgehrd_ffi", "lapack_cgehrd_ffi", "lapack_zgehrd_ffi",
    // Solvers.
    "lapack_strsm_ffi",  "lapack_dtrsm_ffi",  "lapack_ctrsm_ffi",  "lapack_ztrsm_ffi",
    "lapack_sgtsv_ffi",  "lapack_dgtsv_ffi",  "lapack_cgtsv_ffi",  "lapack_zgtsv_ffi",
    "tridiagonal_solve_perturbed_ffi",
    // Sparse.
    "cpu_csr_sparse_dense_ffi",
    // clang-format on
};

}  // namespace switchtower
