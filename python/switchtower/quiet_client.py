"""Threads of the wheel's client that wake less often.

Its batcher looks every 50 us whether there is something to send, about 5,000 times a second, and each time it takes a
core from whatever runs there: on a machine that also has workers, a training step is a tenth slower by it. The interval
is a constant of the wheel, but the kernel may let threads sleep longer than they ask for, up to their "timer slack",
which they inherit from the thread that starts them. What is late by it are releases of arrays; all other requests send
what waits before them.
"""

import contextlib
import ctypes
import functools
import sys

SLACK_NS = 1_000_000

_PR_SET_TIMERSLACK, _PR_GET_TIMERSLACK = 29, 30  # linux/prctl.h


def install() -> None:
    from jax.extend.backend import ifrt_proxy

    if not sys.platform.startswith("linux") or hasattr(ifrt_proxy.get_client, "__wrapped__"):
        return
    get_client = ifrt_proxy.get_client

    @functools.wraps(get_client)
    def quiet_client(*args, **kwargs):
        with timer_slack(SLACK_NS):
            return get_client(*args, **kwargs)

    quiet_client.__wrapped__ = get_client
    ifrt_proxy.get_client = quiet_client


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
