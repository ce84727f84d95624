"""What it costs that a session is relayed to another proxy. JSON lines.

    python bench/relay.py --switchtower build/switchtower [--launches 20000] [--passes 3]

One worker and two proxies that share it. A client at the first proxy, the home, and one at the second, in turns: launches of a
small program in a chain, and a large array put and read back. CPU time is that of each proxy's process. Medians are printed.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
ARRAY_MIB = 64


def measure(launches):
    """In the client: a line when it begins and one when it has ended, for each part."""
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
        for _ in range(launches):
            v = step(v)
        v.block_until_ready()

    def array():
        host = np.ones(ARRAY_MIB << 18, np.float32)
        np.testing.assert_array_equal(np.asarray(jax.device_put(host)), host)

    part("launches", chain)
    part("array", array)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Roles:
    def __init__(self, binary, stack):
        self.binary, self.stack = binary, stack

    def start(self, role, *flags):
        process = subprocess.Popen([self.binary, role, *flags], text=True, stdout=subprocess.PIPE)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process, process.stdout.readline().split()[-1]


def run_pass(target, proxies, launches):
    environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")} | {
        "JAX_PLATFORMS": "proxy", "JAX_BACKEND_TARGET": target, "IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS": "true",
        "PYTHONPATH": f"{ROOT / 'python'}:{os.environ.get('PYTHONPATH', '')}"}
    client = subprocess.Popen([sys.executable, __file__, "--measure", "--launches", str(launches)], env=environment, text=True,
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--switchtower", type=pathlib.Path)
    parser.add_argument("--launches", type=int, default=20000)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--measure", action="store_true", help="in the client's process: measure on the devices that jax has")
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.launches)
        return 0
    if arguments.switchtower is None:
        parser.error("--switchtower is needed")
    with contextlib.ExitStack() as stack:
        roles = Roles(arguments.switchtower, stack)
        _, manager = roles.start("resource-manager", "--server_port=0", "--instance_count=1", "--instance_type=any:1x1")
        at_manager = f"--resource_manager_address={manager}"
        roles.start("worker", "--devices=1", at_manager)
        home, home_door = roles.start("proxy", "--server_port=0", at_manager)
        other, other_door = roles.start("proxy", "--server_port=0", at_manager)
        environment = os.environ | {"JAX_PLATFORMS": "proxy", "JAX_BACKEND_TARGET": home_door,
                                    "IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS": "true"}
        hold = "import jax, sys; jax.devices(); print('open', flush=True); sys.stdin.read()"
        holder = subprocess.Popen([sys.executable, "-c", hold], env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        stack.callback(holder.wait)
        stack.callback(holder.stdin.close)
        holder.stdout.readline()  # while it is there the first proxy stays the home
        passes = {"home": [], "relayed": []}
        for _ in range(arguments.passes):
            passes["home"].append(run_pass(home_door, (home, other), arguments.launches))
            passes["relayed"].append(run_pass(other_door, (home, other), arguments.launches))
        for way, results in passes.items():
            seconds, home_cpu, other_cpu = (statistics.median(r["launches"][i] for r in results) for i in range(3))
            array_s, home_array, other_array = (statistics.median(r["array"][i] for r in results) for i in range(3))
            print(json.dumps({"client_at": way, "launches_per_s": round(arguments.launches / seconds),
                              "home_cpu_us_per_launch": round(home_cpu / arguments.launches * 1e6, 1),
                              "other_cpu_us_per_launch": round(other_cpu / arguments.launches * 1e6, 1),
                              "array_mib_per_s": round(2 * ARRAY_MIB / array_s),
                              "home_cpu_ms_per_mib": round(home_array / (2 * ARRAY_MIB) * 1e3, 2),
                              "other_cpu_ms_per_mib": round(other_array / (2 * ARRAY_MIB) * 1e3, 2)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
