"""Small programs that cover every collective form, layout and dtype; each returns arrays to be compared.

    python programs OUT.npz [NAME..]        runs them (all) on jax.devices()[:8] and stores the results

conformance_test.py runs them on plain CPU JAX and on clusters of several shapes.
"""

import sys

import jax
import numpy as np

import arrays  # noqa: F401, as those below: they fill the registry
import collectives  # noqa: F401
import features  # noqa: F401
import partitioned  # noqa: F401
from registry import PROGRAMS


def run(names=None):
    results = {}
    for name in names or PROGRAMS:
        for i, leaf in enumerate(jax.tree.leaves(PROGRAMS[name]())):
            value = np.asarray(leaf)
            results[f"{name}/{i}"] = value.astype(np.float32) if value.dtype.name in ("bfloat16",) else value
    return results


if __name__ == "__main__":
    np.savez(sys.argv[1], **run(sys.argv[2:]))
    print(f"{len(sys.argv[2:]) or len(PROGRAMS)} programs done")
