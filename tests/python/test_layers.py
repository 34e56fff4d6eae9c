# SPDX-License-Identifier: Apache-2.0
"""Layers of C against torch's modules: the module's state_dict, as a safetensors file, goes into a session of the layer, whose
outputs are the module's; what the session saves is the state_dict again, under the same names."""

import json
import struct

import pytest
import torch
import torch.nn as nn

import sambaflow.samba as samba
from sambaflow._core import ffi, lib
from sambaflow.runtime import Session, Tensor
from sambaflow.samba.trace import Tracer


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    return {
        name: torch.frombuffer(bytearray(data[slice(*row["data_offsets"])]), dtype=torch.float32).reshape(row["shape"])
        for name, row in header.items()
        if row.get("dtype") == "F32"
    }  # the rest counts runs


class Layer:
    """A graph of one layer "m", compiled for inference."""

    def __init__(self, folder, inputs, build):
        self.folder, self.inputs = folder, {f"x{i}": x for i, x in enumerate(inputs)}
        self.tracer = Tracer("layer")
        for name, x in self.inputs.items():
            self.tracer.add_input(samba.from_torch_tensor(x.clone(), name=name))
        self.values = [lib.samba_input(self.tracer.graph, name.encode()) for name in self.inputs]
        result = build(self.values)
        self.tracer.check()
        lib.samba_output(self.tracer.graph, b"y", result)
        self.tracer.check()
        options = ffi.new("samba_compile_options *", lib.samba_compile_defaults())
        kept = [ffi.new("char[]", word) for word in (b"layer", str(folder).encode())]
        options.graph, options.inference, options.name, options.output_folder = self.tracer.graph, True, kept[0], kept[1]
        path = ffi.new("char[512]")
        self.tracer.context.check(lib.samba_compile(self.tracer.context.c, options, path, 512))
        self.session = Session(ffi.string(path).decode())
        self.shape = [lib.samba_value_size(result, d) for d in range(lib.samba_value_rank(result))]

    def run(self):
        given = [Tensor.wrap(name, x.numpy(), self.session.context) for name, x in self.inputs.items()]
        result = Tensor.zeros("y", "float32", tuple(self.shape), self.session.context)
        self.session.run(given, [result], train=False)
        return torch.from_numpy(result.numpy().copy()) if hasattr(result, "numpy") else torch.from_dlpack(result).clone()


def check(tmp_path, module, inputs, build, call=None):
    module.eval()
    with torch.no_grad():
        for parameter in module.parameters():  # zeros and ones hide mistakes
            parameter.add_(0.1 * torch.randn_like(parameter))
        expected = (call or module)(*inputs)
    layer = Layer(tmp_path, inputs, build)
    state = {f"m.{name}": x for name, x in module.state_dict().items()}
    initial = tmp_path / "initial.safetensors"
    layer.session.save(str(initial))
    assert {name: x.shape for name, x in read_safetensors(initial).items()} == {name: x.shape for name, x in state.items()}
    write_safetensors(tmp_path / "in.safetensors", state)
    layer.session.load(str(tmp_path / "in.safetensors"))
    torch.testing.assert_close(layer.run(), expected, rtol=1e-5, atol=2e-5)
    layer.session.save(str(tmp_path / "out.safetensors"))
    for name, x in read_safetensors(tmp_path / "out.safetensors").items():
        assert torch.equal(x, state[name]), name
    return read_safetensors(initial)


def options_of(kind, **fields):
    return ffi.new(f"{kind} *", fields)


torch.manual_seed(5)
CONVOLUTIONS = {
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 9), [3], dict(stride=2, padding=1, groups=2)),
    "conv3d": (
        lambda: nn.Conv3d(2, 4, (1, 2, 3), padding=(0, 1, 1), bias=False),
        (2, 2, 3, 4, 5),
        [1, 2, 3],
        dict(padding=[0, 1, 1], no_bias=True),
    ),
    "conv_transpose1d": (
        lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, output_padding=1),
        (2, 4, 5),
        [3],
        dict(stride=2, output_padding=1),
    ),
    "conv_transpose2d": (
        lambda: nn.ConvTranspose2d(4, 6, (2, 3), stride=2, padding=1, groups=2),
        (2, 4, 5, 6),
        [2, 3],
        dict(stride=[2, 2], padding=[1, 1], groups=2),
    ),
    "conv_transpose3d": (lambda: nn.ConvTranspose3d(2, 4, 2, dilation=2), (1, 2, 3, 3, 3), [2, 2, 2], dict(dilation=[2, 2, 2])),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(tmp_path, name):
    make, shape, kernel, fields = CONVOLUTIONS[name]
    module = make()
    initial = check(
        tmp_path,
        module,
        (torch.randn(shape),),
        lambda x: getattr(lib, f"samba_{name}")(
            x[0], b"m", module.out_channels, kernel, options_of(f"samba_{name}_options", **fields)
        ),
    )
    bound = 1 / nn.init._calculate_fan_in_and_fan_out(make().weight)[0] ** 0.5
    assert bound / 2 < initial["m.weight"].abs().max() <= bound


