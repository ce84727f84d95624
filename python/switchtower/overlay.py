"""A module as one other module sees it."""

import types


class Overlay(types.ModuleType):
    """Another module with some functions of its own."""

    def __init__(self, module, **own):
        super().__init__(module.__name__)
        self.__dict__.update(own)
        self._module = module

    def __getattr__(self, name):
        return getattr(self._module, name)
