# SPDX-License-Identifier: Apache-2.0
"""Packed sequences while a model is traced: pack_padded_sequence, recurrent layers over what it gives, pad_packed_sequence. The
lengths may be values of a run; a graph has one shape, so sequences stay padded, with their lengths beside them.

A layer runs all steps. Those behind a sequence's end do not touch what comes before; the state at the end is taken from where it
stood, and an LSTM's cell is carried to the last step by one more element of its input, which is 1 behind the end and closes the
input gate and opens the forget gate by weights so large that the gates are 0 and 1. The other direction of a layer reads each
sequence turned around within its length.

Batches stay in the program's order, so that enforce_sorted makes no difference but to lengths that are known: torch's error then
is ours. `data` and `batch_sizes` of a packed sequence exist where lengths are known."""

import types

import torch
from torch.nn.utils import rnn

from sambaflow import errors
from sambaflow.errors import UnsupportedError
from sambaflow.samba import _state
from sambaflow.samba.patches import replaced

_SHUT = {torch.float16: 3e4}  # what closes a gate of that dtype
_torchs_pack = types.FunctionType(rnn.pack_padded_sequence.__code__, vars(rnn), "pack_padded_sequence", (False, True))
_torchs_pad = types.FunctionType(rnn.pad_packed_sequence.__code__, vars(rnn), "pad_packed_sequence", (False, 0.0, None))


class Packed(rnn.PackedSequence):
    """Padded sequences (T, B, ...) and how long each is, in the program's order."""

    def __new__(cls, padded, lengths, is_sorted):
        self = tuple.__new__(cls, (None,) * 4)
        self.padded, self.lengths, self.is_sorted = padded, lengths, is_sorted
        return self

    def like(self, padded):
        """Other sequences of the same lengths."""
        return Packed(padded, self.lengths, self.is_sorted)

    def _known(self):
        t = _state.here.tracer
        if t.is_symbolic((self.lengths,), {}):
            raise UnsupportedError(
                "the data of a packed sequence whose lengths only a run knows: how much there is of it depends on values: "
                f"pad_packed_sequence it, and mask by arange(T) < lengths{t.where(code=True)}"
            )
        lengths = torch.as_tensor(self.lengths).tolist()
        order = range(len(lengths)) if self.is_sorted else torch.argsort(torch.tensor(lengths), descending=True).tolist()
        return lengths, list(order)

    def _parts(self):
        lengths, order = self._known()
        places = [(step, b) for step in range(max(lengths, default=0)) for b in order if lengths[b] > step]
        steps, rows = (torch.tensor([p[i] for p in places], dtype=torch.int64) for i in range(2))
        sizes = torch.tensor([sum(n > step for n in lengths) for step in range(max(lengths, default=0))], dtype=torch.int64)
        before = None if self.is_sorted else torch.tensor(order)
        return self.padded[steps, rows], sizes, before, None if before is None else torch.argsort(before)

    data = property(lambda self: self._parts()[0])
    batch_sizes = property(lambda self: self._parts()[1])
    sorted_indices = property(lambda self: self._parts()[2])
    unsorted_indices = property(lambda self: self._parts()[3])

    def __iter__(self):
        return iter(self._parts())

    def __getitem__(self, index):
        return self._parts()[index]

    def to(self, *args, **kwargs):
        return self.like(self.padded.to(*args, **kwargs))


def _traces(*tensors):
    t = _state.here.tracer
    return t if t is not None and t.is_symbolic(tensors, {}) else None


def _pack(input, lengths, batch_first=False, enforce_sorted=True):
    from sambaflow.samba.packed import pack  # runs in torch.nn.utils.rnn

    return pack(input, lengths, batch_first, enforce_sorted)


def _pad(sequence, batch_first=False, padding_value=0.0, total_length=None):
    from sambaflow.samba.packed import pad

    return pad(sequence, batch_first, padding_value, total_length)


def pack(input, lengths, batch_first, enforce_sorted):
    """torch.nn.utils.rnn.pack_padded_sequence."""
    t = _traces(input, lengths)
    if t is None:
        return _torchs_pack(input, lengths, batch_first, enforce_sorted)
    padded = input.transpose(0, 1) if batch_first else input
    if not t.is_symbolic((lengths,), {}):
        lengths = torch.as_tensor(lengths, dtype=torch.int64)
        known = lengths.tolist()
        if len(known) != padded.shape[1] or any(n > padded.shape[0] for n in known):
            raise errors.StateError(
                f"Expected `len(lengths)` to be equal to batch_size, and lengths of at most {padded.shape[0]}"
            )
        if any(n <= 0 for n in known):
            raise errors.StateError(
                "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
            )
        if enforce_sorted and known != sorted(known, reverse=True):
            raise errors.StateError(
                "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True: pass enforce_sorted=False to "
                "pack_padded_sequence and/or pack_sequence"
            )
        padded = padded[: max(known)]
    elif lengths.dim() != 1 or lengths.shape[0] != padded.shape[1]:
        raise errors.StateError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {tuple(lengths.shape)} (batch_size={padded.shape[1]})"
        )
    return Packed(padded, lengths, enforce_sorted)


def _of(sequence):
    """A Packed of what was packed by hand, of traced data and known sizes."""
    if isinstance(sequence, Packed):
        return sequence
    sizes = sequence.batch_sizes.tolist()
    lengths = [sum(n > b for n in sizes) for b in range(sizes[0])]
    starts = [sum(sizes[:step]) for step in range(len(sizes))]
    places = torch.tensor([[starts[step] + b if b < n else 0 for b in range(sizes[0])] for step, n in enumerate(sizes)])
    back = sequence.unsorted_indices
    back = torch.arange(sizes[0]) if back is None else torch.as_tensor(back)
    return Packed(sequence.data[places[:, back]], torch.tensor(lengths)[back], sequence.sorted_indices is None)


