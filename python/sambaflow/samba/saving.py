# SPDX-License-Identifier: Apache-2.0
"""What a session puts into files and takes from them: weights, checkpoints of a training, ONNX models. The device's values are
what is saved, and what is loaded goes to the device; the host's stay as they are.

>>> import tempfile
>>> import torch
>>> import sambaflow.samba as samba
>>> model, x, session = samba.from_torch_model_(torch.nn.Linear(3, 2)), samba.ones(4, 3, name="x"), samba.SambaSession()
>>> with tempfile.TemporaryDirectory() as folder:
...     pef = session.compile(model, (x,), inference=True, output_folder=folder)
...     outputs = session.trace_graph(model, (x,), pef=pef)
...     session.save(f"{folder}/weights.safetensors")
...     model.weight.sn_data = torch.zeros(2, 3)
...     count = session.load(f"{folder}/weights.safetensors")
>>> torch.equal(model.weight.sn_data, model.weight.torch())
True
"""

from sambaflow.samba import resume


class Saving:
    """Of a session."""

    def save(self, path, with_state=True):
        """Parameters, buffers and, `with_state`, optimizer state of the device as safetensors; atomic."""
        self.loaded().save(path, with_state)

    def load(self, path, strict=True, drop_prefix=""):
        """The other way: parameters by name; state where the file has it. `path` may be a folder, too: with model.safetensors, or
        with model.safetensors.index.json and the files that it names,
        as save_checkpoint and Hugging Face's libraries write them. Not `strict`: what the file lacks keeps its value; a file
        without any of the PEF's tensors is refused all the same. `drop_prefix`: what names in the file begin with that the
        PEF's do not, "module.". Returns how many of the PEF's tensors were loaded."""
        count = self.loaded().load(path, strict, drop_prefix)
        self._owned.settle_all()
        return count

    def save_checkpoint(self, folder, step, loaders=(), state=None, keep=2, shard_size=0, schedulers=()):
        """Saves `<folder>/checkpoint-<step>`, whose path it returns: all that load_checkpoint needs to go on to the same bits.
        That is the device's weights, optimizer state, counters and hyperparameters, where each SambaLoader of `loaders` stands,
        what each of torch's `schedulers` has and the rates of its optimizer, the states of the random generators of torch,
        Python and NumPy, and `state`: tensors, numbers, strings, lists and dicts of them. It appears as a whole or not at all,
        then older ones but for the `keep` newest are deleted (0: none). Weights are safetensors, in files of at most
        `shard_size` bytes (0: 5 GB), as Hugging Face's libraries read them."""
        return resume.save(self.loaded(), folder, step, loaders, state, keep, shard_size, schedulers)

    def load_checkpoint(self, folder, loaders=(), schedulers=()):
        """Loads the newest checkpoint of the folder that is whole, or `folder` itself where it is a checkpoint, into the PEF
        that was traced; a warning tells what was passed over since it is damaged. Loaders go on behind the last batch they gave,
        schedulers from the rates they had. Returns (step, state, path), or None where there is no checkpoint. Values on the host
        stay as they are: to_cpu fetches them."""
        found = resume.load(self.loaded(), folder, loaders, schedulers)
        if found is not None:
            self._follows.resume(self, found.seed)
            self._owned.settle_all()
        return found and found.result

    def to_onnx(self, path, opset=0, graph_name=None):
        """Writes the compiled model, with its weights as the device has them, as an ONNX model: its forward pass."""
        self.loaded().to_onnx(path, opset, graph_name)