@pytest.mark.parametrize(
    "kind, fields",
    [
        ("LSTM", {}),
        ("LSTM", {"num_layers": 2, "bidirectional": True, "proj_size": 3}),
        ("GRU", {"num_layers": 2}),
        ("RNN", {"bidirectional": True, "batch_first": True}),
    ],
    ids=lambda x: str(x),
)
def test_recurrent(tmp_path, kind, fields):
    module = getattr(nn, kind)(4, 5, **fields)
    check(
        tmp_path,
        module,
        (torch.randn(3, 2, 4),),
        lambda x: getattr(lib, f"samba_{kind.lower()}")(x[0], b"m", 5, options_of("samba_recurrent_options", **fields), ffi.NULL),
        lambda x: module(x)[0],
    )


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_cells(tmp_path, kind):
    module, lstm = getattr(nn, f"{kind}Cell")(4, 5), kind == "LSTM"
    check(
        tmp_path,
        module,
        (torch.randn(3, 4), *(torch.randn(3, 5) for _ in range(1 + lstm))),
        lambda x: getattr(lib, f"samba_{kind.lower()}_cell")(x[0], b"m", 5, ffi.NULL, ffi.new("samba_value[]", x[1:])),
        lambda x, *state: module(x, state)[0] if lstm else module(x, *state),
    )


# ---- attention ----

CAUSAL = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
PADDING = torch.tensor([[False, False, True, False], [False, True, False, True]])
ADDED = torch.randn(4, 4)


def attend(tmp_path, module, tensors, places, heads=2, **fields):
    """`places`: which of the inputs are query, key and value; masks are inputs behind them."""

    def build(x):
        masks = {name: x[i] for name, i in fields.items() if name.endswith("mask")}
        plain = {name: value for name, value in fields.items() if not name.endswith("mask")}
        o = options_of("samba_multi_head_options", **plain)
        for name, value in masks.items():
            setattr(o, name, value)
        return lib.samba_multi_head_attention(*(x[i] for i in places), b"m", heads, o)

    def call(*x):
        masks = {name: x[i] for name, i in fields.items() if name.endswith("mask")}
        return module(*(x[i] for i in places), need_weights=False, **masks)[0]

    check(tmp_path, module, tensors, build, call)


def test_self_attention(tmp_path):
    attend(tmp_path, nn.MultiheadAttention(6, 2), (torch.randn(4, 2, 6),), (0, 0, 0))


def test_attention_without_a_batch_and_bias(tmp_path):
    attend(tmp_path, nn.MultiheadAttention(6, 3, bias=False), (torch.randn(4, 6),), (0, 0, 0), heads=3, no_bias=True)


def test_attention_to_others(tmp_path):
    attend(
        tmp_path,
        nn.MultiheadAttention(6, 2, batch_first=True),
        (torch.randn(2, 3, 6), torch.randn(2, 4, 6), torch.randn(2, 4, 6)),
        (0, 1, 2),
        batch_first=True,
    )


def test_attention_to_other_widths(tmp_path):
    attend(
        tmp_path,
        nn.MultiheadAttention(6, 2, kdim=5, vdim=3),
        (torch.randn(3, 2, 6), torch.randn(4, 2, 5), torch.randn(4, 2, 3)),
        (0, 1, 2),
    )


@pytest.mark.parametrize(
    "masks",
    [
        (CAUSAL, None),
        (None, PADDING),
        (CAUSAL, PADDING),
        (ADDED, None),
        (ADDED, torch.where(PADDING, -torch.inf, 0.0)),
        (torch.randn(4, 4, 4), None),
    ],
)
def test_attention_masks(tmp_path, masks):
    named = {name: mask for name, mask in zip(("attn_mask", "key_padding_mask"), masks) if mask is not None}
    fields = {name: i + 1 for i, name in enumerate(named)}
    attend(
        tmp_path,
        nn.MultiheadAttention(6, 2, batch_first=True),
        (torch.randn(2, 4, 6), *named.values()),
        (0, 0, 0),
        batch_first=True,
        **fields,
    )


