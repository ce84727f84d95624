"""How much of the devices' time a chain of launches costs over the same steps in one program, on the real engine. JSON lines.

    python bench/dispatch_ahead.py --switchtower build/switchtower [--hosts 4] [--passes 5]

A step of a given length (an all-reduce and elementwise work, calibrated) is launched N times, each from the result of the one
before, and awaited once; and N steps run as one program. What the chain takes longer is what devices were idle for. The passes
of both alternate; medians are printed. Beside it, `build/bench/simulated_dispatch` is the controller alone on modelled devices.
"""

import json
import statistics
import subprocess
import sys
import time

import two_sided

STEPS = 100


def measure(options):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("x",))
    start = jax.device_put(np.ones(4096, np.float32), NamedSharding(mesh, P()))

    def program(steps, work):
        def step(_, a):
            a = lax.fori_loop(0, work, lambda _, v: jnp.sin(v) + 0.5, a)
            return lax.psum(a, "x") / jax.device_count()

        body = lambda a: lax.fori_loop(0, steps, step, a)
        return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False))

    def seconds(run):
        begin = time.perf_counter()
        run().block_until_ready()
        return time.perf_counter() - begin

    for wanted_ms in (0.5, 5.0, 20.0):
        work = 8
        for _ in range(6):
            probe = program(STEPS, work)
            probe(start).block_until_ready()
            took_ms = seconds(lambda: probe(start)) / STEPS * 1e3
            if abs(took_ms - wanted_ms) < 0.15 * wanted_ms:
                break
            work = max(1, round(work * wanted_ms / took_ms))
        fused, step = program(STEPS, work), program(1, work)

        def chain():
            value = start
            for _ in range(STEPS):
                value = step(value)
            return value

        chain().block_until_ready()
        fused(start).block_until_ready()
        fused_s, chain_s = [], []
        for _ in range(options.passes):
            fused_s.append(seconds(lambda: fused(start)))
            chain_s.append(seconds(chain))
        fused_ms, chain_ms = (statistics.median(times) / STEPS * 1e3 for times in (fused_s, chain_s))
        print(json.dumps({"devices": jax.device_count(), "step_ms": round(fused_ms, 3), "chained_step_ms": round(chain_ms, 3),
                          "device_idle_percent": round(100 * (1 - fused_ms / chain_ms), 2)}), flush=True)


def drive(options):
    return subprocess.run([options.switchtower, "run", "--slices=1", f"--hosts={options.hosts}", "--devices=1", "--",
                           *two_sided.client_command(__file__, passes=options.passes)]).returncode


if __name__ == "__main__":
    sys.exit(two_sided.main(__doc__, measure, drive, hosts=4, passes=5))
