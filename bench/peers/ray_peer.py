"""The paper's micro-benchmark on Ray's actors: one process a host, JAX with gloo between them.

    python ray_peer.py PROCESSES PORT      serves requests (serving.py); PYTHONPATH holds paper.py

Run it in a network namespace of its own (contestants.ray). OpByOp: a call on each actor for each computation; Chained and Fused:
a call for each program; the last values are awaited.
"""

import sys
import time

import ray
from serving import serve


@ray.remote(num_cpus=0)
class Host:
    def __init__(self, rank, count, port):
        from paper import Paper, join_group

        if count > 1:
            join_group(rank, count, port)
        self._paper = Paper()
        self._value = None

    def begin(self):
        self._value = self._paper.zero

    def step(self, op):
        self._value = self._paper.programs[op][0](self._value)

    def value(self):
        return self._paper.value(self._value)


def main(count, port):
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    hosts = [Host.remote(rank, count, port) for rank in range(count)]
    everywhere = lambda call: [call(host) for host in hosts]
    ray.get(everywhere(lambda host: host.begin.remote()))

    def run(op, count):
        ray.get(everywhere(lambda host: host.begin.remote()))
        begin = time.perf_counter()
        for _ in range(count):
            everywhere(lambda host: host.step.remote(op))
            if op == "waiting":
                ray.get(everywhere(lambda host: host.value.remote()))
        got = ray.get(everywhere(lambda host: host.value.remote()))
        seconds = time.perf_counter() - begin
        steps = {"chained": 128, "fused": 128}.get(op, 1)
        assert all(abs(value - count * steps) <= 1e-3 * value for value in got), (got, count * steps)
        return {"seconds": seconds, "computations": count * steps}

    serve(lambda request: run(**request))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