@pytest.mark.parametrize(
    "fields",
    [{"add_bias_kv": True}, {"add_zero_attn": True}, {"add_bias_kv": True, "add_zero_attn": True, "no_bias": True}],
    ids=str,
)
@pytest.mark.parametrize("masks", [(None, None), (CAUSAL, PADDING), (ADDED, None)], ids=["no mask", "bool masks", "added"])
def test_attention_with_more_keys(tmp_path, fields, masks):
    module = nn.MultiheadAttention(
        6,
        2,
        batch_first=True,
        bias=not fields.get("no_bias"),
        add_bias_kv=fields.get("add_bias_kv", False),
        add_zero_attn=fields.get("add_zero_attn", False),
    )
    named = {name: mask for name, mask in zip(("attn_mask", "key_padding_mask"), masks) if mask is not None}
    attend(
        tmp_path,
        module,
        (torch.randn(2, 4, 6), *named.values()),
        (0, 0, 0),
        batch_first=True,
        **{name: i + 1 for i, name in enumerate(named)},
        **fields,
    )


@pytest.mark.parametrize("of_heads", [False, True])
@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_weights(tmp_path, of_heads, batch, causal):
    def build(x):
        weights = ffi.new("samba_value *")
        o = options_of("samba_multi_head_options", weights=weights, weights_of_heads=of_heads, batch_first=True, is_causal=causal)
        y = lib.samba_multi_head_attention(x[0], x[1], x[1], b"m", 2, o)
        return lib.samba_concat(2, [lib.samba_flatten(v, 0, -1) for v in (y, weights[0])], 0)

    shape = (2,) if batch else ()
    mask = torch.triu(torch.ones(3, 4, dtype=torch.bool), 1) if causal else None
    module = nn.MultiheadAttention(6, 2, batch_first=True)
    check(
        tmp_path,
        module,
        (torch.randn(*shape, 3, 6), torch.randn(*shape, 4, 6)),
        build,
        lambda x, y: torch.cat([v.flatten() for v in module(x, y, y, attn_mask=mask, average_attn_weights=not of_heads)]),
    )


# ---- transformers ----


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_encoder(tmp_path, norm_first, batch_first):
    layer = nn.TransformerEncoderLayer(
        6, 2, 10, activation="gelu" if norm_first else "relu", norm_first=norm_first, batch_first=batch_first, dropout=0.0
    )
    module = nn.TransformerEncoder(layer, 2, nn.LayerNorm(6) if norm_first else None, enable_nested_tensor=False)
    fields = dict(dim_feedforward=10, gelu=norm_first, norm_first=norm_first, batch_first=batch_first, final_norm=norm_first)
    check(
        tmp_path,
        module,
        (torch.randn(2, 4, 6),),
        lambda x: lib.samba_transformer_encoder(x[0], b"m", 2, 2, options_of("samba_transformer_options", **fields)),
    )


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder(tmp_path, norm_first):
    layer = nn.TransformerDecoderLayer(6, 2, 10, norm_first=norm_first, dropout=0.0, bias=not norm_first)
    module = nn.TransformerDecoder(layer, 2)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    fields = dict(dim_feedforward=10, norm_first=norm_first, no_bias=norm_first, is_causal=True)
    check(
        tmp_path,
        module,
        (torch.randn(3, 2, 6), torch.randn(4, 2, 6)),
        lambda x: lib.samba_transformer_decoder(x[0], x[1], b"m", 2, 2, options_of("samba_transformer_options", **fields)),
        lambda tgt, memory: module(tgt, memory, tgt_mask=mask),
    )


# ---- bilinear, bags ----


@pytest.mark.parametrize("bias", [False, True])
def test_bilinear(tmp_path, bias):
    module = nn.Bilinear(5, 3, 4, bias=bias)
    initial = check(
        tmp_path,
        module,
        (torch.randn(2, 6, 5), torch.randn(2, 6, 3)),
        lambda x: lib.samba_bilinear(x[0], x[1], b"m", 4, options_of("samba_linear_options", no_bias=not bias)),
    )
    assert all(5**-0.5 / 2 < x.abs().max() <= 5**-0.5 for x in initial.values())


@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
@pytest.mark.parametrize("padding_idx", [None, 2])
def test_embedding_bag(tmp_path, mode, padding_idx):
    module = nn.EmbeddingBag(7, 3, mode=mode, padding_idx=padding_idx)
    fields = dict(struct_size=ffi.sizeof("samba_embedding_bag_options"), mode=getattr(lib, f"SAMBA_BAG_{mode.upper()}"))
    fields |= {} if padding_idx is None else dict(has_padding_idx=True, padding_idx=padding_idx)
    check(
        tmp_path,
        module,
        (torch.randint(7, (4, 5)),),
        lambda x: lib.samba_embedding_bag(x[0], b"m", 7, 3, options_of("samba_embedding_bag_options", **fields)),
    )


# ---- what is refused ----


