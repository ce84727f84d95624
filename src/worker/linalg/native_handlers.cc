#include "worker/linalg/native_handlers.h"

#include <cblas.h>

#include <iterator>

#include "base/status_macros.h"
#include "worker/linalg/families.h"

namespace switchtower {

std::vector<NativeHandler> NativeHandlers() {
  std::vector<NativeHandler> all;
  for (const auto family :
       {linalg::FactorizationHandlers, linalg::QrHandlers, linalg::SvdHandlers, linalg::SymmetricEigenHandlers,
        linalg::GeneralEigenHandlers, linalg::SchurHandlers, linalg::TriangularSolveHandlers,
        linalg::TridiagonalSolveHandlers, linalg::SparseHandlers}) {
    std::vector<NativeHandler> handlers = family();
    all.insert(all.end(), std::make_move_iterator(handlers.begin()), std::make_move_iterator(handlers.end()));
  }
  return all;
}

absl::Status RegisterNativeHandlers(Engine& engine) {
  // Devices call at the same time, and of Debian's flavours only this one locks its table of work buffers: the others
  // give one buffer to two threads, and results are wrong now and then. Which one the process gets is the system's
  // choice (update-alternatives).
  if (openblas_get_parallel() != OPENBLAS_THREAD) {
    return absl::FailedPreconditionError(
        "this OpenBLAS can't be called from several threads at once: install "
        "Debian's libopenblas0-pthread, and choose it with update-alternatives "
        "--config libopenblas.so.0-x86_64-linux-gnu");
  }
  // One thread for each call: calls with more would queue for one pool, and the bits would depend on how many devices
  // share a host. Batches are spread over XLA's threads instead.
  openblas_set_num_threads(1);
  for (const NativeHandler& handler : NativeHandlers()) {
    RETURN_IF_ERROR(engine.RegisterFfiHandler(handler.target, handler.handler));
  }
  return absl::OkStatus();
}

}  // namespace switchtower
