"""A forked child has its parent's sockets, and what it sends by them, be it that it frees an inherited array, would be taken
for the parent's: its session would lose the array, or end. So in a child they lead nowhere. Nor does its end wait for the
threads that answers come by, which the parent alone has."""

import atexit
import contextlib
import ctypes
import os
import socket
import stat

from switchtower.agent import address_of

_servers: set[tuple[str, int]] = set()  # (address, port)


def protect(target: str) -> None:
    """From now on, connections to this server are the parent's alone."""
    if not _servers:
        os.register_at_fork(after_in_child=_cut_off)
    with contextlib.suppress(OSError, ValueError):  # who connects there says what is wrong with it
        host, port = address_of(target)
        _servers.update(_end(info[4]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


def _end(address: tuple) -> tuple[str, int]:
    return address[0].removeprefix("::ffff:"), address[1]


def _cut_off() -> None:
    nowhere, other = socket.socketpair()
    other.close()
    for name in os.listdir("/proc/self/fd"):
        if _leads_to_a_server(int(name)):
            os.dup2(nowhere.fileno(), int(name))
    nowhere.close()

    from jax._src import api, dispatch, xla_bridge

    atexit.unregister(api.clean_up)
    atexit.unregister(dispatch.wait_for_tokens)
    for client in xla_bridge._backends.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))  # it stays whatever becomes of jax's own references


def _leads_to_a_server(fd: int) -> bool:
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            return False
        with socket.socket(fileno=os.dup(fd)) as copy:
            peer = copy.getpeername()
    except OSError:  # the list's own descriptor, or a socket that isn't connected
        return False
    return isinstance(peer, tuple) and _end(peer) in _servers
