"""What a launch costs the client, beside a server that only acknowledges, and the proxy, beside gRPC alone."""

import contextlib
import json
import subprocess

import contestants
from rows import alternate, median, ratio

LAUNCHES = 500  # fewer than the door lets a client have under way: it is never held up
ROUNDS = 20  # a round is some 50 ms: that many, since threads find their cores anew in each


def client_time(rows, options):
    """Wall and CPU time of the client's process from launch to launch, one worker and four."""
    for hosts in (1, 4):
        with contestants.switchtower(options.switchtower, hosts) as real, \
                contestants.acknowledged(options.ack_server, hosts) as acknowledged:
            field = [real, acknowledged]
            for one in field:
                one.ask(op="launch", count=LAUNCHES)
            answers, errors = alternate(field, ROUNDS * options.passes, lambda one: one.ask(op="launch", count=LAUNCHES))
            if errors:
                rows.add("client_time_failed", hosts=hosts, error=str(errors)[-500:])
                continue
            for what in ("seconds", "cpu_seconds"):
                per_launch = lambda answer: answer[what] / LAUNCHES * 1e6
                rows.add("client_time", hosts=hosts, what=what.replace("seconds", "us"),
                         switchtower=median(answers["switchtower"], per_launch),
                         acknowledged=median(answers["acknowledged"], per_launch),
                         ratio=ratio(answers["switchtower"], answers["acknowledged"], per_launch))


def grpc_alone(options):
    out = subprocess.run([options.grpc_echo, "20000"], capture_output=True, text=True, check=True).stdout
    return {row["mode"]: row["server_cpu_us"] for row in map(json.loads, out.splitlines())}


def proxy_cpu(rows, options):
    """CPU time of the proxy for a launch, by number of workers, with gRPC's own in the same run."""
    with contextlib.ExitStack() as stack:
        clusters = {hosts: stack.enter_context(contestants.switchtower(options.switchtower, hosts)) for hosts in (1, 2, 4, 8)}
        echoes, launches = [], {hosts: [] for hosts in clusters}
        for _ in range(options.passes):
            echoes.append(grpc_alone(options))
            for hosts, one in clusters.items():
                for op in ("opbyop", "waiting"):
                    answer = one.measure(op, max(options.seconds, 1))
                    launches[hosts].append((op, answer["proxy_cpu_seconds"] / answer["launches"] * 1e6))
    echo = {mode: median(echoes, lambda one: one[mode]) for mode in echoes[0]}
    for op, mode in (("opbyop", "ahead"), ("waiting", "alone")):
        cost = {hosts: median([us for o, us in passes if o == op], float) for hosts, passes in launches.items()}
        further = (cost[8] - cost[1]) / 7
        rows.add("proxy_cpu", op=op, us_by_workers={str(hosts): round(us, 2) for hosts, us in cost.items()},
                 us_each_further_worker=further, grpc_echo_us=echo[mode], grpc_write_us=echo["write"],
                 one_worker_ratio=cost[1] / echo[mode], further_worker_ratio=further / echo["write"])


def measure(rows, options):
    client_time(rows, options)
    proxy_cpu(rows, options)
