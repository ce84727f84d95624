"""Systems that do the same work, each a process or several that live as long as a measurement and answer requests.

All are started once and asked in turn, pass by pass: what the machine does meanwhile hits all of them alike.
"""

import contextlib
import json
import pathlib
import select
import subprocess
import sys
import tempfile
import time

from cluster import Cluster, client_environment
from processes import environment, free_port, plain_environment

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS = 300


class Contestant:
    """Processes that get each request together; the first one's answer counts."""

    def __init__(self, name, commands, environments, cluster=None):
        self.name, self.cluster = name, cluster
        self._logs, self._processes = [], []
        for command, env in zip(commands, environments):
            log = tempfile.TemporaryFile()
            self._logs.append(log)
            self._processes.append(subprocess.Popen([str(word) for word in command], env=env, stdin=subprocess.PIPE,
                                                    stdout=subprocess.PIPE, stderr=log))
        self._counts = {}
        try:
            self._answers(START_SECONDS)
        except RuntimeError:
            self.stop()
            raise

    def stop(self):
        for process in self._processes:
            with contextlib.suppress(OSError):
                process.stdin.close()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for log in self._logs:
            log.close()

    def ask(self, timeout=120, **request):
        for process in self._processes:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        return self._answers(timeout)[0]

    def measure(self, op, seconds, **more):
        """One pass of about so many seconds; with the CPU time of the cluster's roles, if it has one."""
        key = (op, *more.values())
        if key not in self._counts:
            self.ask(op=op, count=2, **more)  # compiles
            count = 4
            while (took := self.ask(op=op, count=count, **more)["seconds"]) < seconds / 4:
                count = min(8 * count, max(2 * count, int(count * seconds / 2 / max(took, 1e-6))))
            self._counts[key] = max(2, int(count * seconds / took))
        count = self._counts[key]
        before = self.cluster.cpu_seconds() if self.cluster else {}
        answer = self.ask(op=op, count=count, **more) | {"launches": count}
        if self.cluster:
            after = self.cluster.cpu_seconds()
            answer |= {f"{role}_cpu_seconds": after[role] - before.get(role, 0) for role in ("proxy", "worker") if role in after}
        return answer

    def _answers(self, timeout):
        deadline = time.monotonic() + timeout
        answers = []
        for process, log in zip(self._processes, self._logs):
            ready, _, _ = select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))
            line = process.stdout.readline() if ready else b""
            answer = json.loads(line) if line else {"error": f"no answer within {timeout} s" if not ready else "it ended"}
            if "error" in answer:
                log.seek(0)
                raise RuntimeError(f"{self.name}: {answer['error']}\n{log.read()[-2000:].decode(errors='replace')}")
            answers.append(answer)
        return answers


@contextlib.contextmanager
def _stopping(contestant):
    try:
        yield contestant
    finally:
        contestant.stop()


def _script(script):
    return [sys.executable, HERE / script]


@contextlib.contextmanager
def switchtower(binary, hosts, devices=1, script="paper.py"):
    with Cluster(binary, hosts, devices) as cluster:
        with _stopping(Contestant("switchtower", [_script(script)], [cluster.env], cluster)) as contestant:
            yield contestant


def plain_jax(devices, script="paper.py", large_pool=True):
    """One process with virtual devices."""
    return _stopping(Contestant("plain_jax", [_script(script)], [plain_environment(devices, large_pool)]))


def gloo_jax(processes):
    """Multi-controller JAX: each process runs the client's program."""
    port = free_port()
    commands = [[*_script("paper.py"), rank, processes, port] for rank in range(processes)]
    return _stopping(Contestant("gloo_jax", commands, [plain_environment(1)] * processes))


def monarch(python, processes):
    command = [python, HERE / "peers" / "monarch_peer.py", processes, free_port()]
    return _stopping(Contestant("monarch", [command], [environment(JAX_PLATFORMS="cpu", PYTHONPATH=str(HERE))]))


def ray(python, processes):
    # Ray takes another address of the machine for 127.0.0.1 if it can: a network of its own has no other.
    inside = f"ip link set lo up && exec {python} {HERE / 'peers' / 'ray_peer.py'} {processes} {free_port()}"
    env = environment(JAX_PLATFORMS="cpu", PYTHONPATH=str(HERE), RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    return _stopping(Contestant("ray", [["unshare", "--map-root-user", "--net", "sh", "-c", inside]], [env]))


@contextlib.contextmanager
def acknowledged(ack_server, devices):
    """A client of a server that only acknowledges."""
    server = subprocess.Popen([str(ack_server), str(devices)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        env = client_environment(server.stdout.readline().strip())
        with _stopping(Contestant("acknowledged", [_script("paper.py")], [env])) as contestant:
            yield contestant
    finally:
        server.stdin.close()
        server.wait()
        server.stdout.close()
