"""What a user meets at the command line: flags, errors as sentences, the client's environment."""

import os
import pathlib
import re
import resource
import socket
import subprocess
import sys
import tempfile
import unittest

from cluster import BINARY, Up, clean_environment


def switchtower(*arguments, timeout=120, env=None):
    return subprocess.run([str(BINARY), *arguments], env=env or clean_environment(), capture_output=True, text=True, timeout=timeout)


class CommandLine(unittest.TestCase):
    def test_every_role_explains_its_flags(self):
        for role in ("up", "run", "resource-manager", "proxy", "worker", "status", "top", "why", "trace"):
            done = switchtower(role, "--help")
            self.assertEqual(done.returncode, 0)
            flags = re.findall(r"^  (-\S+)(.*(?:\n {8,}.*)?)", done.stdout, re.M)
            self.assertGreater(len(flags), 1, done.stdout)
            for names, rest in flags:  # after two spaces, or in a line of its own
                self.assertRegex(rest, r"(?: {2,}|\n +)\w", f"{role} {names} has no explanation")

    def test_dashes_and_underscores_are_the_same(self):
        done = switchtower("proxy", "--server-port=70000", "--resource_manager_address=x")
        self.assertIn("65535", done.stderr)

    def test_flag_out_of_range(self):
        done = switchtower("up", "--slices=0")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--slices", done.stderr)

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            done = switchtower("up", f"--port={taken.getsockname()[1]}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("in use", done.stderr)

    def test_plugin_not_found(self):
        done = switchtower("up", "--port=0", "--pjrt-plugin=/nowhere/plugin.so")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/plugin.so", done.stderr)

    def test_plugin_that_is_none(self):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(b"not a library")
            file.flush()
            done = switchtower("up", "--port=0", f"--pjrt-plugin={file.name}")
        self.assertEqual(done.returncode, 1)
        self.assertIn(file.name, done.stderr)

    def test_log_file_that_can_not_be(self):
        done = switchtower("resource-manager", "--server_port=0", "--log-file=/proc/nowhere/a.log")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--log-file /proc/nowhere/a.log: ", done.stderr)

    def test_worker_without_manager(self):
        done = switchtower("worker", "--resource_manager_address=no-such-host.invalid:1", "--connect-timeout=1", "--devices=1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--resource_manager_address", done.stderr)

    def test_run_extends_pythonpath(self):
        done = switchtower("run", "--", sys.executable, "-c",
                           "import os; print(os.environ['PYTHONPATH']); print(os.environ['JAX_PLATFORMS'])",
                           env=clean_environment() | {"PYTHONPATH": "/mine"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.splitlines()[0].endswith(":/mine"), done.stdout)
        self.assertEqual(done.stdout.splitlines()[1], "proxy")

    def test_a_program_begins_and_ends_without_a_warning(self):
        for level, warns in ((None, False), ("0", True)):
            env = clean_environment() | ({} if level is None else {"TF_CPP_MIN_LOG_LEVEL": level})
            done = switchtower("run", "--", sys.executable, "-c", "import jax; print(jax.numpy.arange(3) + 1)", env=env)
            self.assertEqual(done.stdout, "[1 2 3]\n", done.stderr)
            self.assertEqual(re.search(r"(?m)^W\d{4}", done.stderr) is not None, warns, done.stderr)

    def test_a_compile_error_is_xlas_own(self):
        done = switchtower("run", "--", sys.executable, "-c", """
import jax
try: jax.jit(lambda x: x, compiler_options={"no_such": 1})(1.0)
except jax.errors.JaxRuntimeError as error: print(error)
""", env=clean_environment())
        self.assertEqual(done.stdout, "INVALID_ARGUMENT: No such compile option: 'no_such'\n", done.stderr)

    def test_log_dir_has_a_log_for_each_role(self):
        with tempfile.TemporaryDirectory() as folder:
            with Up((1, 2, 1), [f"--log-dir={folder}"]):
                names = set(os.listdir(folder))
        self.assertEqual(names, {"resource-manager.log", "proxy.log", "worker-slice0-0.log", "worker-slice0-1.log"})

    def test_servers_may_open_as_many_files_as_the_system_lets_them(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
        with Up((1, 1, 1)) as up:
            servers = [pid for role in ("resource-manager", "proxy", "worker") for pid in up.children(role)]
            self.assertEqual([resource.prlimit(pid, resource.RLIMIT_NOFILE) for pid in servers], [(hard, hard)] * 3)
        # What a user's program may is the user's choice.
        done = switchtower("run", "--", sys.executable, "-c", "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))")
        self.assertEqual(done.stdout, f"{(512, hard)}\n", done.stderr)

    def test_workers_share_the_cores_of_the_machine(self):
        cores = os.sched_getaffinity(0)
        with Up((1, 2, 1)) as up:
            workers = up.children("worker")
            for pid in workers:
                environment = pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0")
                self.assertIn(f"PJRT_NPROC={max(1, len(cores) // 2)}", environment)
            if len(cores) % 2 == 0:
                shares = [os.sched_getaffinity(pid) for pid in workers]
                self.assertEqual(shares[0] & shares[1], set())
                self.assertEqual(shares[0] | shares[1], cores)


if __name__ == "__main__":
    unittest.main()
