"""The paper's micro-benchmark on Monarch's actors: one process a host, JAX with gloo between them.

    python monarch_peer.py PROCESSES PORT      serves requests (serving.py); PYTHONPATH holds paper.py

Each actor runs the client's program itself; its controller here says when. OpByOp: a broadcast for each computation, the last
call's answer awaited. Chained and Fused: a call for each program.
"""

import sys
import time

from monarch.actor import Actor, endpoint, current_rank, this_host
from serving import serve


class Host(Actor):
    def __init__(self, count: int, port: int):
        from paper import Paper, join_group

        if count > 1:
            join_group(current_rank().rank, count, port)
        self._paper = Paper()
        self._value = None

    @endpoint
    def begin(self) -> None:
        self._value = self._paper.zero

    @endpoint
    def step(self, op: str) -> None:
        self._value = self._paper.programs[op][0](self._value)

    @endpoint
    def value(self) -> float:
        return self._paper.value(self._value)


def main(count, port):
    # Kept: an actor whose mesh is let go of may be ended.
    processes = this_host().spawn_procs({"hosts": count})
    hosts = processes.spawn("hosts", Host, count, port)
    hosts.begin.call().get()

    def run(op, count):
        hosts.begin.call().get()
        begin = time.perf_counter()
        for _ in range(count):
            if op == "waiting":
                hosts.step.call(op).get()
                values = hosts.value.call().get()
            else:
                hosts.step.broadcast(op)
        values = hosts.value.call().get()
        seconds = time.perf_counter() - begin
        steps = {"chained": 128, "fused": 128}.get(op, 1)
        got = [value for _, value in values.items()]
        assert all(abs(value - count * steps) <= 1e-3 * value for value in got), (got, count * steps)
        return {"seconds": seconds, "computations": count * steps}

    serve(lambda request: run(**request))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
