# SPDX-License-Identifier: Apache-2.0
"""Architectures that nobody chose: drawn by a seed from the lists of timm and of transformers, among those that no test names,
traced and compiled without a change, and one step of each held against PyTorch's: the loss and every parameter's gradient.

`python tests/python/architectures.py --seed 1 --count 20 [timm | transformers]`, or `--one transformers:llama4`. Each runs in a
process of its own, with a limit of time. What torch itself cannot build or run in a few seconds from such small sizes, or gives
no gradients for, is drawn anew and counted; so is what has more than 30 million parameters.

The yardstick is that of training.py: exact is float64, and allowed are a few times the distance of torch's own float32 from it,
or of torch's with weights that were moved by a unit in the last place: where a kink or cancelling numbers make a gradient jump,
they do it to torch too. A model may ask torch whether it is being compiled and go another way then, as attention's masks in
transformers do; tracing says yes, as torch.compile does.
Where the two ways differ, torch's compiled one is what ours is held against, and the row says so."""

import argparse
import contextlib
import copy
import inspect
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn

LIMIT = 30_000_000  # parameters
SECONDS = 300  # of a process
MINE = pathlib.Path(__file__)


def without_torchvisions_library():
    """timm and transformers import torchvision. Where that was built for another torch (CUDA's beside the one for CPUs) its
    library does not load and the import fails for want of operators that none of these models calls:
    they are declared, without doing anything."""
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
    except ImportError:
        pass


# ---- the lists ----


def timms():
    """Names of timm's architectures."""
    import timm

    return [f"timm:{name}" for name in timm.list_models()]


