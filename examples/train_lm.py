"""Trains a small transformer language model on all devices, with data, fsdp and tensor sharding.

Nothing in here knows Switchtower: run it under plain JAX

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python examples/train_lm.py

or on a cluster of several worker processes

    build/switchtower run --slices 2 --hosts 2 --devices 2 -- python examples/train_lm.py

The text is the language reference that every Python ships (pydoc_data.topics), read as bytes.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

VOCAB, WIDTH, LAYERS, HEADS, HIDDEN, LENGTH = 128, 128, 2, 4, 512, 64


def corpus() -> np.ndarray:
    from pydoc_data import topics

    text = "\n".join(topics.topics[key] for key in sorted(topics.topics))
    return np.frombuffer(text.encode("ascii", "ignore"), np.uint8).astype(np.int32)


def batches(tokens: np.ndarray, size: int, seed: int):
    random = np.random.default_rng(seed)
    while True:
        starts = random.integers(0, len(tokens) - LENGTH - 1, size)
        yield np.stack([tokens[s : s + LENGTH + 1] for s in starts])


def make_mesh() -> Mesh:
    """data x fsdp x tensor over every device there is; the outermost axis crosses slices."""
    devices = jax.devices()
    tensor = 2 if len(devices) % 2 == 0 else 1
    fsdp = 2 if len(devices) % 4 == 0 else 1
    shape = (len(devices) // (fsdp * tensor), fsdp, tensor)
    return Mesh(np.array(devices).reshape(shape), ("data", "fsdp", "tensor"))


# Each weight with its shape and how the mesh cuts it.
def weight_specs():
    layer = {
        "norm1": ((WIDTH,), P()),
        "norm2": ((WIDTH,), P()),
        "qkv": ((WIDTH, 3, HEADS, WIDTH // HEADS), P("fsdp", None, "tensor", None)),
        "out": ((HEADS, WIDTH // HEADS, WIDTH), P("tensor", None, "fsdp")),
        "up": ((WIDTH, HIDDEN), P("fsdp", "tensor")),
        "down": ((HIDDEN, WIDTH), P("tensor", "fsdp")),
    }
    return {
        "embed": ((VOCAB, WIDTH), P("tensor", "fsdp")),
        "position": ((LENGTH, WIDTH), P(None, "fsdp")),
        "norm": ((WIDTH,), P()),
        "layers": [dict(layer) for _ in range(LAYERS)],
    }


def is_spec(x):
    return isinstance(x, tuple) and len(x) == 2 and isinstance(x[1], P)


def init(mesh: Mesh):
    """Adam's state: weights, both moments, the step count."""
    random = np.random.default_rng(0)

    def weight(spec):
        shape, _ = spec
        value = np.ones(shape) if len(shape) == 1 else random.standard_normal(shape) * 0.02
        return value.astype(np.float32)

    weights = jax.tree.map(weight, weight_specs(), is_leaf=is_spec)
    zeros = jax.tree.map(np.zeros_like, weights)
    return jax.device_put((weights, zeros, zeros, np.float32(0)), state_shardings(mesh))


def state_shardings(mesh: Mesh):
    weights = jax.tree.map(lambda spec: NamedSharding(mesh, spec[1]), weight_specs(), is_leaf=is_spec)
    return weights, weights, weights, NamedSharding(mesh, P())


def normalise(x, gain):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * gain


def loss_fn(params, tokens):
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    x = params["embed"][inputs] + params["position"]
    mask = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    for layer in params["layers"]:
        q, k, v = jnp.einsum("btd,dchn->cbthn", normalise(x, layer["norm1"]), layer["qkv"])
        scores = jnp.einsum("bthn,bshn->bhts", q, k) * (WIDTH // HEADS) ** -0.5
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
        x = x + jnp.einsum("bhts,bshn,hnd->btd", weights, v, layer["out"])
        x = x + jax.nn.gelu(normalise(x, layer["norm2"]) @ layer["up"]) @ layer["down"]
    logits = normalise(x, params["norm"]) @ params["embed"].T
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1)
    return -jnp.mean(picked)


def train_step(state, tokens):
    """One step of Adam."""
    params, m, v, step = state
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens)
    step = step + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, grads)
    scale = 2e-3 * jnp.minimum(1.0, step / 20)

    def update(p, m, v):
        return p - scale * (m / (1 - 0.9**step)) / (jnp.sqrt(v / (1 - 0.99**step)) + 1e-8)

    return (jax.tree.map(update, params, m, v), m, v, step), loss


def compile_step(mesh: Mesh):
    return jax.jit(train_step, donate_argnums=0, out_shardings=(state_shardings(mesh), NamedSharding(mesh, P())))


def curve(losses, width=60, height=12) -> str:
    """The losses as text: one column a bucket of steps."""
    columns = [float(np.mean(part)) for part in np.array_split(losses, min(width, len(losses)))]
    low, high = min(columns), max(columns)
    rows = []
    for level in np.linspace(high, low, height):
        half = (high - low) / (height - 1) / 2 or 1
        rows.append(f"{level:6.2f} |" + "".join("*" if abs(c - level) <= half else " " for c in columns))
    return "\n".join(rows + ["       +" + "-" * len(columns)])


def save_picture(losses, path):
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print(f"(matplotlib isn't installed: no picture at {path})")
        return
    figure, axes = plt.subplots(figsize=(7, 4))
    axes.plot(losses)
    axes.set(xlabel="step", ylabel="loss", title=f"transformer language model on {jax.device_count()} devices")
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"picture saved to {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16, help="sequences of 64 bytes a step")
    parser.add_argument("--picture", default="", help="save the loss curve as a PNG")
    args = parser.parse_args()

    mesh = make_mesh()
    print(f"{jax.device_count()} {jax.devices()[0].platform} devices, mesh {dict(mesh.shape)}")
    state, step_fn = init(mesh), compile_step(mesh)
    count = sum(p.size for p in jax.tree.leaves(state[0]))
    print(f"{count:,} parameters, cut over fsdp and tensor; batches over data and fsdp")

    rows = NamedSharding(mesh, P(("data", "fsdp")))
    source = batches(corpus(), args.batch, seed=1)
    losses, waiting = [], []
    began = window = time.perf_counter()
    first = None
    for step in range(1, args.steps + 1):
        state, loss = step_fn(state, jax.device_put(next(source), rows))
        waiting.append(loss)
        if step == 1:
            losses.append(float(waiting.pop()))
            first = time.perf_counter() - began
            print(f"step    1  loss {losses[-1]:.4f}  (compiled and run in {first:.1f} s)", flush=True)
            window = time.perf_counter()
        elif step % 20 == 0 or step == args.steps:
            # The steps were only described so far; here the client waits for their values.
            losses += [float(x) for x in waiting]
            rate = len(waiting) / (time.perf_counter() - window)
            print(f"step {step:4d}  loss {losses[-1]:.4f}  {rate:6.1f} steps/s", flush=True)
            waiting, window = [], time.perf_counter()
    total = time.perf_counter() - began - first
    print(curve(losses))
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}; {(len(losses) - 1) / max(total, 1e-9):.1f} steps/s")
    if args.picture:
        save_picture(losses, args.picture)


if __name__ == "__main__":
    main()
