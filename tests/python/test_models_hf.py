# SPDX-License-Identifier: Apache-2.0
"""Families of Hugging Face's transformers, from small random configurations, unpatched:
three steps against PyTorch, as training.py says."""

import pytest
import torch
import transformers as hf
from models import beside_torch
from torch import nn

VOCABULARY = 96
TEXT = dict(
    vocab_size=VOCABULARY,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    max_position_embeddings=32,
)
IMAGE = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32, patch_size=8, num_labels=3
)
NO_DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
SEQUENCES = dict(
    vocab_size=VOCABULARY,
    d_model=32,
    encoder_layers=1,
    decoder_layers=1,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    dropout=0.0,
    use_cache=False,
)


class Named(nn.Module):
    """A model that takes its arguments by name and gives a loss."""

    def __init__(self, model, *names, **fixed):
        super().__init__()
        self.model, self.names, self.fixed = model, names, fixed

    def forward(self, *values):
        return self.model(**dict(zip(self.names, values)), **self.fixed).loss


class Causal(nn.Module):
    """A language model that predicts its own input."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(input_ids=tokens, labels=tokens).loss


def tokens(batch=2, length=12):
    return torch.randint(3, VOCABULARY, (batch, length))


def mask():
    kept = torch.ones(2, 12, dtype=torch.long)
    kept[1, 8:] = 0
    return kept


def of_text(name, **options):
    config, model = getattr(hf, name + "Config"), getattr(hf, name + "ForSequenceClassification")
    return lambda: (
        Named(model(config(**{**TEXT, **options})), "input_ids", "attention_mask", "labels"),
        (tokens(), mask(), torch.tensor([0, 1])),
    )


def causal(name, **options):
    config, model = getattr(hf, name + "Config"), getattr(hf, name + "ForCausalLM")
    return lambda: (Causal(model(config(**{**TEXT, **options}, use_cache=False))), (tokens(),))


def of_images(name, batch=2, **options):
    config, model = getattr(hf, name + "Config"), getattr(hf, name + "ForImageClassification")
    return lambda: (
        Named(model(config(**options)), "pixel_values", "labels"),
        (torch.randn(batch, 3, 32, 32), torch.tensor([0, 1] * (batch // 2))),
    )


def t5():
    config = hf.T5Config(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        use_cache=False,
        decoder_start_token_id=0,
    )
    return Named(hf.T5ForConditionalGeneration(config), "input_ids", "attention_mask", "labels"), (tokens(), mask(), tokens(2, 7))


def bart():
    model = hf.BartForConditionalGeneration(hf.BartConfig(**SEQUENCES, max_position_embeddings=32))
    return Named(model, "input_ids", "attention_mask", "labels"), (tokens(), mask(), tokens(2, 7))


def whisper():
    config = hf.WhisperConfig(
        **SEQUENCES,
        num_mel_bins=8,
        max_source_positions=16,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return Named(hf.WhisperForConditionalGeneration(config), "input_features", "labels"), (torch.randn(2, 8, 32), tokens(2, 7))


def wav2vec2():
    config = hf.Wav2Vec2Config(
        vocab_size=20,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=48,
        conv_dim=(16, 16),
        conv_stride=(4, 2),
        conv_kernel=(8, 3),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        activation_dropout=0.0,
        layerdrop=0.0,
        mask_time_prob=0.0,
        classifier_proj_size=16,
        num_labels=3,
    )
    return Named(hf.Wav2Vec2ForSequenceClassification(config), "input_values", "labels"), (
        torch.randn(2, 200),
        torch.tensor([0, 1]),
    )


def distilbert():
    config = hf.DistilBertConfig(
        vocab_size=VOCABULARY,
        dim=32,
        n_layers=2,
        n_heads=4,
        hidden_dim=48,
        max_position_embeddings=32,
        dropout=0.0,
        attention_dropout=0.0,
        seq_classif_dropout=0.0,
    )
    model = hf.DistilBertForSequenceClassification(config)
    return Named(model, "input_ids", "attention_mask", "labels"), (tokens(), mask(), torch.tensor([0, 1]))


def masked_bert():
    labels = tokens()
    labels[:, ::3] = -100
    return Named(hf.BertForMaskedLM(hf.BertConfig(**TEXT, **NO_DROPOUT)), "input_ids", "attention_mask", "labels"), (
        tokens(),
        mask(),
        labels,
    )


def clip():
    parts = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, projection_dim=16)
    config = hf.CLIPConfig(
        text_config=dict(vocab_size=VOCABULARY, max_position_embeddings=32, eos_token_id=2, **parts),
        vision_config=dict(image_size=32, patch_size=8, **parts),
        projection_dim=16,
    )
    ids = tokens()
    ids[:, -1] = 2
    return Named(hf.CLIPModel(config), "input_ids", "pixel_values", "attention_mask", return_loss=True), (
        ids,
        torch.randn(2, 3, 32, 32),
        torch.ones(2, 12).long(),
    )


def segformer():
    config = hf.SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[4, 2],
        hidden_sizes=[8, 16],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=16,
        num_labels=3,
        drop_path_rate=0.0,
        hidden_dropout_prob=0.0,
        classifier_dropout_prob=0.0,
    )
    return Named(hf.SegformerForSemanticSegmentation(config), "pixel_values", "labels"), (
        torch.randn(2, 3, 32, 32),
        torch.randint(3, (2, 32, 32)),
    )


def vit_mae():
    config = hf.ViTMAEConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=48,
        image_size=32,
        patch_size=8,
        decoder_hidden_size=16,
        decoder_num_hidden_layers=1,
        decoder_num_attention_heads=4,
        decoder_intermediate_size=24,
    )
    return Named(hf.ViTMAEForPreTraining(config), "pixel_values", "noise"), (torch.randn(2, 3, 32, 32), torch.rand(2, 16))


def patchtst():
    config = hf.PatchTSTConfig(
        num_input_channels=2,
        context_length=16,
        patch_length=4,
        patch_stride=4,
        d_model=16,
        num_attention_heads=2,
        num_hidden_layers=1,
        ffn_dim=24,
        prediction_length=4,
        dropout=0.0,
        attention_dropout=0.0,
        ff_dropout=0.0,
        path_dropout=0.0,
        positional_dropout=0.0,
        head_dropout=0.0,
        loss="mse",
    )
    return Named(hf.PatchTSTForPrediction(config), "past_values", "future_values"), (torch.randn(4, 16, 2), torch.randn(4, 4, 2))


def blenderbot():
    model = hf.BlenderbotForConditionalGeneration(hf.BlenderbotConfig(**SEQUENCES, max_position_embeddings=32))
    return Named(model, "input_ids", "attention_mask", "labels"), (tokens(1, 12), mask()[1:], tokens(1, 7))


class Codec(nn.Module):
    """A codec of sound: what it gives back, and its own loss of codes."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, sound):
        found = self.model(sound)
        return found.loss.mean() + nn.functional.mse_loss(found.audio_values, sound[:, 0])


