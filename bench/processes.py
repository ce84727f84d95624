"""What the kernel says of this machine's processes, and the environments that measured processes get."""

import os
import pathlib
import socket

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
ROLES = ("proxy", "worker", "compiler", "resource-manager")


def _stat(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def resident(pid):
    """Bytes."""
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def cpu_seconds(pid):
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICK


def cluster_processes(parent):
    """Pids of the cluster's roles below a process, by role."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                argv = (entry / "cmdline").read_bytes().split(b"\0")
                if len(argv) > 1:
                    children.setdefault(int(_stat(entry.name)[1]), []).append((int(entry.name), argv[1].decode(errors="replace")))
            except OSError:
                pass  # gone
    roles, waiting = {}, [parent]
    while waiting:
        for pid, role in children.get(waiting.pop(), []):
            if role in ROLES:
                roles.setdefault(role, []).append(pid)
            if role in ROLES or role == "up":
                waiting.append(pid)
    return roles


def totals(of, parent):
    """The sum of `of(pid)` over each role's processes."""
    sums = {}
    for role, pids in cluster_processes(parent).items():
        for pid in pids:
            try:
                sums[role] = sums.get(role, 0) + of(pid)
            except OSError:
                pass  # a compiler that has just been replaced
    return sums


def environment(**more):
    """This process's, without what would send a client elsewhere."""
    dropped = ("JAX_PLATFORMS", "JAX_BACKEND_TARGET", "XLA_FLAGS", "PJRT_NPROC")
    return {k: v for k, v in os.environ.items() if k not in dropped and not k.lower().endswith("_proxy")} | more


def plain_environment(devices, large_pool=True):
    """JAX on the CPU with virtual devices. With the pool of its own choice a training step is the fastest on few cores, but
    small programs called one by one hang in a collective, which a pool for more than all devices at once prevents."""
    pool = {"PJRT_NPROC": str(2 * devices + 2)} if large_pool else {}
    return environment(JAX_PLATFORMS="cpu", XLA_FLAGS=f"--xla_force_host_platform_device_count={devices}", **pool)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
