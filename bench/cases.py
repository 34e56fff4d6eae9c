# SPDX-License-Identifier: Apache-2.0
"""The cases of make bench: what is compiled, with which peers, and what it must reach (bench.py --check)."""

from dataclasses import dataclass, field

SGD = {"optimizer": "sgd", "lr": 0.001, "momentum": 0.9, "weight_decay": 1e-4}
ADAMW = {"optimizer": "adamw", "lr": 3e-4, "beta1": 0.9, "beta2": 0.95, "weight_decay": 0.01, "max_grad_norm": 1.0}
TRAIN, INFERENCE = "train", "inference"
PEERS = {
    (TRAIN, "float32"): ["eager", "compile", "jax"],
    (TRAIN, "bfloat16"): ["autocast", "pure bf16"],
    (INFERENCE, "float32"): ["eager", "compile", "onnxruntime"],
    (INFERENCE, "bfloat16"): ["autocast", "pure bf16"],
}
# How far losses may be apart, relative to the greater of loss and 1, and outputs relative to their greatest element. Sums of k
# rounded terms are off by some sqrt(k) eps: 1e-5 for fp32 sums of 5000. A hundred times that is far from any mistake in a model,
# and so is 2 % in bf16, whose eps is 0.8 %.
TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2}
NEIGHBOUR = 0.10  # an untabled size reaches its neighbours' MFU but for this