def transformers_types():
    """Model types of transformers that have a base model and that no test names."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    tests = "\n".join(path.read_text() for path in MINE.parent.glob("*.py") if path != MINE)
    words = set(re.findall(r"\w+", tests))
    named = {
        kind
        for kind in MODEL_MAPPING_NAMES
        if (config := CONFIG_MAPPING_NAMES.get(kind)) is None or config in words or config.removesuffix("Config") in words
    }
    return [f"transformers:{kind}" for kind in MODEL_MAPPING_NAMES if kind not in named]


# ---- one of timm's ----


class Squares(nn.Module):
    """A loss of whatever a model gives: the mean square of each floating-point tensor of the result."""

    def __init__(self, model, names=(), **fixed):
        super().__init__()
        self.model, self.names, self.fixed = model, names, fixed

    def forward(self, *values):
        given = dict(zip(self.names, values))
        result = self.model(**given, **self.fixed) if given else self.model(*values)
        seen, loss = set(), 0
        for x in torch.utils._pytree.tree_leaves(result if not hasattr(result, "to_tuple") else result.to_tuple()):
            if isinstance(x, torch.Tensor) and x.dtype.is_floating_point and id(x) not in seen:
                seen.add(id(x))
                loss = loss + (x.float() if x.dtype in (torch.float16, torch.bfloat16) else x).square().mean()
        return loss


def of_timm(name):
    """(model, inputs) of the smallest size that it runs with."""
    import timm

    with torch.device("meta"):
        many = sum(p.numel() for p in timm.create_model(name, num_classes=5).parameters())
    if many > LIMIT:
        raise Skipped(f"{many / 1e6:.0f} million parameters")
    model = timm.create_model(name, num_classes=5)
    settings = model.pretrained_cfg
    channels, size, _ = settings["input_size"]
    sizes = (
        [size] if settings.get("fixed_input_size") else [64, 96, 128, settings.get("min_input_size", (3, size, size))[1], size]
    )
    for side in sizes:
        image = torch.randn(2, channels, side, side)
        try:
            with torch.no_grad():
                copy.deepcopy(model)(image)
            return Squares(model), (image,)
        except Exception as error:
            last = error
    raise Skipped(f"torch: {last}")


# ---- one of transformers' ----

WIDTH, HEADS, LAYERS, WORDS, SIDE = 32, 4, 2, 96, 32
SIZES = [  # the first pattern that a field's name matches in full
    (
        r"(num|n|mamba_n|encoder|decoder)_(key_value_heads|kv_heads|head_kv|groups)|.*num_key_value_heads|.*kv_heads|multi_query_group_num",
        2,
    ),
    (r".*(num_experts_per_tok|num_experts_per_token|moe_topk|moe_k|num_selected_experts|top_k_experts|experts_top_k)", 2),
    (r".*(num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_routed_experts)", 4),
    (r"n_shared_experts|num_shared_experts|moe_num_shared_experts", 1),
    (r"n_group|topk_group|first_k_dense_replace", 1),
    (
        r".*(head_dim|_head_size|d_kv|attention_head_dim|d_head|qk_nope_head_dim|v_head_dim|qk_rope_head_dim|head_size|qk_head_dim)",
        8,
    ),
    (
        r"(.*_)?(num_attention_heads|attention_heads|n_heads?|num_heads|encoder_attention_heads|decoder_attention_heads|heads)",
        HEADS,
    ),
    (
        r"(.*_)?(num_hidden_layers|n_layers?|num_layers|encoder_layers|decoder_layers|num_decoder_layers|num_encoder_layers|depth|num_blocks|layers)",
        LAYERS,
    ),
    (
        r"(.*_)?(intermediate_size|ffn_dim|encoder_ffn_dim|decoder_ffn_dim|d_ff|feed_forward_size|ffn_hidden_size|n_inner|hidden_dim|mlp_dim|dim_feedforward)",
        48,
    ),
    (r"(.*_)?(q_lora_rank|kv_lora_rank)", 16),
    (
        r"(.*_)?(hidden_size|d_model|n_embd|dim|embed_dim|embedding_size|word_embed_proj_dim|projection_dim|hidden_channels|emb_dim|d_embed|model_dim|out_hidden_size|lru_width)",
        WIDTH,
    ),
    (r"(.*_)?(vocab_size|.*_vocab_size)", WORDS),
    (r".*(max_position_embeddings|n_positions|max_seq_len|max_sequence_length|context_length|n_ctx|seq_length)", 64),
    (r".*image_size|img_size|input_size", SIDE),
    (r".*patch_size", 8),
    (r".*sliding_window|attention_window|.*chunk_size|window_size", 8),
    (r"mamba_d_state|state_size|ssm_state_size", 8),
    (r"num_queries", 6),
    (r"num_labels", 3),
]


def shrink(config):
    """Sizes of a configuration made small, and nothing random left in it; its parts too."""
    from transformers import PretrainedConfig

    for key, value in list(vars(config).items()):
        if isinstance(value, PretrainedConfig):
            shrink(value)
        elif isinstance(value, float) and re.search("drop", key) and not re.search("dropped", key):
            setattr(config, key, 0.0)
        elif isinstance(value, int) and not isinstance(value, bool):
            if re.fullmatch(r".*_token_(id|index)|.*token_id", key) and value >= WORDS:
                setattr(config, key, WORDS - 1 - len(key) % 7)
            else:
                for pattern, size in SIZES:
                    if re.fullmatch(pattern, key):
                        setattr(config, key, min(value, size) if value > 0 else value)
                        break
        elif isinstance(value, list) and key in ("layer_types", "layers_block_type", "mlp_layer_types", "block_types"):
            kinds = list(dict.fromkeys(value))
            setattr(config, key, (kinds + value)[:LAYERS] if len(value) > LAYERS else value)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    for key in ("layerdrop", "encoder_layerdrop", "decoder_layerdrop", "mask_time_prob", "mask_feature_prob"):
        if hasattr(config, key):
            setattr(config, key, 0.0)


def inputs_of(model, config):
    """{name: tensor} of what its forward asks for; the least that it runs with."""

    def size(name, default):
        parts = [
            config,
            *(getattr(config, part, None) for part in ("vision_config", "audio_config", "text_config", "encoder_config")),
        ]
        found = next(
            (getattr(part, name) for part in parts if part is not None and getattr(part, name, None) is not None), default
        )
        return found[-1] if isinstance(found, (list, tuple)) else found

    side = size("image_size", SIDE)
    words = torch.randint(3, min(size("vocab_size", WORDS), WORDS) - 8, (2, 12))
    channels = size("num_channels", 3)
    made = {
        "input_ids": lambda: words,
        "pixel_values": lambda: torch.randn(2, channels, side, side),
        "input_values": lambda: torch.randn(2, 1600),
        "input_features": lambda: torch.randn(2, size("num_mel_bins", 80), 2 * size("max_source_positions", 32)),
        "decoder_input_ids": lambda: words[:, :7],
        "attention_mask": lambda: torch.ones(2, 12, dtype=torch.long),
        "pixel_values_videos": lambda: torch.randn(2, size("num_frames", 4), channels, side, side),
        "bbox": lambda: torch.sort(torch.randint(0, 60, (2, 12, 4)), -1)[0],
        "inputs_embeds": lambda: torch.randn(2, 12, size("hidden_size", WIDTH)),
        "past_values": lambda: torch.randn(2, size("context_length", 32), size("num_input_channels", 1)),
    }
    known = inspect.signature(model.forward).parameters
    main = model.main_input_name
    options = [
        [main],
        [main, "decoder_input_ids"],
        ["input_ids", "pixel_values"],
        ["input_ids"],
        ["pixel_values"],
        ["input_ids", "bbox"],
        ["input_values"],
        ["input_features"],
        ["input_features", "decoder_input_ids"],
        ["pixel_values", "decoder_input_ids"],
        ["pixel_values_videos"],
        ["past_values"],
        ["inputs_embeds"],
    ]
    for names in options:
        if all(name in known and name in made for name in names):
            try:
                given = {name: made[name]() for name in names}
                with torch.no_grad():
                    copy.deepcopy(model)(**given)
                return given
            except Exception as error:
                last = error
    raise Skipped(f"torch: {last}"[:200] if "last" in dir() else f"no inputs are known for {main}")


def of_transformers(kind):
    """(model, inputs) of a small configuration."""
    import transformers

    try:
        config = transformers.CONFIG_MAPPING[kind]()
        shrink(config)
        with torch.device("meta"):
            many = sum(p.numel() for p in transformers.AutoModel.from_config(copy.deepcopy(config)).parameters())
        if many > LIMIT:
            raise Skipped(f"{many / 1e6:.0f} million parameters")
        model = transformers.AutoModel.from_config(config)
    except Skipped:
        raise
    except Exception as error:
        raise Skipped(f"torch: {type(error).__name__}: {error}"[:200]) from None
    given = inputs_of(model, config)
    return Squares(model, tuple(given)), tuple(given.values())


# ---- beside torch ----


class Skipped(Exception):
    """Not for us to judge."""


@contextlib.contextmanager
def compiled(yes):
    """Torch says that it compiles, and runs all the same."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = yes
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


