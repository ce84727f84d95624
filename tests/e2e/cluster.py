"""Helpers of the end-to-end tests: scripts on plain CPU JAX and on clusters, and what a cluster left behind."""

import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("SWITCHTOWER", ROOT / "build" / "switchtower"))
# slices x hosts x devices: eight devices each time
SHAPES = [(2, 2, 2), (1, 1, 8), (1, 4, 2), (4, 2, 1), (8, 1, 1)]
TIMEOUT_S = 600


def clean_environment():
    return {k: v for k, v in os.environ.items()
            if k not in ("JAX_PLATFORMS", "JAX_BACKEND_TARGET", "XLA_FLAGS") and not k.lower().endswith("_proxy")}


def client_environment(address):
    """What a client of the proxy at `address` needs."""
    return clean_environment() | {
        "JAX_PLATFORMS": "proxy", "JAX_BACKEND_TARGET": address, "IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS": "true",
        "PYTHONPATH": f"{ROOT / 'python'}:{os.environ.get('PYTHONPATH', '')}",
    }


def check(process: subprocess.CompletedProcess, what: str) -> str:
    if process.returncode != 0:
        tail = "\n".join((process.stdout + process.stderr).splitlines()[-40:])
        raise AssertionError(f"{what}: exit code {process.returncode}\n{tail}")
    return process.stdout


def plain_cpu(arguments, devices: int = 8) -> str:
    environment = clean_environment() | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "PJRT_NPROC": str(2 * devices + 2),  # JAX's own CPU collectives hang with fewer threads than devices
    }
    return check(subprocess.run([sys.executable, *map(str, arguments)], env=environment, text=True, capture_output=True,
                                timeout=TIMEOUT_S), "plain CPU")


def cluster_flags(shape):
    return [f"--slices={shape[0]}", f"--hosts={shape[1]}", f"--devices={shape[2]}"]


def run_on_cluster(shape, arguments, flags=()) -> str:
    """Runs a Python script under `switchtower run`."""
    command = [str(BINARY), "run", *cluster_flags(shape), *flags, "--", sys.executable, *map(str, arguments)]
    return check(subprocess.run(command, env=clean_environment(), text=True, capture_output=True, timeout=TIMEOUT_S),
                 f"cluster {'x'.join(map(str, shape))}")


class Up:
    """`switchtower up` as a context; .env is what a client needs."""

    def __init__(self, shape, flags=()):
        self.command = [str(BINARY), "up", *cluster_flags(shape), "--port=0", *flags]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, env=clean_environment(), text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, start_new_session=True)
        line = self.process.stdout.readline()
        if not line.startswith("switchtower ready: "):
            raise AssertionError(f"no ready line: {line}{self.process.stderr.read()}")
        self.address = line.split()[-1]
        self.env = client_environment(self.address)
        return self

    def children(self, role):
        """Pids of the cluster's processes of one role."""
        found = []
        for pid in descendants(self.process.pid):
            try:
                argv = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if len(argv) > 1 and argv[1].decode() == role:
                found.append(pid)
        return found

    def run(self, script, timeout=TIMEOUT_S):
        return subprocess.run([sys.executable, "-c", script], env=self.env, text=True, capture_output=True, timeout=timeout)

    def popen(self, script):
        return subprocess.Popen([sys.executable, "-c", script], env=self.env, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, start_new_session=True)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()


def read_until(process, prefix):
    """The line of a process that starts with `prefix`; the client's own warnings before it are passed over."""
    seen = []
    for line in process.stdout:
        if line.startswith(prefix):
            return line.strip()
        seen.append(line)
    raise AssertionError(f"no line {prefix!r}: {''.join(seen)[-4000:]}")


def descendants(pid):
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
        children.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        for child in children.get(todo.pop(), []):
            found.append(child)
            todo.append(child)
    return found


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds=30, what="condition"):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} not met after {seconds} s")
        time.sleep(0.02)