# Multiply-adds that an image takes forward: of the whole model, and of the layer on the image.
def resnet(channels, image_size, num_classes, width=64):
    side = -(-image_size // 2)
    first = side**2 * width * channels * 49
    forward, side = first + 8 * width * num_classes, -(-side // 2)
    for i in range(4):
        n, inputs = width << i, width << max(i - 1, 0)
        side = -(-side // 2) if i else side
        forward += side**2 * (n * inputs * 9 + 3 * n * n * 9 + (n * inputs if i else 0))
    return forward, first


def unet(channels, image_size, depth, width, groups, num_classes):
    pixels, first = image_size**2, image_size**2 * width * channels * 9
    forward = first + pixels * (width * width * 9 + width * num_classes)
    for i in range(1, depth + 1):
        n = width << i
        # Down: n / 2 and n channels to n. Up to the level above: the transposed convolution, then n and n / 2 channels to n / 2.
        forward += (pixels >> 2 * i) * (n * n // 2 * 9 + n * n * 9) + (pixels >> 2 * (i - 1)) * (
            n * n // 2 + n * n // 2 * 9 + n * n // 4 * 9
        )
    return forward, first


def vit(channels, image_size, patch_size, num_layers, num_heads, hidden_dim, num_classes):
    d, patches = hidden_dim, (image_size // patch_size) ** 2
    first, tokens = patches * d * channels * patch_size**2, patches + 1
    return first + num_layers * (12 * d * d * tokens + 2 * d * tokens * tokens) + d * num_classes, first


IMAGES = {"resnet": resnet, "unet": unet, "vit": vit}


@dataclass
class Case:
    name: str
    example: str  # the program in examples/ and the model in models.py and jax_models.py
    batch: int
    optimizer: dict = field(default_factory=dict)
    settings: dict = field(default_factory=dict)  # of the model: hidden, or n_layer, n_head ...
    kind: str = TRAIN
    dtype: str = "float32"
    # ratio (to the fastest peer), eager (the same to PyTorch eager), mfu: at least;
    # ms, compile_ms, start_ms, peak_bytes, over_plan: at most; neighbours: names of cases, see NEIGHBOUR
    targets: dict = field(default_factory=dict)
    jax: bool = True  # whether it belongs to the table that JAX runs in
    compared: int = 10  # first steps whose losses must agree
    long: bool = False  # a step takes about a second or more: left out by --quick

    @property
    def peers(self):
        return [peer for peer in PEERS[self.kind, self.dtype] if peer != "jax" or self.jax]

    @property
    def classes(self):
        if "vocab_size" in self.settings:
            return {"input": self.settings["vocab_size"], "label": self.settings["vocab_size"]}
        return {"label": self.settings.get("num_classes", 10)}

    def options(self):
        """Of the example's command line."""
        words = ["--batch-size", str(self.batch)]
        names = {"hidden": "hidden-size"}
        for key, value in self.settings.items():
            words += ["--" + names.get(key, key.replace("_", "-")), str(value)]
        if self.example == "gpt2":
            words += ["--dropout", "0"]
        if self.dtype == "bfloat16":
            words += ["--precision", "bf16"]
        if self.kind == INFERENCE:
            return words + ["--inference"] + ["--logits"] * ("vocab_size" in self.settings)
        for key, value in self.optimizer.items():
            words += ["--" + key.replace("_", "-"), str(value)]
        return words

    def flops(self):
        """Twice the multiply-adds that the mathematics needs in matmuls and convolutions: nothing computed again, causal
        attention only up to the diagonal, no gradient of what needs none. MFU is this over time and peak;
        what a plan says it executes is counted apart."""
        b, s = self.batch, self.settings
        first = 0  # the layer on the inputs, which have no gradient
        if self.example == "logreg":
            forward = first = 784 * 10 * b
        elif self.example == "resffn":
            h = s["hidden"]
            forward, first = (784 * h + h * h + 10 * h) * b, 784 * h * b
        elif self.example == "lenet":
            first = 6 * 784 * 25 * b
            forward = first + (16 * 100 * 150 + 400 * 120 + 120 * 84 + 84 * 10) * b
        elif self.example in IMAGES:
            forward, first = (b * count for count in IMAGES[self.example](**s))
        elif self.example == "lstm":
            h, t = s["hidden_size"], s["block_size"]
            forward = b * t * (s["num_layers"] * 8 * h * h + h * s["vocab_size"])
        else:
            d, t = s["n_embd"], s["block_size"]
            forward = b * (s["n_layer"] * (12 * d * d * t + d * t * (t + 1)) + d * s["vocab_size"] * t)
        return 2 * (forward if self.kind == INFERENCE else 3 * forward - first)


@dataclass
class Figure:
    """A case that is no step: a script of this folder that prints one JSON object of figures."""

    name: str
    script: str
    arguments: list = field(default_factory=list)
    needs: list = field(default_factory=list)  # Python packages
    targets: dict = field(default_factory=dict)  # name of a figure -> (at least, at most); None: free
    long: bool = True


def gpt(n_layer, n_head, n_embd, block_size, vocab_size):
    return {"n_layer": n_layer, "n_head": n_head, "n_embd": n_embd, "block_size": block_size, "vocab_size": vocab_size}


H128, H777, H1024, H4096 = ({"hidden": width} for width in (128, 777, 1024, 4096))
GPT128, GPT200, GPT384 = gpt(4, 4, 128, 128, 512), gpt(3, 5, 200, 190, 1009), gpt(6, 6, 384, 256, 4096)
GPT2 = gpt(12, 12, 768, 256, 50257)
RESNET32, RESNET224 = (
    {"channels": 3, "image_size": 32, "num_classes": 10},
    {"channels": 3, "image_size": 224, "num_classes": 1000},
)
UNET16, UNET32 = (
    {"channels": 3, "image_size": 128, "depth": 3, "width": width, "groups": 8, "num_classes": 4} for width in (16, 32)
)
VIT = {
    "channels": 3,
    "image_size": 224,
    "patch_size": 16,
    "num_layers": 12,
    "num_heads": 3,
    "hidden_dim": 192,
    "num_classes": 1000,
}
BRISK = {"compile_ms": 50}
IMAGE = {"eager": 1.3, "compile_ms": 100}

CASES = [
    Case("logreg b1", "logreg", 1, SGD, targets={"ratio": 20, **BRISK}),
    Case("logreg b100", "logreg", 100, SGD, targets={"ratio": 5, **BRISK}),
    Case("resffn h128 b32", "resffn", 32, SGD, H128, targets={"ratio": 3.5, **BRISK}),
    Case("lenet b32", "lenet", 32, SGD, targets={"ratio": 3.5, "mfu": 0.45, "start_ms": 100, **BRISK}),
    Case("lenet b256", "lenet", 256, SGD, targets={"ratio": 3.5, "mfu": 0.45, **BRISK}),
    Case("resffn h1024 b256", "resffn", 256, SGD, H1024, targets={"ratio": 1.25, "mfu": 0.85, **BRISK}),
    Case("resffn h777 b193", "resffn", 193, SGD, H777, jax=False, targets={"neighbours": ["resffn h1024 b256"], **BRISK}),
    Case("resffn h4096 b512", "resffn", 512, ADAMW, H4096, targets={"ratio": 1.2, "mfu": 0.85, **BRISK}),
    Case("gpt d128 b8", "gpt2", 8, ADAMW, GPT128, targets={"ratio": 1.6, "mfu": 0.75, **BRISK}),
    Case("gpt d200 b7", "gpt2", 7, ADAMW, GPT200, jax=False, targets={"neighbours": ["gpt d128 b8", "gpt d384 b8"], **BRISK}),
    Case("gpt d384 b8", "gpt2", 8, ADAMW, GPT384, long=True, targets={"ratio": 1.35, "mfu": 0.85, **BRISK}),
    Case(
        "gpt2 124M b4",
        "gpt2",
        4,
        ADAMW,
        GPT2,
        long=True,
        targets={"ratio": 1.35, "mfu": 0.85, "compile_ms": 300, "peak_bytes": 2.6e9, "over_plan": 0.03},
    ),
    # Two steps: a relu that opens on one side alone changes gradients at once,
    # and batch norm makes much of it (tests/torch/losses.sh).
    Case("resnet18 32px b128", "resnet", 128, SGD, RESNET32, jax=False, compared=2, targets=IMAGE),
    Case("resnet18 224px b8", "resnet", 8, SGD, RESNET224, jax=False, long=True, targets=IMAGE),
    Case("unet w16 128px b8", "unet", 8, ADAMW, UNET16, jax=False, targets=IMAGE),
    Case("unet w32 128px b8", "unet", 8, ADAMW, UNET32, jax=False, long=True, targets=IMAGE),
    Case("vit tiny b8", "vit", 8, ADAMW, VIT, jax=False, targets=IMAGE),
    Case(
        "lstm h650 b20",
        "lstm",
        20,
        ADAMW,
        {"num_layers": 2, "hidden_size": 650, "block_size": 35, "vocab_size": 10000},
        jax=False,
        targets={"ratio": 1.3, "compile_ms": 200},
    ),
    Case("resffn h1024 b256 bf16", "resffn", 256, SGD, H1024, dtype="bfloat16", targets={"ratio": 1.4, **BRISK}),
    Case("resffn h4096 b512 bf16", "resffn", 512, ADAMW, H4096, dtype="bfloat16", targets={"ratio": 1.4, "mfu": 0.65, **BRISK}),
    Case("gpt d128 b8 bf16", "gpt2", 8, ADAMW, GPT128, dtype="bfloat16", targets={"ratio": 1.4, **BRISK}),
    Case("gpt d384 b8 bf16", "gpt2", 8, ADAMW, GPT384, dtype="bfloat16", long=True, targets={"ratio": 1.4, **BRISK}),
    Case(
        "gpt2 124M b4 bf16",
        "gpt2",
        4,
        ADAMW,
        GPT2,
        dtype="bfloat16",
        long=True,
        targets={"ratio": 1.4, "mfu": 0.65, "compile_ms": 300},
    ),
    Case("logreg b1 inference", "logreg", 1, kind=INFERENCE, targets={"ratio": 2, "ms": 0.002, **BRISK}),
    Case("resffn h128 b32 inference", "resffn", 32, {}, H128, kind=INFERENCE, targets={"ratio": 1.5, **BRISK}),
    Case("lenet b32 inference", "lenet", 32, kind=INFERENCE, targets={"ratio": 1.5, **BRISK}),
    Case("resffn h4096 b512 inference", "resffn", 512, {}, H4096, kind=INFERENCE, targets={"ratio": 1.15, **BRISK}),
    Case("gpt d384 b8 inference", "gpt2", 8, {}, GPT384, kind=INFERENCE, long=True, targets={"ratio": 1.15, **BRISK}),
    Case("resffn h1024 b256 bf16 inference", "resffn", 256, {}, H1024, kind=INFERENCE, dtype="bfloat16", targets=BRISK),
    Case("gpt d384 b8 bf16 inference", "gpt2", 8, {}, GPT384, kind=INFERENCE, dtype="bfloat16", long=True, targets=BRISK),
]

GENERATE = {"times_pytorch": (2, None), "prefill_mfu": (0.7, None)}
FIGURES = [
    Figure(
        "gpt2 124M generate",
        "generate.py",
        ["--precision", "fp32"],
        ["torch", "transformers"],
        {"of_bandwidth": (0.9, None), **GENERATE},
    ),
    Figure(
        "gpt2 124M generate bf16",
        "generate.py",
        ["--precision", "bf16"],
        ["torch", "transformers"],
        {"of_bandwidth": (0.75, None), **GENERATE},
    ),
    Figure("gpt2 1.5B compile", "compile.py", targets={"seconds": (None, 2), "megabytes": (None, 300)}, long=False),
    Figure(
        "lenet b32 loader",
        "loader.py",
        [],
        ["torch", "sambaflow"],
        {"waiting": (0.95, None), "working": (0.95, None)},
        long=False,
    ),
    Figure(
        "logreg b1 python",
        "overhead.py",
        [],
        ["torch", "sambaflow"],
        {"run_us": (None, 15), "run_loss_us": (None, 12), "import_ms": (None, 50)},
        long=False,
    ),
    Figure("lenet b32 profiling", "profiling.py", [], [], {"summary_over_off": (None, 0.02)}, long=False),
]
