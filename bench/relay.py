"""What it costs that a session is relayed to another proxy. JSON lines.

    python bench/relay.py --switchtower build/switchtower [--launches 20000] [--passes 3]

One worker and two proxies that share it. A client at the first proxy, the home, and one at the second, in turns: launches of a
small program in a chain, and a large array put and read back. CPU time is that of each proxy's process. Medians are printed.
"""

import contextlib
import json
import statistics
import subprocess
import sys
import time

import two_sided
from cluster import client_environment
from processes import cpu_seconds, environment

ARRAY_MIB = 64


def measure(options):
    """A line when it begins and one when it has ended, for each part."""
    import jax
    import numpy as np

    step = jax.jit(lambda v: v + 1)
    value = step(jax.device_put(np.zeros(4, np.float32)))
    for _ in range(1000):
        value = step(value)
    value.block_until_ready()

    def part(name, work):
        print("begin", name, flush=True)
        sys.stdin.readline()
        begin = time.perf_counter()
        work()
        print("end", name, time.perf_counter() - begin, flush=True)
        sys.stdin.readline()

    def chain():
        v = value
        for _ in range(options.launches):
            v = step(v)
        v.block_until_ready()

    def array():
        host = np.ones(ARRAY_MIB << 18, np.float32)
        np.testing.assert_array_equal(np.asarray(jax.device_put(host)), host)

    part("launches", chain)
    part("array", array)


class Roles:
    def __init__(self, binary, stack):
        self.binary, self.stack = binary, stack

    def start(self, role, *flags):
        process = subprocess.Popen([self.binary, role, *flags], env=environment(), text=True, stdout=subprocess.PIPE)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process, process.stdout.readline().split()[-1]


def run_pass(target, proxies, launches):
    client = subprocess.Popen(two_sided.client_command(__file__, launches=launches), env=client_environment(target), text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    result = {}
    for line in client.stdout:
        words = line.split()
        if words[0] == "begin":
            before = [cpu_seconds(process.pid) for process in proxies]
        elif words[0] == "end":
            cpu = [cpu_seconds(process.pid) - earlier for process, earlier in zip(proxies, before)]
            result[words[1]] = (float(words[2]), *cpu)
        client.stdin.write("\n")
        client.stdin.flush()
    if client.wait() != 0:
        raise SystemExit("the client failed")
    return result


def drive(options):
    with contextlib.ExitStack() as stack:
        roles = Roles(options.switchtower, stack)
        _, manager = roles.start("resource-manager", "--server_port=0", "--instance_count=1", "--instance_type=any:1x1")
        at_manager = f"--resource_manager_address={manager}"
        roles.start("worker", "--devices=1", at_manager)
        home, home_door = roles.start("proxy", "--server_port=0", at_manager)
        other, other_door = roles.start("proxy", "--server_port=0", at_manager)
        hold = "import jax, sys; jax.devices(); print('open', flush=True); sys.stdin.read()"
        holder = subprocess.Popen([sys.executable, "-c", hold], env=client_environment(home_door), text=True, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        stack.callback(holder.wait)
        stack.callback(holder.stdin.close)
        holder.stdout.readline()  # while it is there the first proxy stays the home
        passes = {"home": [], "relayed": []}
        for _ in range(options.passes):
            passes["home"].append(run_pass(home_door, (home, other), options.launches))
            passes["relayed"].append(run_pass(other_door, (home, other), options.launches))
        for way, results in passes.items():
            seconds, home_cpu, other_cpu = (statistics.median(r["launches"][i] for r in results) for i in range(3))
            array_s, home_array, other_array = (statistics.median(r["array"][i] for r in results) for i in range(3))
            print(json.dumps({"client_at": way, "launches_per_s": round(options.launches / seconds),
                              "home_cpu_us_per_launch": round(home_cpu / options.launches * 1e6, 1),
                              "other_cpu_us_per_launch": round(other_cpu / options.launches * 1e6, 1),
                              "array_mib_per_s": round(2 * ARRAY_MIB / array_s),
                              "home_cpu_ms_per_mib": round(home_array / (2 * ARRAY_MIB) * 1e3, 2),
                              "other_cpu_ms_per_mib": round(other_array / (2 * ARRAY_MIB) * 1e3, 2)}), flush=True)


if __name__ == "__main__":
    sys.exit(two_sided.main(__doc__, measure, drive, launches=20000, passes=3))
