"""Lets plain jax find the "proxy" backend: jax imports every module of the jax_plugins namespace and calls initialize().

With this folder on PYTHONPATH (`switchtower run` puts it there) a script needs no import of ours and none of pathwaysutils;
a script that calls pathwaysutils.initialize() itself registers the same backend again, which is harmless.
"""

import os


def initialize() -> None:
    if "proxy" not in (os.environ.get("JAX_PLATFORMS") or "").split(","):
        return
    import jax
    from jax._src import xla_bridge
    from jax.extend import backend
    from jax.extend.backend import ifrt_proxy

    if "proxy" in getattr(xla_bridge, "_backend_factories", {}):
        return  # the script has its own, perhaps with options

    def make_client():
        options = ifrt_proxy.ClientConnectionOptions()
        timeout = os.environ.get("PATHWAYS_PROXY_CONNECTION_TIMEOUT_SECS")
        if timeout:
            options.connection_timeout_in_seconds = int(timeout)
        return ifrt_proxy.get_client(jax.config.read("jax_backend_target"), options)

    backend.register_backend_factory("proxy", make_client, priority=-1)
    # Programs are compiled and cached by the server; a cache in the client would keep executables it can't read back.
    jax.config.update("jax_enable_compilation_cache", False)

    from switchtower import unreduced

    unreduced.install()
