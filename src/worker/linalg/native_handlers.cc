#include "worker/linalg/native_handlers.h"

#include <cblas.h>

#include <iterator>

#include "base/status_macros.h"
#include "worker/linalg/families.h"

namespace switchtower {

std::vector<NativeHandler> NativeHandlers() {
  std::vector<NativeHandler> all;
  for (const auto family :
       {linalg::FactorizationHandlers, linalg::QrHandlers, linalg::SvdHandlers,
        linalg::SymmetricEigenHandlers, linalg::GeneralEigenHandlers,
        linalg::SchurHandlers, linalg::TriangularSolveHandlers,
        linalg::TridiagonalSolveHandlers, linalg::SparseHandlers}) {
    std::vector<NativeHandler> handlers = family();
    all.insert(all.end(), std::make_move_iterator(handlers.begin()),
               std::make_move_iterator(handlers.end()));
  }
  return all;
}

absl::Status RegisterNativeHandlers(Engine& engine) {
  // One thread for each call. Devices call at the same time, and a threaded
  // BLAS makes them queue for its one pool; batches are spread over XLA's
  // threads instead. And so the bits don't depend on how many devices share a
  // host. Debian's serial flavour has no threads anyway, but the system may
  // give us another one at run time.
  openblas_set_num_threads(1);
  for (const NativeHandler& handler : NativeHandlers()) {
    RETURN_IF_ERROR(engine.RegisterFfiHandler(handler.target, handler.handler));
  }
  return absl::OkStatus();
}

}  // namespace switchtower
