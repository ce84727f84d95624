// The families of kernels, one source each.
//
// Place:    worker/linalg; for native_handlers.cc.
#pragma once

#include <vector>

#include "worker/linalg/native_handlers.h"

namespace switchtower::linalg {

std::vector<NativeHandler> FactorizationHandlers();     // potrf, getrf
std::vector<NativeHandler> QrHandlers();                // geqrf, geqp3, orgqr, ormqr
std::vector<NativeHandler> SvdHandlers();               // gesdd, gesvd
std::vector<NativeHandler> SymmetricEigenHandlers();    // syevd, sytrd
std::vector<NativeHandler> GeneralEigenHandlers();      // geev, gehrd
std::vector<NativeHandler> SchurHandlers();             // gees
std::vector<NativeHandler> TriangularSolveHandlers();   // trsm
std::vector<NativeHandler> TridiagonalSolveHandlers();  // gtsv, perturbed
std::vector<NativeHandler> SparseHandlers();            // csr times dense

}  // namespace switchtower::linalg
