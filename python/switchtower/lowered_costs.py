"""Lowered.cost_analysis(): what a program that isn't compiled yet will cost.

The wheel counts with the cost model of a client of its own process and refuses a client of the IFRT proxy. The model looks at
the program only, so a local CPU client, which never runs anything, gives plain CPU JAX's numbers.
"""

import functools

from jax._src.interpreters import pxla
from jax._src.lib import _jax


def install(local_client) -> None:
    """`local_client` gives the CPU client, which it makes when it is first called."""
    cost_analysis = pxla.MeshComputation.cost_analysis
    if hasattr(cost_analysis, "counts_locally"):
        return

    @functools.wraps(cost_analysis)
    def cost_analysis_of_lowered(self):
        backend = self.compile_args["backend"]
        if not getattr(backend, "runtime_type", "").startswith("proxy/"):
            return cost_analysis(self)
        return _jax.hlo_module_cost_analysis(local_client(), self.hlo().as_hlo_module())

    cost_analysis_of_lowered.counts_locally = True
    pxla.MeshComputation.cost_analysis = cost_analysis_of_lowered