def _inside(packed):
    """(T, B): which steps are within their sequence."""
    return torch.arange(packed.padded.shape[0])[:, None] < packed.lengths[None]


def pad(sequence, batch_first, padding_value, total_length):
    """torch.nn.utils.rnn.pad_packed_sequence. As many steps as the input of pack_padded_sequence where lengths are values."""
    t = _state.here.tracer
    if t is None or not (isinstance(sequence, Packed) or t.is_symbolic((sequence.data,), {})):
        return _torchs_pad(sequence, batch_first, padding_value, total_length)
    packed = _of(sequence)
    padded = packed.padded
    if total_length is not None and total_length < padded.shape[0]:
        raise errors.ArgumentError(
            f"Expected total_length to be at least the length of the longest sequence in input, but got {total_length=} and max "
            f"sequence length being {padded.shape[0]}"
        )
    inside = _inside(packed).reshape(*padded.shape[:2], *[1] * (padded.dim() - 2))
    padded = torch.where(inside, padded, padding_value)
    if total_length is not None and total_length > padded.shape[0]:
        more = padded.new_full((total_length - padded.shape[0], *padded.shape[1:]), padding_value)
        padded = torch.cat([padded, more])
    return padded.transpose(0, 1) if batch_first else padded, packed.lengths


# ---- recurrent layers ----


def _turned(packed, x):
    """Each sequence from its end; what lies behind it stays."""
    steps = torch.arange(x.shape[0])[:, None]
    places = torch.where(_inside(packed), packed.lengths[None] - 1 - steps, steps)
    return x.gather(0, places[..., None].expand(x.shape))


def _at_end(packed, x, before):
    """x (T, B, N) at the last step of each sequence; of one of no steps, what was before it."""
    last = (packed.lengths - 1).clamp(min=0)[None, :, None].expand(1, *x.shape[1:])
    return torch.where((packed.lengths > 0)[:, None], x.gather(0, last)[0], before)


def _one_direction(module, packed, x, state, weights):
    """A layer over (T, B, N) in one direction: its outputs and the states (B, N) where sequences end."""
    kind = module.mode
    call = {"LSTM": torch.lstm, "GRU": torch.gru, "RNN_TANH": torch.rnn_tanh, "RNN_RELU": torch.rnn_relu}[kind]
    hx = tuple(s[None] for s in state)
    if kind == "LSTM":
        large = _SHUT.get(x.dtype, 1e9)
        behind = (~_inside(packed)).to(x.dtype)[..., None]
        shut = torch.tensor([-large, large, 0.0, 0.0], dtype=x.dtype).repeat_interleave(module.hidden_size)[:, None]
        x, weights = torch.cat([x, behind], 2), [torch.cat([weights[0], shut], 1), *weights[1:]]
    result = call(x, hx if kind == "LSTM" else hx[0], weights, module.bias, 1, 0.0, False, False, False)
    ends = [_at_end(packed, result[0], state[0])]
    return result[0], ends + [result[2][0]] if kind == "LSTM" else ends


def run(module, packed, hx):
    """What a recurrent layer of torch.nn gives for a packed sequence: (packed outputs, states)."""
    x, directions = packed.padded, 2 if module.bidirectional else 1
    if x.dim() != 3 or x.shape[2] != module.input_size:
        raise errors.StateError(f"input must have the last dimension {module.input_size}, got sequences of {tuple(x.shape[2:])}")
    kinds = 2 if module.mode == "LSTM" else 1
    sizes = [module.proj_size or module.hidden_size, module.hidden_size][:kinds]
    if hx is None:
        hx = tuple(x.new_zeros(module.num_layers * directions, x.shape[1], n) for n in sizes)
    hx = hx if isinstance(hx, tuple) else (hx,)
    names = module._flat_weights_names
    each = len(names) // (module.num_layers * directions)
    ends = [[] for _ in range(kinds)]
    for layer in range(module.num_layers):
        if layer > 0 and module.dropout > 0:
            x = torch.nn.functional.dropout(x, module.dropout, module.training)
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            weights = [getattr(module, name) for name in names[at * each : (at + 1) * each]]
            given = x if direction == 0 else _turned(packed, x)
            output, state = _one_direction(module, packed, given, [s[at] for s in hx], weights)
            outputs.append(output if direction == 0 else _turned(packed, output))
            for found, kept in zip(state, ends):
                kept.append(found)
        x = outputs[0] if directions == 1 else torch.cat(outputs, 2)
    states = tuple(torch.stack(kept) for kept in ends)
    return packed.like(x), states if kinds == 2 else states[0]


def _forward(torchs):
    def forward(self, input, hx=None):
        t = _state.here.tracer
        if t is None or not isinstance(input, rnn.PackedSequence):
            return torchs(self, input, hx)
        if not (isinstance(input, Packed) or t.is_symbolic((input.data,), {})):
            return torchs(self, input, hx)
        return run(self, _of(input), hx)

    return forward


def put(stack):
    """In force while a model is traced."""
    stack.enter_context(replaced(rnn.pack_padded_sequence, "__code__", _pack.__code__))
    stack.enter_context(replaced(rnn.pad_packed_sequence, "__code__", _pad.__code__))
    for layer in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        stack.enter_context(replaced(layer, "forward", _forward(layer.forward)))
