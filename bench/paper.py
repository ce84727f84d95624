"""The micro-benchmark of the 2022 Pathways paper, a scalar all-reduce and an add, on whatever devices JAX has.

    opbyop   one launch a computation, the value awaited once at the end
    waiting  one launch a computation, each awaited
    chained  128 computations in one program, unrolled
    fused    128 computations in one program, in a loop
    launch   as opbyop, but timed until the last launch has been handed over, not until it has run
    work     a step with so much arithmetic before its all-reduce, launched as opbyop

Run as a process it serves these requests (serving.py): {"op": "opbyop", "count": 100}.
"""

import sys
import time

STEPS = 128
WORK_ELEMENTS = 4096


class Paper:
    def __init__(self):
        import jax
        import numpy as np
        from jax import lax
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

        self._jax, self._np = jax, np
        mesh = Mesh(np.array(jax.devices()), ("x",))
        self._sharding = NamedSharding(mesh, P())
        count = jax.device_count()

        def compute(v):
            return lax.psum(v, "x") / count + 1.0

        def unrolled(v):
            for _ in range(STEPS):
                v = compute(v)
            return v

        def worked(v, work):
            v = lax.fori_loop(0, work, lambda _, a: jax.numpy.sin(a) + 0.5, v)
            return lax.psum(v, "x") / count

        def program(body, arguments=1):
            return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=(P(),) * arguments, out_specs=P(), check_vma=False))

        step = program(compute)
        self.programs = {"opbyop": (step, 1), "waiting": (step, 1), "launch": (step, 1), "chained": (program(unrolled), STEPS),
                          "fused": (program(lambda v: lax.fori_loop(0, STEPS, lambda _, a: compute(a), v)), STEPS)}
        self._worked = program(worked, 2)
        self.zero = self._whole(np.zeros((), np.float32))

    def _whole(self, value):
        """On all devices, also those of other processes."""
        return self._jax.make_array_from_callback(value.shape, self._sharding, lambda index: value[index])

    def value(self, array):
        return float(self._np.asarray(array.addressable_data(0)).reshape(-1)[0])

    def run(self, op, count, work=0):
        if op == "work":
            return self._run_work(count, work)
        program, steps = self.programs[op]
        value = self.zero
        begin, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            value = program(value)
            if op == "waiting":
                value.block_until_ready()
        if op == "launch":
            answer = {"seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - cpu, "computations": count}
            value.block_until_ready()
            return answer
        total = self.value(value)
        answer = {"seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - cpu, "computations": count * steps}
        if abs(total - count * steps) > 1e-3 * total:
            raise AssertionError(f"{op}: {count} launches gave {total}, not {count * steps}")
        return answer

    def _run_work(self, count, work):
        value = self._whole(self._np.ones(WORK_ELEMENTS, self._np.float32))
        amount = self._whole(self._np.asarray(work, self._np.int32))
        value = self._worked(value, amount)
        self.value(value)
        begin = time.perf_counter()
        for _ in range(count):
            value = self._worked(value, amount)
        self.value(value)
        return {"seconds": time.perf_counter() - begin, "computations": count}


def join_group(rank, count, port):
    """One JAX process of several, with gloo between them."""
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", count, rank)


def main(arguments):
    from serving import serve

    if arguments:
        join_group(*map(int, arguments))
    paper = Paper()
    serve(lambda request: paper.run(**request))


if __name__ == "__main__":
    main(sys.argv[1:])
