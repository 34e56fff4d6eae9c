# SPDX-License-Identifier: Apache-2.0
"""Models through ONNX: exported by both of PyTorch's exporters and by skl2onnx, read, beside ONNX Runtime; trained from there
beside PyTorch."""

import contextlib
import copy
import importlib.util
import io
import logging
import pathlib

import numpy
import onnxruntime
import pytest
import test_models_hf
import test_models_more
import torch
import torch.nn.functional as F
import training
from torch import nn

import onnx
import sambaflow.onnx_backend as backend
import sambaflow.samba as samba
import sambaflow.samba.utils as utils

CLOSE = 1e-5  # of the greatest output


class Whole(nn.Module):
    """A model of the other tests with its logits beside its loss."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *values):
        inner = self.inner
        if isinstance(inner, test_models_hf.Named):
            result = inner.model(**dict(zip(inner.names, values)), **inner.fixed)
        elif isinstance(inner, test_models_hf.Causal):
            result = inner.model(input_ids=values[0], labels=values[0])
        else:
            return inner(*values)
        logits = getattr(result, "logits", None)
        return (result.loss, logits) if isinstance(logits, torch.Tensor) else result.loss


def export(net, inputs, path, exporter, **options):
    names = [f"in{i}" for i in range(len(inputs))]
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            if exporter == "older":
                torch.onnx.export(net, inputs, path, dynamo=False, opset_version=17, input_names=names, **options)
            else:
                torch.onnx.export(net, inputs, dynamo=True, input_names=names, verbose=False, **options).save(path)
    finally:
        logging.disable(logging.NOTSET)


def runtime(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def beside_runtime(path, inputs):
    session = runtime(path)
    feed = {x.name: inputs[int(x.name[2:])].numpy() for x in session.get_inputs()}
    for given, expected in zip(backend.SambaFlowRep(onnx.load(path)).run(feed), session.run(None, feed), strict=True):
        assert (given.dtype, given.shape) == (expected.dtype, expected.shape)
        greatest = numpy.max(numpy.abs(expected.astype("float64")), initial=1e-30)
        assert numpy.max(numpy.abs(given.astype("float64") - expected), initial=0) <= CLOSE * greatest


# Neither exporter takes all of them; these are what they take, of both files.
MODELS = {**test_models_hf.MODELS, **test_models_more.MODELS}
OLDER = """t5 bart wav2vec2 clip segformer roberta opt bloom rwkv deit beit swin dinov2 convnext resnet regnet
poolformer mobilenetv2 unet dcgan multihead_attention dense_graph_convolution vq_vae diffusion siren contrastive
mixture_of_experts""".split()
NEWER = """bart distilbert albert mistral qwen3 gemma2 phi gpt_neox falcon convnextv2 mlp_mixer super_resolution
resizing_and_pooling temporal_convolutions autoencoder_1d message_passing vae spectral_norm""".split()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "exporter"), [*((n, "older") for n in OLDER), *((n, "newer") for n in NEWER)])
def test_outputs(tmp_path, name, exporter):
    torch.manual_seed(0)
    net, inputs, *_ = MODELS[name]()
    path = str(tmp_path / "model.onnx")
    export(Whole(net).eval(), tuple(inputs), path, exporter)
    beside_runtime(path, inputs)


LIGHT = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda path: path.stem)
def test_networks_of_onnx(path):
    """Architectures that come with ONNX's tests, in the operators of its first versions."""
    torch.manual_seed(0)
    model = onnx.load(path)
    stored = {x.name for x in model.graph.initializer}
    (shape,) = [[d.dim_value for d in x.type.tensor_type.shape.dim] for x in model.graph.input if x.name not in stored]
    feed = {x.name: torch.rand(shape).numpy() for x in model.graph.input if x.name not in stored}
    for given, expected in zip(backend.SambaFlowRep(model).run(feed), runtime(str(path)).run(None, feed), strict=True):
        numpy.testing.assert_allclose(given, expected, rtol=1e-3, atol=CLOSE * numpy.abs(expected).max())


# ---- training ----


class Classified(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, y):
        logits = self.model(x)
        return F.cross_entropy(logits, y), logits


def export_to_train(net, inputs, path, exporter):
    """With the options of docs/onnx.md: weights keep their names and ties."""
    if exporter == "older":
        options = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    else:
        options = {"optimize": False}
    export(net.eval(), inputs, path, exporter, **options)


