"""Serves steps of examples/train_lm.py on whatever devices JAX has: {"op": "train", "count": 10}."""

import pathlib
import sys
import time

BATCH = 16


class Training:
    def __init__(self):
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
        import jax
        import train_lm

        self._jax = jax
        mesh = train_lm.make_mesh()
        self._rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(("data", "fsdp")))
        self._state, self._step = train_lm.init(mesh), train_lm.compile_step(mesh)
        self._batches = train_lm.batches(train_lm.corpus(), BATCH, 1)

    def run(self, op, count):
        assert op == "train", op
        begin = time.perf_counter()
        for _ in range(count):
            self._state, loss = self._step(self._state, self._jax.device_put(next(self._batches), self._rows))
        return {"loss": float(loss), "seconds": time.perf_counter() - begin, "computations": count}


if __name__ == "__main__":
    from serving import serve

    training = Training()
    serve(lambda request: training.run(**request))
