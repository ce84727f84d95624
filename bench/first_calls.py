"""Seconds until a first call has its value: 100 small programs, and the train step, compiled anew and from the cache."""

import json
import subprocess
import sys
import tempfile
import time

from cluster import Cluster
from processes import plain_environment
from rows import median


def small_programs(count=100):
    import jax
    import numpy as np

    x = jax.device_put(np.ones((8, 8), np.float32))
    begin = time.perf_counter()
    for i in range(count):
        jax.jit(lambda a, i=i: a * (i + 1.5) + a @ a)(x).block_until_ready()
    return time.perf_counter() - begin


def train_step():
    from train import Training

    training = Training()
    return training.run("train", 1)["seconds"]


def _seconds(env, case):
    done = subprocess.run([sys.executable, __file__, case], env=env, text=True, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"{case}: exit code {done.returncode}\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])["seconds"]


def _on_cluster(options, case, cache="none", **shape):
    with Cluster(options.switchtower, cache=cache, **shape) as cluster:
        return _seconds(cluster.env, case)


def measure(rows, options):
    shape = {"hosts": 2, "devices": 2, "slices": 2}
    with tempfile.TemporaryDirectory() as cache:
        _on_cluster(options, "train_step", cache=cache, **shape)
        cases = {
            "100_programs": (lambda: _on_cluster(options, "small_programs", hosts=1), lambda: _seconds(plain_environment(1), "small_programs")),
            "train_step": (lambda: _on_cluster(options, "train_step", **shape), lambda: _seconds(plain_environment(8), "train_step")),
            "train_step_cached": (lambda: _on_cluster(options, "train_step", cache=cache, **shape), None),
        }
        for name, (ours, plain) in cases.items():
            pairs = [(ours(), plain() if plain else None) for _ in range(1 if options.quick else options.passes)]
            row = {"case": name, "switchtower_s": median(pairs, lambda pair: pair[0])}
            if plain:
                row |= {"plain_jax_s": median(pairs, lambda pair: pair[1]), "ratio": median(pairs, lambda pair: pair[0] / pair[1])}
            rows.add("first_call", **row)


if __name__ == "__main__":
    print(json.dumps({"seconds": {"small_programs": small_programs, "train_step": train_step}[sys.argv[1]]()}))
