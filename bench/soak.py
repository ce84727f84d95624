"""Resident memory of client, proxy, compiler and workers through long runs: does anything leak? Prints JSON lines.

    python bench/soak.py --switchtower build/switchtower [--cases batches,chain,programs] [--scale 1.0] [--picture soak.png]

  batches   50,000 calls, each with a fresh 100 KiB batch from the host
  chain     20,000 chained steps on 4 MiB, awaited once at the end
  programs  1,000 distinct programs, then jax.clear_caches()

`grown` compares the last fifth of a run with its second fifth (at full scale: 50,000 calls with 10,000), `left` what
the cluster holds after the client has gone with what it held after a first client, which warmed everything up.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from cluster import Cluster
from processes import resident, totals

HERE = pathlib.Path(__file__).resolve()
CALLS = {"batches": 50_000, "chain": 20_000, "programs": 1_000}
SAMPLES = 100


# ---- what runs in the client's process


def batches(calls, sample):
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
    step = jax.jit(lambda total, batch: total + batch.mean())
    total = jax.numpy.float32(0)
    for i in range(calls):
        total = step(total, jax.device_put(np.full((256, 100), i, np.float32), sharding))
        sample(i)
    total.block_until_ready()


def chain(calls, sample):
    import jax
    import jax.numpy as jnp

    step = jax.jit(lambda a: a * 0.999 + 1)
    value = jnp.zeros((1024, 1024), jnp.float32)
    for i in range(calls):
        value = step(value)
        sample(i)
    value.block_until_ready()


def programs(calls, sample):
    import jax
    import jax.numpy as jnp

    x = jnp.ones((8, 8))
    for i in range(calls):
        jax.jit(lambda a, i=i: a * (i + 0.5) + 1)(x)
        sample(i)
    jax.clear_caches()
    (x + 1).block_until_ready()


def client(case, calls):
    parent = os.getppid()  # and the cluster's
    every = max(1, calls // SAMPLES)
    begin = time.perf_counter()

    def sample(i):
        if i % every == 0:
            row = {"call": i, "s": time.perf_counter() - begin, "client": resident(os.getpid()), **totals(resident, parent)}
            print(json.dumps(row), flush=True)

    {"batches": batches, "chain": chain, "programs": programs}[case](calls, sample)
    sample(0)


# ---- what starts it


def series(env, case, calls):
    done = subprocess.run([sys.executable, str(HERE), "--client", case, str(calls)], env=env, text=True, capture_output=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not rows:
        raise SystemExit(f"{case}: exit code {done.returncode}\n{done.stderr[-4000:]}")
    return rows


def run(binary, case, calls):
    with Cluster(binary, hosts=2, devices=2) as cluster:
        series(cluster.env, case, max(1, calls // 20))
        time.sleep(2)
        before = cluster.resident()
        rows = series(cluster.env, case, calls)
        time.sleep(2)
        after = cluster.resident()
    body = rows[:-1]
    fifth = max(1, len(body) // 5)
    grown = {}
    for role in body[-1].keys() - {"call", "s"}:
        early = statistics.median(row.get(role, 0) for row in body[fifth:2 * fifth])
        late = statistics.median(row.get(role, 0) for row in body[-fifth:])
        grown[role] = round(late / early - 1, 3) if early else None
    left = {role: round(after[role] / before[role] - 1, 3) for role in before if role in after}
    print(json.dumps({"bench": "soak", "case": case, "calls": calls, "seconds": round(body[-1]["s"], 1), "grown": grown, "left": left,
                      "mib": {role: round(after[role] / 2**20) for role in after}}), flush=True)
    return body


def draw(path, runs):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(runs), figsize=(5 * len(runs), 4), squeeze=False)
    for axis, (case, rows) in zip(axes[0], runs.items()):
        for role in ("client", "proxy", "worker", "compiler"):
            axis.plot([row["s"] for row in rows], [row.get(role, 0) / 2**20 for row in rows], label=role)
        axis.set(title=case, xlabel="seconds", ylabel="resident MiB", ylim=(0, None))
        axis.legend()
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--switchtower", default="build/switchtower")
    parser.add_argument("--cases", default=",".join(CALLS))
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the calls")
    parser.add_argument("--picture")
    parser.add_argument("--client", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client:
        return client(args.client[0], int(args.client[1]))
    runs = {case: run(args.switchtower, case, max(SAMPLES, int(CALLS[case] * args.scale))) for case in args.cases.split(",")}
    if args.picture:
        draw(args.picture, runs)


if __name__ == "__main__":
    main()
