"""A cluster on this machine, for as long as a measurement lasts."""

import os
import pathlib
import subprocess
import tempfile

from processes import cpu_seconds, environment, resident, totals

ROOT = pathlib.Path(__file__).resolve().parents[1]


def client_environment(address):
    """What a client of the server at `address` needs."""
    return environment(JAX_PLATFORMS="proxy", JAX_BACKEND_TARGET=address, IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS="true",
                       PYTHONPATH=f"{ROOT / 'python'}:{os.environ.get('PYTHONPATH', '')}")


class Cluster:
    """`switchtower up`: started when entered, ended when left."""

    def __init__(self, binary, hosts, devices=1, slices=1, cache="none", flags=()):
        self._argv = [str(binary), "up", f"--slices={slices}", f"--hosts={hosts}", f"--devices={devices}", "--port=0",
                      f"--compile-cache-dir={cache}", *flags]

    def __enter__(self):
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(self._argv, env=environment(), stdout=subprocess.PIPE, stderr=self._log, text=True)
        words = self._process.stdout.readline().split()
        if not words:
            self._process.wait()
            self._log.seek(0)
            raise RuntimeError(f"{self._argv}: ended at once\n{self._log.read()[-4000:].decode(errors='replace')}")
        self.env = client_environment(words[-1])
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()
        self._log.close()

    @property
    def pid(self):
        return self._process.pid

    def cpu_seconds(self):
        """So far, by role."""
        return totals(cpu_seconds, self.pid)

    def resident(self):
        """Bytes, by role."""
        return totals(resident, self.pid)
