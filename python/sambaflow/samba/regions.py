# SPDX-License-Identifier: Apache-2.0
"""Inputs of one region name share device memory:
the first that is traced has it, under its name, and the others are other names of it. In one graph of several so do outputs: what
has the region becomes the output when the graph has run."""

from sambaflow.errors import UnknownNameError, UnsupportedError


class Regions:
    """Who has which region while a graph is traced."""

    def __init__(self, named=False):
        self.named = named  # an input is called by its region, which several graphs may have
        self.aliases = {}  # name of an input, or of its gradient -> that of the input whose memory it shares
        self._first = {}  # region name -> (name, what stands for it in the graph, its samba_value as a run finds it)

    def shared(self, tensor):
        """What stands for an input that has this one's region; None where this is the first."""
        name, traced, _ = self._first.get(tensor.sn_region_name, (None, None, None))
        if traced is None or name == tensor.sn_name:
            return None
        self._check_alike(f"inputs {name!r}", traced, tensor, tensor.sn_region_name)
        self._alias(tensor.sn_name, self.device_name(tensor) if self.named else name)
        return traced

    @staticmethod
    def _check_alike(first, traced, tensor, region):
        if (traced.shape, traced.dtype) != (tensor.shape, tensor.dtype):
            raise UnsupportedError(
                f"{first}, {tuple(traced.shape)} {traced.dtype}, and {tensor.sn_name!r}, {tuple(tensor.shape)} {tensor.dtype}, "
                f"have the region name {region!r}: tensors that share memory must be alike"
            )

    def of_output(self, output, region):
        """The samba_value of the input whose memory an output of a graph of several becomes; None where there is none yet."""
        name, traced, leaf = self._first.get(region, (None, None, None))
        if traced is not None:
            self._check_alike(f"input {name!r}", traced, output, region)
        if output.sn_name != region:
            self._alias(output.sn_name, region)
        return leaf

    @property
    def names(self):
        """{region name: name of the first input that has it}."""
        return {region: name for region, (name, _, _) in self._first.items()}

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
        self._first[tensor.sn_region_name] = (tensor.sn_name, traced, traced._value)

    def check(self, names):
        """Parameters and buffers, {id: (name, tensor, ...)}, have memory of their own."""
        for name, tensor, *_ in names.values():
            region = getattr(tensor, "_sn_region_name", None)
            if region is not None and region not in (name, tensor.sn_name):
                raise UnknownNameError(
                    f"{name!r} has the region name {region!r}: only inputs share regions; a parameter is shared by "
                    "being the same object"
                )


def last_of_each(tensors, aliases):
    """Tensors of a run without those whose memory a later one fills again."""
    return tuple({aliases.get(name := getattr(x, "sn_name", ""), name) or id(x): x for x in tensors}.values())
