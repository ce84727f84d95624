"""Threads of the wheel's client that wake less often, a begin and an end without warnings.

Its gRPC reads sockets on threads of its own, which wake each other for every message and then the thread that waits for
it. Without that "experiment" the waiting thread reads the socket itself, and a client that waits for each launch has
half as many wake-ups. gRPC reads its list of experiments once, when the wheel first uses it.

Its batcher looks every 50 us whether there is something to send, about 5,000 times a second, and each time it takes a
core from whatever runs there: on a machine that also has workers, a training step is a tenth slower by it. The interval
is a constant of the wheel, but the kernel may let threads sleep longer than they ask for, up to their "timer slack",
which they inherit from the thread that starts them. What is late by it are releases of arrays; all other requests send
what waits before them.

The wheel warns at each start that the connection isn't encrypted, and at the end, with a stack trace, that the server has
disconnected. In between its warnings have their use: of a connection that broke they alone know the reason.
"""

import atexit
import contextlib
import ctypes
import functools
import os
import sys

from switchtower import forks

SLACK_NS = 1_000_000
EXPERIMENTS = "GRPC_EXPERIMENTS"
OWN_POLLER = "event_engine_client"
LOG_LEVEL, JAX_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL", 1  # jax sets it where the user doesn't

_PR_SET_TIMERSLACK, _PR_GET_TIMERSLACK = 29, 30  # linux/prctl.h


def install() -> None:
    from jax.extend.backend import ifrt_proxy

    if not sys.platform.startswith("linux") or hasattr(ifrt_proxy.get_client, "__wrapped__"):
        return
    get_client = ifrt_proxy.get_client

    @functools.wraps(get_client)
    def quiet_client(target, *args, **kwargs):
        forks.protect(target)
        with timer_slack(SLACK_NS), without_experiment(OWN_POLLER), only_errors():
            return get_client(target, *args, **kwargs)

    quiet_client.__wrapped__ = get_client
    atexit.register(_log_from, JAX_LOG_LEVEL + 1)
    ifrt_proxy.get_client = quiet_client


@contextlib.contextmanager
def only_errors():
    """The wheel logs no warnings meanwhile, unless the user has named a level."""
    _log_from(JAX_LOG_LEVEL + 1)
    try:
        yield
    finally:
        _log_from(JAX_LOG_LEVEL)


def _log_from(level: int) -> None:
    import jax
    from jax._src.lib import utils

    chosen = os.environ.get(LOG_LEVEL, str(JAX_LOG_LEVEL)) != str(JAX_LOG_LEVEL)
    chosen = chosen or jax.config.jax_logging_level not in (None, "NOTSET")
    if not chosen and hasattr(utils, "absl_set_min_log_level"):
        utils.absl_set_min_log_level(level)


@contextlib.contextmanager
def timer_slack(nanoseconds: int):
    """The timer slack of this thread, and of those that it starts meanwhile."""
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    before = prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0)
    if before <= 0 or prctl(_PR_SET_TIMERSLACK, nanoseconds, 0, 0, 0) != 0:
        yield
        return
    try:
        yield
    finally:
        prctl(_PR_SET_TIMERSLACK, before, 0, 0, 0)


@contextlib.contextmanager
def without_experiment(name: str):
    """Switches off what gRPC, should it start meanwhile, would try; unless the user has said something about it."""
    before = os.environ.get(EXPERIMENTS)
    chosen = [word for word in (before or "").split(",") if word]
    if any(word.removeprefix("-") == name for word in chosen):
        yield
        return
    os.environ[EXPERIMENTS] = ",".join([*chosen, f"-{name}"])
    try:
        yield
    finally:
        if before is None:
            del os.environ[EXPERIMENTS]
        else:
            os.environ[EXPERIMENTS] = before
