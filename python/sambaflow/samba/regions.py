# SPDX-License-Identifier: Apache-2.0
"""Inputs of one region name share device memory:
the first that is traced has it, under its name, and the others are other names of it."""

from sambaflow.errors import NameError_, UnsupportedError


class Regions:
    """Who has which region while a graph is traced."""

    def __init__(self, named=False):
        self.named = named  # an input is called by its region, which several graphs may have
        self.aliases = {}  # name of an input, or of its gradient -> that of the input whose memory it shares
        self._first = {}  # region name -> (name, what stands for it in the graph)

    def shared(self, tensor):
        """What stands for an input that has this one's region; None where this is the first."""
        name, traced = self._first.get(tensor.sn_region_name, (None, None))
        if traced is None or name == tensor.sn_name:
            return None
        if (traced.shape, traced.dtype) != (tensor.shape, tensor.dtype):
            raise UnsupportedError(
                f"inputs {name!r}, {tuple(traced.shape)} {traced.dtype}, and {tensor.sn_name!r}, {tuple(tensor.shape)} "
                f"{tensor.dtype}, have the region "
                f"name {tensor.sn_region_name!r}: tensors that share memory must be alike"
            )
        self._alias(tensor.sn_name, self.device_name(tensor) if self.named else name)
        return traced

    def device_name(self, tensor):
        """The device's name of an input."""
        return tensor.sn_region_name if self.named else tensor.sn_name

    def _alias(self, name, of):
        self.aliases[name] = of
        self.aliases[f"{name}.grad"] = f"{of}.grad"

    def keep(self, tensor, traced):
        """Notes that an input is the first of its region."""
        if self.device_name(tensor) != tensor.sn_name:
            self._alias(tensor.sn_name, self.device_name(tensor))
        self._first[tensor.sn_region_name] = (tensor.sn_name, traced)

    def check(self, names):
        """Parameters and buffers, {id: (name, tensor, ...)}, have memory of their own."""
        for name, tensor, *_ in names.values():
            region = getattr(tensor, "_sn_region_name", None)
            if region is not None and region not in (name, tensor.sn_name):
                raise NameError_(
                    f"{name!r} has the region name {region!r}: only inputs share regions; a parameter is shared by "
                    "being the same object"
                )


def last_of_each(tensors, aliases):
    """Tensors of a run without those whose memory a later one fills again."""
    return tuple({aliases.get(name := getattr(x, "sn_name", ""), name) or id(x): x for x in tensors}.values())