def dac():
    config = hf.DacConfig(
        encoder_hidden_size=8,
        downsampling_ratios=[2, 4],
        decoder_hidden_size=16,
        n_codebooks=2,
        codebook_size=16,
        codebook_dim=4,
        hidden_size=16,
        quantizer_dropout=0.0,
    )
    return Codec(hf.DacModel(config)), (torch.randn(2, 1, 64),)


STAGES = dict(depths=[1, 1], hidden_sizes=[8, 16], num_labels=3)
MODELS = {
    "t5": t5,
    "bart": bart,
    "whisper": whisper,
    "wav2vec2": wav2vec2,
    "distilbert": distilbert,
    "bert masked": masked_bert,
    "clip": clip,
    "segformer": segformer,
    "vit mae": vit_mae,
    "patchtst": patchtst,
    "blenderbot": blenderbot,
    "dac": dac,
    "roberta": of_text("Roberta", **NO_DROPOUT),
    "albert": of_text("Albert", embedding_size=16, classifier_dropout_prob=0.0, **NO_DROPOUT),
    "electra": of_text("Electra", embedding_size=16, classifier_dropout=0.0, **NO_DROPOUT),
    "mpnet": of_text("MPNet", **NO_DROPOUT),
    "mistral": causal("Mistral", num_key_value_heads=2, sliding_window=6),
    "qwen2": causal("Qwen2", num_key_value_heads=2),
    "qwen3": causal("Qwen3", num_key_value_heads=2, head_dim=8),
    "gemma": causal("Gemma", num_key_value_heads=1, head_dim=8),
    "gemma2": causal("Gemma2", num_key_value_heads=2, head_dim=8, sliding_window=6),
    "phi": causal("Phi", num_key_value_heads=4, resid_pdrop=0.0, embd_pdrop=0.0),
    "phi3": causal("Phi3", num_key_value_heads=2, pad_token_id=0),
    "opt": causal("OPT", ffn_dim=48, word_embed_proj_dim=32, dropout=0.0),
    "bloom": causal("Bloom", n_layer=2, n_head=4),
    "gpt_neox": causal("GPTNeoX"),
    "gptj": causal(
        "GPTJ", n_embd=32, n_layer=2, n_head=4, n_positions=32, rotary_dim=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    ),
    "gpt_neo": causal(
        "GPTNeo",
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=4,
        resid_dropout=0.0,
        embed_dropout=0.0,
        attention_dropout=0.0,
    ),
    "falcon": causal("Falcon"),
    "modernbert decoder": causal("ModernBertDecoder", local_attention=6, pad_token_id=0),
    "rwkv": causal("Rwkv", attention_hidden_size=32, context_length=32),
    "deit": of_images("DeiT", **IMAGE, **NO_DROPOUT),
    "beit": of_images("Beit", **IMAGE, **NO_DROPOUT, drop_path_rate=0.0, use_relative_position_bias=True),
    "swin": of_images(
        "Swin",
        image_size=32,
        patch_size=2,
        embed_dim=8,
        depths=[2, 1],
        num_heads=[2, 2],
        window_size=4,
        num_labels=3,
        drop_path_rate=0.0,
        **NO_DROPOUT,
    ),
    "dinov2": of_images(
        "Dinov2", **{key: value for key, value in IMAGE.items() if key != "intermediate_size"}, mlp_ratio=2, drop_path_rate=0.0
    ),
    "convnext": of_images("ConvNext", num_stages=2, image_size=32, **STAGES),
    "convnextv2": of_images("ConvNextV2", num_stages=2, image_size=32, **STAGES),
    "resnet": of_images("ResNet", 8, embedding_size=8, **STAGES),
    "bit": of_images("Bit", embedding_size=8, num_groups=2, **STAGES),
    "regnet": of_images("RegNet", 8, embedding_size=8, groups_width=4, **STAGES),
    "poolformer": of_images(
        "PoolFormer", num_encoder_blocks=2, patch_sizes=[7, 3], strides=[4, 2], padding=[2, 1], drop_path_rate=0.0, **STAGES
    ),
    "mobilenetv2": of_images("MobileNetV2", 8, depth_multiplier=0.25, image_size=32, num_labels=3, classifier_dropout_prob=0.0),
}
# The last activations are normalized over two values:
# at torch's lr a rounding error grows a hundredfold a step, in torch as in ours.
SLOWLY = ("mobilenetv2",)


@pytest.mark.parametrize("name", MODELS)
def test_family(tmp_path, name):
    model, inputs = MODELS[name]()
    beside_torch(tmp_path, model, inputs, lr=0.001 if name in SLOWLY else 0.01)


def test_what_depends_on_values_is_refused(tmp_path):
    import sambaflow.samba as samba

    config = hf.LongformerConfig(**TEXT, **NO_DROPOUT, attention_window=4)
    model = samba.from_torch_model(Named(hf.LongformerForSequenceClassification(config), "input_ids", "attention_mask", "labels"))
    given = [
        samba.from_torch_tensor(x, name=name)
        for name, x in (("ids", tokens()), ("mask", mask()), ("labels", torch.tensor([0, 1])))
    ]
    with pytest.raises(NotImplementedError, match=r"asks for the value of a tensor.*modeling_longformer.py:\d+"):
        samba.session.compile(model, given, inference=True, output_folder=str(tmp_path))