def refusal(inputs, build):
    tracer = Tracer("wrong")
    for i, x in enumerate(inputs):
        tracer.add_input(samba.from_torch_tensor(x.clone(), name=f"x{i}"))
    build([lib.samba_input(tracer.graph, f"x{i}".encode()) for i in range(len(inputs))])
    with pytest.raises(Exception) as caught:
        tracer.check()
    return str(caught.value)


def test_refusals():
    x, other = torch.zeros(4, 2, 6), torch.zeros(4, 3, 6)
    assert "multi_head_attention at m: num_heads must divide the query's 6 features, given 4" in refusal(
        [x], lambda v: lib.samba_multi_head_attention(v[0], v[0], v[0], b"m", 4, ffi.NULL)
    )
    assert "given float32(4, 2, 6), float32(4, 3, 6), float32(4, 3, 6)" in refusal(
        [x, other], lambda v: lib.samba_multi_head_attention(v[0], v[1], v[1], b"m", 2, ffi.NULL)
    )

    def masked(v):
        o = ffi.new("samba_multi_head_options *")
        o.attn_mask = v[1]
        lib.samba_multi_head_attention(v[0], v[0], v[0], b"m", 2, o)

    assert "expected an attn_mask (Tq, Tk) or (N * num_heads, Tq, Tk)" in refusal([x, torch.zeros(4, 3)], masked)
    assert "expected an attn_mask" in refusal([x, torch.zeros(4, 4, dtype=torch.int64)], masked)
    assert "num_layers must be 1 or more, given 0" in refusal(
        [x], lambda v: lib.samba_transformer_encoder(v[0], b"m", 0, 2, ffi.NULL)
    )
    assert "expected a floating-point value, given int64" in refusal(
        [x.long()], lambda v: lib.samba_transformer_encoder_layer(v[0], b"m", 2, ffi.NULL)
    )
    assert "conv1d at m: expected an input (N, C, ...) or (C, ...) with 1 dims of space" in refusal(
        [torch.zeros(4)], lambda v: lib.samba_conv1d(v[0], b"m", 3, [2], ffi.NULL)
    )
    assert "groups that divide both channel counts" in refusal(
        [x], lambda v: lib.samba_conv_transpose1d(v[0], b"m", 3, [2], options_of("samba_conv_transpose1d_options", groups=2))
    )
    assert "bilinear at m: expected inputs (..., n) and (..., m)" in refusal(
        [x, torch.zeros(5, 2, 6)], lambda v: lib.samba_bilinear(v[0], v[1], b"m", 3, ffi.NULL)
    )
    assert "out_features of 0 or more, given ranks 3 and 3 and -1" in refusal(
        [x], lambda v: lib.samba_bilinear(v[0], v[0], b"m", -1, ffi.NULL)
    )
    assert "embedding_bag at m" in refusal([x], lambda v: lib.samba_embedding_bag(v[0], b"m", 7, 3, ffi.NULL))


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"in_proj_weight": None}, "expected q_proj_weight float32(6, 6) for a query of 6 features, given none"),
        ({"in_proj_weight": (12, 6)}, "expected in_proj_weight float32(18, 6) for a query of 6 features, given float32(12, 6)"),
        ({"in_proj_bias": (6,)}, "expected in_proj_bias float32(18) for a query of 6 features, given float32(6)"),
        ({"bias_k": (1, 1, 6)}, "expected bias_v float32(1, 1, 6) for a query of 6 features, given none"),
        ({"out_proj_weight": None}, "expected out_proj_weight float32(6, 6) for a query of 6 features, given none"),
        ({"out_proj_bias": (5,)}, "expected out_proj_bias float32(6) for a query of 6 features, given float32(5)"),
    ],
)
def test_refused_weights_of_attention(changed, said):
    shapes = {"in_proj_weight": (18, 6), "out_proj_weight": (6, 6)} | changed
    given = {name: torch.zeros(shape) for name, shape in shapes.items() if shape}

    def build(v):
        weights = ffi.new("samba_multi_head_weights *", dict(zip(given, v[1:])))
        lib.samba_functional_multi_head_attention(v[0], v[0], v[0], 2, weights, ffi.NULL)

    assert f"multi_head_attention: {said}" in refusal([torch.zeros(4, 2, 6), *given.values()], build)


def test_refused_joint_weight_of_attention():
    def build(v):
        weights = ffi.new("samba_multi_head_weights *", {"in_proj_weight": v[2], "out_proj_weight": v[3]})
        lib.samba_functional_multi_head_attention(v[0], v[1], v[1], 2, weights, ffi.NULL)

    said = refusal([torch.zeros(4, 2, 6), torch.zeros(4, 2, 5), torch.zeros(18, 6), torch.zeros(6, 6)], build)
    assert (
        "in_proj_weight is for a key and a value of the query's 6 features, given 5 and 5: give q_proj_weight, k_proj_weight "
        "and v_proj_weight" in said
    )
