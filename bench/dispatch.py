"""Launch rate, CPU time for each launch and first-call latency, beside plain JAX in the same run. Prints JSON lines.

    python bench/dispatch.py --switchtower build/switchtower [--hosts 1,2,4,8] [--passes 3]

Modes (the 2022 Pathways paper's micro-benchmark, a scalar all-reduce and an add):
  opbyop   one launch a computation, the value awaited once at the end
  fused    128 computations in one program
The passes of both sides alternate, since these machines drift; medians are printed.
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

FUSED = 128
HERE = pathlib.Path(__file__).resolve()


# ---- what runs in the client's process


def launches(mode, seconds):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("x",))
    steps = FUSED if mode == "fused" else 1

    def body(a):
        return lax.fori_loop(0, steps, lambda _, v: lax.psum(v, "x") / jax.device_count() + 1.0, a)

    f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False))
    value = jax.device_put(jnp.float32(0), NamedSharding(mesh, P()))
    calls = 0
    for _ in range(3):
        value = f(value)
        calls += 1
    assert float(value) == calls * steps, (float(value), calls)
    count = 16
    while True:
        begin, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            value = f(value)
        calls += count
        total = float(value)
        elapsed, used = time.perf_counter() - begin, time.process_time() - cpu
        if elapsed >= seconds / 4:
            break
        count *= 2
    assert abs(total - calls * steps) <= 1e-3 * total, (total, calls * steps)
    return {"computations_per_s": count * steps / elapsed, "launches": calls,
            "client_cpu_us_per_launch": used / count * 1e6}


def first_calls(count=100):
    import jax
    import numpy as np

    x = jax.device_put(np.ones((8, 8), np.float32))
    begin = time.perf_counter()
    for i in range(count):
        jax.jit(lambda a, i=i: a * (i + 1.5) + a @ a).__call__(x).block_until_ready()
    return {"seconds": time.perf_counter() - begin, "programs": count}


def first_transformer_step():
    sys.path.insert(0, str(HERE.parents[1] / "examples"))
    import jax
    import train_lm

    mesh = train_lm.make_mesh()
    state, step = train_lm.init(mesh), train_lm.compile_step(mesh)
    tokens = jax.device_put(next(train_lm.batches(train_lm.corpus(), 16, 1)))
    jax.block_until_ready(state)
    begin = time.perf_counter()
    jax.block_until_ready(step(state, tokens))
    return {"seconds": time.perf_counter() - begin}


# ---- what starts it


def environment():
    return {k: v for k, v in os.environ.items()
            if k not in ("JAX_PLATFORMS", "JAX_BACKEND_TARGET", "XLA_FLAGS") and not k.lower().endswith("_proxy")}


def measure(argv, env):
    done = subprocess.run(argv, env=env, text=True, capture_output=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise SystemExit(f"{argv}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return json.loads(lines[-1])


def plain(case, devices):
    env = environment() | {"JAX_PLATFORMS": "cpu", "PJRT_NPROC": str(2 * devices + 2),
                           "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    return measure([sys.executable, str(HERE), "--client", *case], env)


def cluster(binary, case, hosts, devices=1, slices=1, cache="none"):
    argv = [binary, "run", f"--slices={slices}", f"--hosts={hosts}", f"--devices={devices}", f"--compile-cache-dir={cache}", "--",
            sys.executable, str(HERE), "--client", *case]
    return measure(argv, environment())


def cpu_by_role():
    """CPU seconds so far of the cluster around this process, by role."""
    totals = {"proxy": 0.0, "worker": 0.0}
    parent = os.getppid()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            argv = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(fields[1]) == parent and len(argv) > 1 and argv[1].decode() in totals:
            totals[argv[1].decode()] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return totals


def client(case):
    before = cpu_by_role()
    if case[0] in ("opbyop", "fused"):
        launches(case[0], 0.4)  # compiles and warms up
        before = cpu_by_role()
        result = launches(case[0], float(case[1]))
        for role, seconds in cpu_by_role().items():
            result[f"{role}_cpu_us_per_launch"] = (seconds - before[role]) / result["launches"] * 1e6
    elif case[0] == "first_calls":
        result = first_calls()
    else:
        result = first_transformer_step()
    print(json.dumps(result), flush=True)


def emit(**row):
    rounded = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}
    print(json.dumps(rounded | {"load1": round(os.getloadavg()[0], 1)}), flush=True)


def compare(name, ours, theirs, passes, **labels):
    """Alternates the two sides and prints their medians and the median of the pairs' ratios."""
    pairs = [(ours(), theirs()) for _ in range(passes)]
    key = "computations_per_s" if "computations_per_s" in pairs[0][0] else "seconds"
    median = lambda side, k=key: statistics.median(pair[side][k] for pair in pairs)
    extra = {k: statistics.median(p[0][k] for p in pairs) for k in pairs[0][0] if k.endswith("_per_launch")}
    emit(bench=name, **labels, **{f"switchtower_{key}": median(0), f"plain_jax_{key}": median(1)},
         ratio=statistics.median(a[key] / b[key] for a, b in pairs), passes=passes, **extra)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--switchtower", default="build/switchtower")
    parser.add_argument("--hosts", default="1,2,4,8")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--client", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client:
        return client(args.client)
    for hosts in map(int, args.hosts.split(",")):
        for mode in ("opbyop", "fused"):
            case = [mode, str(args.seconds)]
            compare("dispatch", lambda: cluster(args.switchtower, case, hosts), lambda: plain(case, hosts), args.passes,
                    mode=mode, hosts=hosts)
    compare("first_call_100_jits", lambda: cluster(args.switchtower, ["first_calls"], 1), lambda: plain(["first_calls"], 1),
            args.passes)
    step = ["transformer"]
    compare("first_call_transformer", lambda: cluster(args.switchtower, step, 2, 2, 2), lambda: plain(step, 8), args.passes)
    with tempfile.TemporaryDirectory() as cache:
        cluster(args.switchtower, step, 2, 2, 2, cache=cache)
        compare("cached_call_transformer", lambda: cluster(args.switchtower, step, 2, 2, 2, cache=cache), lambda: plain(step, 8),
                args.passes)


if __name__ == "__main__":
    main()
