// LAPACK, one C++ template for each routine: the element type picks the Fortran symbol.
//
//   const int info = lapack::Potrf<float>(uplo, n, a, n);
//
// Arguments are Fortran's in Fortran's order, without the trailing INFO, which is the result. Numbers and letters are
// passed as values (Fortran takes addresses), arrays as pointers. Matrices are column-major.
//
// Place:    worker/linalg, for the kernels alone.
// Threads:  any. The library runs each call on the caller's thread (native_handlers.cc sets that).
// Errors:   INFO: below 0, an argument is wrong; above 0, the computation failed.
#pragma once

#include <complex>
#include <type_traits>

#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <lapack.h>

namespace switchtower::lapack {

template <typename T>
struct RealOf {
  using Type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
  using Type = T;
};
template <typename T>
using Real = typename RealOf<T>::Type;
template <typename T>
inline constexpr bool kIsComplex = !std::is_same_v<T, Real<T>>;

inline const int* Address(const int& value) { return &value; }
inline const char* Address(const char& value) { return &value; }
inline std::nullptr_t Address(std::nullptr_t) { return nullptr; }
template <typename T>
T* Address(T* array) {
  return array;
}

// `for_reals`, `for_complex`: the routine's names after the letter of the type, which differ for some (orgqr, ungqr).
#define SWITCHTOWER_LAPACK_ROUTINE(Name, for_reals, for_complex)   \
  template <typename T, typename... Arguments>                     \
  int Name(const Arguments&... arguments) {                        \
    int info = 0;                                                  \
    if constexpr (std::is_same_v<T, float>) {                      \
      LAPACK_s##for_reals(Address(arguments)..., &info);           \
    } else if constexpr (std::is_same_v<T, double>) {              \
      LAPACK_d##for_reals(Address(arguments)..., &info);           \
    } else if constexpr (std::is_same_v<T, std::complex<float>>) { \
      LAPACK_c##for_complex(Address(arguments)..., &info);         \
    } else {                                                       \
      static_assert(std::is_same_v<T, std::complex<double>>);      \
      LAPACK_z##for_complex(Address(arguments)..., &info);         \
    }                                                              \
    return info;                                                   \
  }

SWITCHTOWER_LAPACK_ROUTINE(Potrf, potrf, potrf)
SWITCHTOWER_LAPACK_ROUTINE(Getrf, getrf, getrf)
SWITCHTOWER_LAPACK_ROUTINE(Geqrf, geqrf, geqrf)
SWITCHTOWER_LAPACK_ROUTINE(Geqp3, geqp3, geqp3)
SWITCHTOWER_LAPACK_ROUTINE(Orgqr, orgqr, ungqr)
SWITCHTOWER_LAPACK_ROUTINE(Ormqr, ormqr, unmqr)
SWITCHTOWER_LAPACK_ROUTINE(Gesdd, gesdd, gesdd)
SWITCHTOWER_LAPACK_ROUTINE(Gesvd, gesvd, gesvd)
SWITCHTOWER_LAPACK_ROUTINE(Syevd, syevd, heevd)
SWITCHTOWER_LAPACK_ROUTINE(Sytrd, sytrd, hetrd)
SWITCHTOWER_LAPACK_ROUTINE(Geev, geev, geev)
SWITCHTOWER_LAPACK_ROUTINE(Gees, gees, gees)
SWITCHTOWER_LAPACK_ROUTINE(Gehrd, gehrd, gehrd)
SWITCHTOWER_LAPACK_ROUTINE(Gtsv, gtsv, gtsv)

#undef SWITCHTOWER_LAPACK_ROUTINE

}  // namespace switchtower::lapack
