# SPDX-License-Identifier: Apache-2.0
"""A program as people write them to generate text: GPT-2 as three graphs in one PEF, which share device memory by region names.

prefill reads the prompts and leaves keys, values and logits; choose makes a token of the logits; decode reads the token, adds to
keys and values and leaves logits. Each is traced by trace_multigraph, its outputs are given their regions then, and a FwdGraph of
its inputs and outputs is added; inputs of later graphs are made of the regions of earlier outputs. Nothing but a position goes to
the device in a step, and nothing but a token comes back.

Usage: generate.py FOLDER compile -p PEF | generate.py FOLDER run -p PEF. FOLDER holds the model, as from_pretrained takes it, and
prompts.npy; run writes tokens.npy."""

import sys

import numpy
import torch
import torch.nn.functional as F
import transformers

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.directives import op_fusion
from sambaflow.samba.graph import FwdGraph
from sambaflow.samba.utils.argparser import parse_app_args

PLACES = 40  # of a cache


class Body(torch.nn.Module):
    """transformers' GPT-2 with a cache that is given and given back."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def through(self, tokens, positions, caches):
        """(logits of the last token, the caches) of tokens (batch, length) at positions (length,)."""
        body, written = self.model.transformer, []
        x = body.wte(tokens) + body.wpe(positions)
        seen = torch.arange(PLACES).unsqueeze(0) <= positions.unsqueeze(1)
        for i, block in enumerate(body.h):
            with op_fusion(func_name=f"layer{i}"):
                q, k, v = (
                    part.unflatten(-1, (block.attn.num_heads, -1)).transpose(1, 2)
                    for part in block.attn.c_attn(block.ln_1(x)).chunk(3, -1)
                )
                keys, values = (samba.sn_scatter(old, positions[:1], new, [2]) for old, new in zip(caches[i], (k, v)))
                written += [keys, values]
                y = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)
                x = x + block.attn.c_proj(y.transpose(1, 2).flatten(2))
                x = x + block.mlp(block.ln_2(x))
        return self.model.lm_head(body.ln_f(x[:, -1])), *written


class Prefill(Body):
    def forward(self, tokens):
        config = self.model.config
        empty = torch.zeros(tokens.shape[0], config.n_head, PLACES, config.n_embd // config.n_head)
        return self.through(tokens, torch.arange(tokens.shape[1]), [(empty, empty)] * config.n_layer)


class Decode(Body):
    def forward(self, token, position, *caches):
        return self.through(token.unsqueeze(1), position, list(zip(caches[::2], caches[1::2])))


class Choose(torch.nn.Module):
    def forward(self, logits):
        return logits.argmax(-1)


def of_region(output):
    """An input of another graph over the memory of an output."""
    region = output.sn_region_name
    return samba.SambaTensor(shape=output.shape, dtype=output.dtype, name=f"{region}.in", region_name=region)


def traced(model, inputs, name, regions):
    """Traces a graph, names the memory of its outputs and adds it."""
    outputs = utils.trace_multigraph(model, inputs, trace_prefix=name)
    for output, region in zip(outputs, regions):
        output.sn_region_name = region
    samba.session.add_graph(FwdGraph(inputs, outputs, name))
    return outputs


def main(folder, words):
    args = parse_app_args(words)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    prompts = torch.from_numpy(numpy.load(f"{folder}/prompts.npy"))
    samba.from_torch_model_(theirs)
    caches = [f"{kind}.{i}" for i in range(theirs.config.n_layer) for kind in ("keys", "values")]
    prompt = samba.from_torch_tensor(prompts, name="prompt")
    first = traced(Prefill(theirs), (prompt,), "prefill", ["logits", *caches])
    token = traced(Choose(), (of_region(first[0]),), "choose", ["token"])
    position = samba.from_torch_tensor(torch.tensor([prompts.shape[1]]), name="position")
    traced(Decode(theirs), (of_region(token[0]), position, *map(of_region, first[1:])), "decode", ["logits", *caches])
    if args.command == "compile":
        print(samba.session.compile_multigraph("generate"))
        return
    samba.session.init_multigraph_runtime(args.pef)
    samba.session.run((prompt,), graph_name="prefill")
    found = [samba.session.run((), token, graph_name="choose")[0].torch()]
    for step in range(prompts.shape[1], PLACES):
        samba.session.run((samba.from_torch_tensor(torch.tensor([step]), name="position"),), graph_name="decode")
        found.append(samba.session.run((), token, graph_name="choose")[0].torch())
    (last,) = samba.session.get_tensors_by_name(["token"])
    assert torch.equal(last.torch(), found[-1])
    numpy.save(f"{folder}/tokens.npy", torch.stack(found, 1).numpy())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