def step(model, inputs, compiling):
    """(loss, {name: gradient}) by torch."""
    model = copy.deepcopy(model)
    torch.manual_seed(0)
    with compiled(compiling):
        loss = model(*inputs)
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def moved(model, seed):
    """The model with weights moved by a unit in the last place, up or down."""
    other, generator = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in other.parameters():
            up = torch.rand(p.shape, generator=generator) < 0.5
            p.copy_(torch.nextafter(p, torch.where(up, torch.inf, -torch.inf).to(p.dtype)))
    return other


def judge(name, seed, compiling=False):
    """Raises Skipped, or what went wrong; gives the worst distance as a share of what is allowed, and where."""
    from training import FACTOR, RUNS, Comparison, in_double

    import sambaflow.samba as samba

    torch.manual_seed(seed)
    family, _, kind = name.partition(":")
    model, inputs = (of_timm if family == "timm" else of_transformers)(kind)
    for part in model.modules():
        if isinstance(part, (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)):
            part.p = 0.0
    try:
        theirs = step(model, inputs, compiling)
        torch.manual_seed(0)
        first = copy.deepcopy(model)(*inputs)
        torch.manual_seed(1)
        if not torch.equal(first, copy.deepcopy(model)(*inputs)):
            model.eval()
            theirs = step(model, inputs, compiling)
        exact = step(copy.deepcopy(model).double(), tuple(map(in_double, inputs)), compiling)
    except Exception as error:
        raise Skipped(f"torch: {type(error).__name__}: {error}"[:200]) from None
    if not exact[1] or not torch.isfinite(exact[0]) or not all(torch.isfinite(g).all() for g in theirs[1].values()):
        raise Skipped("torch gives no gradients, or such as are not finite")
    original = copy.deepcopy(model)
    samba.from_torch_model_(model)
    given = tuple(samba.from_torch_tensor(x, name=f"in{i}") for i, x in enumerate(inputs))
    optimizer = samba.optim.SGD(model.parameters(), lr=0.0)
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        pef = samba.session.compile(model, given, optimizer, name="model", loss_indices=[0], output_folder=folder)
        samba.utils.trace_graph(model, given, optimizer, pef=pef, loss_indices=[0])
    took = time.time() - began
    loss = samba.session.run(given, model.output_tensors[:1])[0].torch()
    comparison = Comparison(torch.float32)
    comparison.add("loss", loss, theirs[0], exact[0], 1 + abs(exact[0].item()))
    scale, wrong = max(g.abs().max().item() for g in exact[1].values() if g.numel()), []
    for path, p in model.named_parameters():
        has = samba.session.has(f"{p.sn_name}.grad")
        ours = samba.session.device_get(f"{p.sn_name}.grad") if has else torch.zeros(p.shape)
        if path in exact[1]:
            comparison.add(path, ours, theirs[1][path], exact[1][path], scale)
        elif p.requires_grad and ours.any():
            wrong.append(f"{path} has a gradient, in torch it has none")
    while comparison.wrong() and comparison.runs < RUNS:
        comparison.runs += 1
        loss, gradients = step(moved(original, comparison.runs), inputs, compiling)
        comparison.see({"loss": loss, **gradients}, {"loss": exact[0], **exact[1]})
    assert not wrong, wrong[0]
    comparison.check()
    shares = {
        what: mine / (FACTOR * comparison.its[what] + comparison.free[what]) for what, mine in comparison.mine.items() if mine > 0
    }
    where = max(shares, key=shares.get) if shares else ""
    return {"share": round(shares.get(where, 0), 3), "where": where, "moved": comparison.runs, "compiled": round(took, 1)}