def convolutions():
    conv = nn.Conv2d(1, 4, 3, padding=1, bias=False)
    parts = [conv, nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(*parts), torch.randn(6, 1, 8, 8), torch.randint(10, (6,))


def layers():
    return nn.Sequential(nn.Linear(7, 9), nn.LayerNorm(9), nn.GELU(), nn.Linear(9, 5)), torch.randn(4, 7), torch.randint(5, (4,))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.encoder = nn.Embedding(11, 8), nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x)).mean(1))


def attention():
    return Attention(), torch.randint(11, (4, 6)), torch.randint(3, (4,))


OPTIMIZERS = {"SGD": {"lr": 0.05, "momentum": 0.9}, "AdamW": {"lr": 0.01}}
# What the exporters take with these options, of transformers; not mobilenetv2, whose rounding errors grow a hundredfold a step. A
# model that both take is trained by the one with SGD and by the other with AdamW.
TRAINED_OLDER = """t5 bart wav2vec2 distilbert bert_masked clip segformer vit_mae roberta albert electra mpnet opt bloom rwkv
deit beit swin dinov2 convnext convnextv2 resnet regnet poolformer"""
TRAINED_NEWER = """bart whisper wav2vec2 distilbert bert_masked clip segformer vit_mae patchtst roberta albert electra mpnet
mistral qwen2 qwen3 gemma gemma2 phi phi3 opt bloom gpt_neox gptj gpt_neo falcon rwkv deit dinov2 convnext convnextv2
resnet regnet poolformer"""


def trained():
    names = sorted({*TRAINED_OLDER.split(), *TRAINED_NEWER.split()})
    for i, name in enumerate(names):
        for exporter, taken in (("older", TRAINED_OLDER), ("newer", TRAINED_NEWER)):
            if name in taken.split():
                yield (
                    name.replace("_", " ") if name in ("bert_masked", "vit_mae") else name,
                    exporter,
                    list(OPTIMIZERS)[(i + (exporter == "newer")) % 2],
                )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("exporter", ["older", "newer"])
@pytest.mark.parametrize("make", [convolutions, layers, attention])
def test_training(tmp_path, make, exporter, optimizer):
    """What was exported is trained as PyTorch trains the model that it was: 20 losses."""
    torch.manual_seed(0)
    net, x, y = make()
    path = str(tmp_path / "model.onnx")
    export_to_train(net, (x,), path, exporter)
    model = samba.from_torch_model_(Classified(samba.from_onnx_model(path)))
    twin = copy.deepcopy(net).train()
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in net.parameters())
    ours = getattr(samba.optim, optimizer)(model.parameters(), **OPTIMIZERS[optimizer])
    theirs = getattr(torch.optim, optimizer)(twin.parameters(), **OPTIMIZERS[optimizer])
    inputs = (samba.from_torch_tensor(x, "x"), samba.from_torch_tensor(y, "y"))
    pef = samba.session.compile(model, inputs, ours, output_folder=tmp_path, pef_name="model")
    outputs = utils.trace_graph(model, inputs, ours, pef=pef)
    for step in range(20):
        theirs.zero_grad()
        loss = F.cross_entropy(twin(x), y)
        loss.backward()
        theirs.step()
        given = float(samba.session.run(inputs, outputs)[0].torch())
        assert given == pytest.approx(float(loss), rel=1e-3, abs=1e-5), step
    samba.session.reset()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "exporter", "optimizer"), trained())
def test_training_of_models(tmp_path, name, exporter, optimizer):
    """Models of transformers with their losses: trained from their files as torch trains them, and as closely as our own traces
    are. What is no parameter that trains there is frozen."""
    torch.manual_seed(0)
    net, inputs, *_ = MODELS[name]()
    path = str(tmp_path / "model.onnx")
    export_to_train(net, tuple(inputs), path, exporter)
    trains = {name for name, parameter in net.named_parameters(remove_duplicate=False) if parameter.requires_grad}
    still = [name for name, _ in samba.from_onnx_model(path).named_parameters() if name not in trains]
    training.train(tmp_path, samba.from_onnx_model(path, freeze=still), inputs, 20, optimizer=optimizer, original=net.train())
    samba.session.reset()


def images(count, labels=()):
    return torch.rand(count, 1, 28, 28), torch.randint(10, (count, *labels))


def flat_images():
    return torch.rand(4, 784), torch.randint(10, (4,))


def text():
    return torch.randint(256, (2, 16)), torch.randint(256, (2, 16))


