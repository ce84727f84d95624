"""Arrays of other libraries and arrays of the cluster, by the host.

DLPack passes on an address, and the cluster's arrays have none in this process. What jax takes for memory of its "cpu" lies on
a local CPU device here and is copied to the cluster or from it: a tensor that comes in lies on the default device afterwards, and
an array that goes out is given as a copy. Who forbids copies (copy=False) gets jax's own refusal.
"""

import numpy as np

from jax._src import api, dlpack

from switchtower.overlay import Overlay


def install(is_ours, local_client) -> None:
    """`is_ours` tells the clients that this is for, `local_client` gives one that isn't."""
    xla_bridge, to_dlpack = dlpack.xla_bridge, dlpack._to_dlpack
    check_device, place_array = dlpack._check_device, dlpack._place_array

    def get_backend(platform=None):
        backend = xla_bridge.get_backend(platform)
        return local_client() if platform == "cpu" and is_ours(backend) else backend

    def stands_in(device) -> bool:
        return is_ours(xla_bridge.get_backend("cpu")) and device.client is local_client()

    def _to_dlpack(x, stream, src_device=None, device=None, **options):
        source = src_device if src_device is not None else next(iter(x.devices()))
        if device is None and is_ours(source.client):
            device = local_client().devices()[0]
        return to_dlpack(x, stream=stream, src_device=source, device=device, **options)

    def _check_device(device, dlpack_device, copy):
        if device is None and stands_in(dlpack_device):
            device = xla_bridge.get_backend("cpu").devices()[0]
        check_device(device, dlpack_device, copy)

    def _place_array(array, device, dlpack_device, copy):
        if device is None and stands_in(dlpack_device):
            return api.device_put(np.asarray(array))
        return place_array(array, device, dlpack_device, copy)

    dlpack.xla_bridge = Overlay(xla_bridge, get_backend=get_backend)
    dlpack._to_dlpack, dlpack._check_device, dlpack._place_array = _to_dlpack, _check_device, _place_array