def one(name, seed):
    """What became of an architecture, as a dict."""
    try:
        return {"name": name, "result": "equal", **judge(name, seed)}
    except Skipped as why:
        return {"name": name, "result": "skipped", "why": str(why)}
    except AssertionError as error:
        try:
            return {
                "name": name,
                "result": "equal",
                "as": "torch compiles it",
                "eager": str(error),
                **judge(name, seed, compiling=True),
            }
        except Exception:
            return {"name": name, "result": "wrong", "why": str(error)}
    except Exception as error:
        return {"name": name, "result": "refused", "why": f"{type(error).__name__}: {error}"}


def apart(name, seed):
    """The same in a process of its own."""
    try:
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", str(MINE), "--one", name, "--seed", str(seed)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return {"name": name, "result": "skipped", "why": f"more than {SECONDS} s"}
    lines = [line for line in ran.stdout.splitlines() if line.startswith('{"name"')]
    return (
        json.loads(lines[-1])
        if lines
        else {"name": name, "result": "crashed", "why": f"status {ran.returncode}: {ran.stderr[-300:]}"}
    )


def draw(names, count, seed):
    """`count` architectures that could be judged, in a drawn order, with those that were skipped in between."""
    order, judged = random.Random(seed).sample(names, len(names)), 0
    for name in order:
        if judged == count:
            return
        became = apart(name, seed)
        judged += became["result"] != "skipped"
        yield became


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("families", nargs="*", help="timm, transformers; both where none is named")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--one")
    options = parser.parse_args()
    without_torchvisions_library()
    if options.one:
        print(json.dumps(one(options.one, options.seed)), flush=True)
        return 0
    failed = 0
    for family in options.families or ("timm", "transformers"):
        counts = {}
        for became in draw(timms() if family == "timm" else transformers_types(), options.count, options.seed):
            counts[became["result"]] = counts.get(became["result"], 0) + 1
            print(json.dumps(became), flush=True)
        failed += sum(n for result, n in counts.items() if result not in ("equal", "skipped"))
        print(f"{family}, seed {options.seed}: " + ", ".join(f"{n} {result}" for result, n in counts.items()), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
