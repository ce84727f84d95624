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
import tempfile
import time

HERE = pathlib.Path(__file__).resolve()
CALLS = {"batches": 50_000, "chain": 20_000, "programs": 1_000}
SAMPLES = 100
ROLES = ("proxy", "worker", "compiler", "resource-manager")
PAGE = os.sysconf("SC_PAGE_SIZE")


# ---- what runs in the client's process


def resident(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def cluster_processes(parent):
    """Pids of the roles below a process, by role."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                argv = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if len(argv) > 1:
                children.setdefault(int(fields[1]), []).append((int(entry.name), argv[1].decode(errors="replace")))
    roles = {}
    waiting = [parent]
    while waiting:
        for pid, role in children.get(waiting.pop(), []):
            if role in ROLES:
                roles.setdefault(role, []).append(pid)
            if role in ROLES or role == "up":
                waiting.append(pid)
    return roles


def memory(parent, client=None):
    totals = {"client": resident(client)} if client else {}
    for role, pids in cluster_processes(parent).items():
        for pid in pids:
            try:
                totals[role] = totals.get(role, 0) + resident(pid)
            except OSError:
                pass  # a compiler that has just been replaced
    return totals


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
            print(json.dumps({"call": i, "s": time.perf_counter() - begin, **memory(parent, os.getpid())}), flush=True)

    {"batches": batches, "chain": chain, "programs": programs}[case](calls, sample)
    sample(0)


# ---- what starts it


def series(env, case, calls):
    done = subprocess.run([sys.executable, str(HERE), "--client", case, str(calls)], env=env, text=True, capture_output=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not rows:
        raise SystemExit(f"{case}: exit code {done.returncode}\n{done.stderr[-4000:]}")
    return rows


def up(binary, log):
    environment = {k: v for k, v in os.environ.items() if k not in ("JAX_PLATFORMS", "XLA_FLAGS") and not k.endswith("_proxy")}
    cluster = subprocess.Popen([binary, "up", "--slices=1", "--hosts=2", "--devices=2", "--port=0", "--compile-cache-dir=none"],
                               env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    address = cluster.stdout.readline().split()[-1]
    python = HERE.parents[1] / "python"
    return cluster, environment | {
        "JAX_PLATFORMS": "proxy", "JAX_BACKEND_TARGET": address, "IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS": "true",
        "PYTHONPATH": f"{python}:{os.environ.get('PYTHONPATH', '')}"}


def run(binary, case, calls):
    with tempfile.TemporaryFile() as log:
        cluster, env = up(binary, log)
        try:
            series(env, case, max(1, calls // 20))
            time.sleep(2)
            before = memory(cluster.pid)
            rows = series(env, case, calls)
            time.sleep(2)
            after = memory(cluster.pid)
        finally:
            cluster.terminate()
            cluster.wait()
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