# The twins of the programs in examples/: settings and inputs.
EXAMPLES = {
    "logreg": ({}, flat_images),
    "resffn": ({"hidden": 32}, flat_images),
    "lenet": ({}, lambda: images(2)),
    "gpt2": ({"n_layer": 2, "n_embd": 32, "n_head": 2, "block_size": 16}, text),
    "lstm": ({"hidden_size": 32, "block_size": 16}, text),
    "resnet": ({"width": 8}, lambda: images(4)),
    "unet": ({"width": 8}, lambda: images(2, (28, 28))),
    "vit": ({"num_layers": 2, "hidden_dim": 32}, lambda: images(2)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exporter", ["older", "newer"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(tmp_path, monkeypatch, name, exporter):
    bench = pathlib.Path(__file__).parents[2] / "bench"
    monkeypatch.syspath_prepend(str(bench))
    spec = importlib.util.spec_from_file_location("bench_models", bench / "models.py")
    twins = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(twins)
    torch.manual_seed(0)
    settings, inputs = EXAMPLES[name][0], EXAMPLES[name][1]()
    net, path = twins.make(name, settings), str(tmp_path / "model.onnx")
    export(net.eval(), inputs, path, exporter)
    beside_runtime(path, inputs)
    export_to_train(net, inputs, path, exporter)
    for optimizer in OPTIMIZERS:
        training.train(tmp_path, samba.from_onnx_model(path), inputs, optimizer=optimizer, original=copy.deepcopy(net).train())
        samba.session.reset()


def test_running_statistics_are_buffers(tmp_path):
    net, x, _ = convolutions()
    path = str(tmp_path / "model.onnx")
    export_to_train(net, (x,), path, "older")
    model = samba.from_onnx_model(path)
    assert {name for name, _ in model.named_buffers()} == {"1.running_mean", "1.running_var"}
    assert dict(model.named_parameters()).keys() == dict(net.named_parameters()).keys()
    frozen = samba.from_onnx_model(path, freeze=["0.*"])
    assert [name for name, p in frozen.named_parameters() if not p.requires_grad] == ["0.weight"]
    with pytest.raises(LookupError, match="no parameter of the model has a name like 'nothing"):
        samba.from_onnx_model(path, freeze="nothing*")
    with torch.no_grad():
        assert torch.allclose(model.eval()(samba.from_torch_tensor(x, "x")).torch(), net(x), atol=1e-5)
    with pytest.raises(NotImplementedError, match="called eagerly has no gradients"):
        model(samba.from_torch_tensor(x, "x"))


def test_back(tmp_path):
    """From PyTorch to ONNX, trained, and to ONNX Runtime: what was learned is there."""
    torch.manual_seed(0)
    net, x, y = convolutions()
    path, trained = str(tmp_path / "model.onnx"), str(tmp_path / "trained.onnx")
    export_to_train(net, (x,), path, "older")
    model = samba.from_torch_model_(Classified(samba.from_onnx_model(path)))
    optim = samba.optim.AdamW(model.parameters(), lr=0.01)
    inputs = (samba.from_torch_tensor(x, "x"), samba.from_torch_tensor(y, "y"))
    pef = samba.session.compile(model, inputs, optim, output_folder=tmp_path, pef_name="model")
    outputs = utils.trace_graph(model, inputs, optim, pef=pef)
    for _ in range(20):
        samba.session.run(inputs, outputs)
    samba.session.to_onnx(trained)
    results = samba.session.run(inputs, outputs, section_types=["FWD"], train=False)
    onnx.checker.check_model(trained, full_check=True)
    there = runtime(trained)
    given = dict(zip([o.name for o in there.get_outputs()], there.run(None, {"x": x.numpy(), "y": y.numpy()})))
    for output, result in zip(outputs, results, strict=True):
        numpy.testing.assert_allclose(given[output.sn_name], result.torch().numpy(), rtol=1e-4, atol=1e-5)
    samba.session.reset()


# ---- scikit-learn ----


def pipelines():
    from sklearn import ensemble, linear_model, neural_network, pipeline, preprocessing, svm, tree

    scale = preprocessing.StandardScaler
    return {
        "linear": pipeline.make_pipeline(scale(), linear_model.LinearRegression()),
        "logistic": pipeline.make_pipeline(preprocessing.MinMaxScaler(), linear_model.LogisticRegression()),
        "mlp": pipeline.make_pipeline(scale(), neural_network.MLPClassifier((8,), max_iter=50, random_state=0)),
        "svc": pipeline.make_pipeline(scale(), svm.SVC(probability=True, random_state=0)),
        "svr": pipeline.make_pipeline(scale(), svm.SVR()),
        "tree": tree.DecisionTreeClassifier(max_depth=4, random_state=0),
        "forest": ensemble.RandomForestRegressor(7, max_depth=5, random_state=0),
        "boosting": ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0),
        "normalizer": pipeline.make_pipeline(preprocessing.Normalizer(), linear_model.Ridge()),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", "linear logistic mlp svc svr tree forest boosting normalizer".split())
def test_scikit_learn(name):
    import skl2onnx

    rng = numpy.random.default_rng(0)
    x = rng.normal(size=(60, 5)).astype("float32")
    target = x @ rng.normal(size=5) + 0.1 * rng.normal(size=60)
    model = pipelines()[name]
    classes = hasattr(model, "predict_proba")
    model.fit(x, (target > 0) + (target > 1) if classes else target)
    kind = skl2onnx.common.data_types.FloatTensorType([None, 5])
    proto = skl2onnx.to_onnx(model, initial_types=[("x", kind)], options={"zipmap": False} if classes else None)
    given = backend.SambaFlowRep(proto).run([x])
    if classes:
        assert given[0].tolist() == model.predict(x).tolist()
        # libsvm stops the coupling of several classes' probabilities when they move by less than 0.005 / classes
        numpy.testing.assert_allclose(given[1], model.predict_proba(x), atol=5e-3 if name == "svc" else 1e-4)
    else:
        numpy.testing.assert_allclose(given[0].ravel(), model.predict(x), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_perceptron_of_scikit_learn_is_trained_on(tmp_path, optimizer):
    """From where scikit-learn stopped, as torch trains the same layers, and back to ONNX Runtime."""
    import skl2onnx
    from sklearn import neural_network, pipeline, preprocessing

    torch.manual_seed(0)
    rng = numpy.random.default_rng(0)
    x = rng.normal(3, 2, size=(90, 5)).astype("float32")
    target = ((x**2).sum(1) > 60) + (x[:, 0] > 3).astype("int64")
    learner = neural_network.MLPClassifier((12, 8), max_iter=30, random_state=0)
    mlp = pipeline.make_pipeline(preprocessing.StandardScaler(), learner).fit(x, target)
    kind = skl2onnx.common.data_types.FloatTensorType([90, 5])
    proto = skl2onnx.to_onnx(mlp, initial_types=[("x", kind)], options={"zipmap": False})

    class Loss(nn.Module):
        def __init__(self, network):
            super().__init__()
            self.network = network

        def forward(self, x, y):
            labels, probabilities = self.network(x)
            return F.nll_loss(torch.log(probabilities + 1e-20), y), probabilities, labels

    layers = [nn.Linear(*weight.shape) for weight in learner.coefs_]
    for layer, weight, bias in zip(layers, learner.coefs_, learner.intercepts_):
        layer.weight.data, layer.bias.data = torch.tensor(weight.T).float(), torch.tensor(bias).float()
    twin = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    scaled = torch.from_numpy(mlp[0].transform(x)).float()
    model = samba.from_torch_model_(Loss(samba.from_onnx_model(proto)))
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in twin.parameters())
    ours = getattr(samba.optim, optimizer)(model.parameters(), **OPTIMIZERS[optimizer])
    theirs = getattr(torch.optim, optimizer)(twin.parameters(), **OPTIMIZERS[optimizer])
    y = torch.from_numpy(target)
    inputs = (samba.from_torch_tensor(torch.from_numpy(x), "x"), samba.from_torch_tensor(y, "y"))
    pef = samba.session.compile(model, inputs, ours, output_folder=tmp_path, pef_name="model")
    outputs = utils.trace_graph(model, inputs, ours, pef=pef)
    losses = []
    for step in range(200):
        theirs.zero_grad()
        loss = F.cross_entropy(twin(scaled), y)
        loss.backward()
        theirs.step()
        losses.append(float(samba.session.run(inputs, outputs)[0].torch()))
        assert step >= 20 or losses[-1] == pytest.approx(float(loss), rel=1e-3, abs=1e-5), step
    assert losses[-1] < 0.5 * losses[0]
    trained = str(tmp_path / "trained.onnx")
    samba.session.to_onnx(trained)
    given = [result.torch().numpy() for result in samba.session.run(inputs, outputs, section_types=["FWD"], train=False)]
    there = runtime(trained)
    found = dict(zip([o.name for o in there.get_outputs()], there.run(None, {"x": x, "y": target})))
    numpy.testing.assert_allclose(found[outputs[1].sn_name], given[1], rtol=1e-4, atol=1e-5)
    assert (found[outputs[2].sn_name] == given[2]).all()
    assert (given[2] == target).mean() > (mlp.predict(x) == target).mean()
    samba.session.reset()
