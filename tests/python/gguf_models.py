# SPDX-License-Identifier: Apache-2.0
"""Models and tokenizers as GGUF files by the package `gguf`: its writer, its names of tensors, its quantization. What the files'
architectures are by convention beyond that is written down here a second time, from what readers of such files do with them: the
order of rotary rows in Llama, 1 + weight in Gemma's norms, joint projections of Falcon and GPT-NeoX by kind, (out, in) for
GPT-2."""

import numpy
import torch

import gguf

NAMES = {"mistral": "llama", "gemma3_text": "gemma3", "gpt_neox": "gptneox"}


def turned(value, heads):
    """Rows of a head from halves to pairs."""
    return value.reshape(heads, 2, value.shape[0] // heads // 2, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)


def by_kind(value, groups, each):
    """Rows of a joint projection from groups of (queries, key, value) to all queries, all keys, all values."""
    parts = value.reshape(groups, each + 2, -1, *value.shape[1:])
    kinds = [parts[:, :each], parts[:, each : each + 1], parts[:, each + 1 :]]
    return numpy.concatenate([k.reshape(-1, *value.shape[1:]) for k in kinds])


def get(config, *names, otherwise=None):
    for name in names:
        if getattr(config, name, None) is not None:
            return getattr(config, name)
    return otherwise


def groups_of(config):
    if config.model_type == "falcon":
        if config.new_decoder_architecture:
            return config.num_kv_heads
        return 1 if config.multi_query else config.num_attention_heads
    return get(config, "num_key_value_heads", otherwise=get(config, "num_attention_heads"))


def tensors(model):
    """(name in the file, value), by the package's table of names."""
    config, kind = model.config, model.config.model_type
    arch = next(a for a, name in gguf.MODEL_ARCH_NAMES.items() if name == NAMES.get(kind, kind))
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    heads, groups = config.num_attention_heads, groups_of(config)
    state, split = model.state_dict(), {}
    for name, tensor in state.items():
        value = tensor.float().numpy()
        if name.endswith((".attn.bias", ".attn.masked_bias", "rotary_emb.inv_freq")):
            continue
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if ".norms." in name:  # a norm for each head: rows of one tensor
            split.setdefault(name.split(".norms.")[0], []).append(value)
            continue
        name = name.replace("lm_head.", "embed_out.") if kind == "gpt_neox" else name
        if kind in ("llama", "mistral") and (".q_proj." in name or ".k_proj." in name):
            value = turned(value, heads if ".q_proj." in name else groups)
        if "query_key_value" in name:
            value = by_kind(value, groups, heads // groups)
        if kind == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            value = value.T
        if kind.startswith("gemma") and "norm" in name:
            value = value + 1
        if kind == "bloom":  # whose names the package has without it
            name = name.removeprefix("transformer.")
        yield names.get_name(name, try_suffixes=(".weight", ".bias")), value
    for name, rows in split.items():
        yield names.get_name(name) + ".weight", numpy.stack(rows)


def rope(writer, config):
    parameters = get(config, "rope_parameters", otherwise={})
    parameters = parameters.get("full_attention", parameters)
    kind = parameters.get("rope_type", "default")
    writer.add_rope_freq_base(parameters.get("rope_theta", 10000.0))
    dims = get(config, "head_dim", otherwise=config.hidden_size // config.num_attention_heads)
    dims = int(dims * parameters.get("partial_rotary_factor", 1.0))
    writer.add_rope_dimension_count(dims)
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(parameters["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_orig_ctx_len(parameters["original_max_position_embeddings"])
    if kind == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(parameters, dims))
    if kind == "longrope":
        for which in ("long", "short"):
            writer.add_tensor(f"rope_factors_{which}.weight", numpy.float32(parameters[f"{which}_factor"]))
        writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)
        scale = config.max_position_embeddings / config.original_max_position_embeddings
        grown = numpy.sqrt(1 + numpy.log(scale) / numpy.log(config.original_max_position_embeddings))
        writer.add_rope_scaling_attn_factors(float(grown) if scale > 1 else 1.0)


def llama3_factors(parameters, dims):
    """By how much each pair turns slower, from the definition of Llama 3's scaling."""
    steps = parameters["rope_theta"] ** (-numpy.arange(0, dims, 2) / dims)
    waves, original = 2 * numpy.pi / steps, parameters["original_max_position_embeddings"]
    low, high, factor = parameters["low_freq_factor"], parameters["high_freq_factor"], parameters["factor"]
    smooth = (original / waves - low) / (high - low)
    between = 1 / ((1 - smooth) / factor + smooth)
    return numpy.where(waves > original / low, factor, numpy.where(waves < original / high, 1.0, between)).astype("float32")


def metadata(writer, config):
    kind, heads = config.model_type, config.num_attention_heads
    writer.add_context_length(get(config, "max_position_embeddings", "n_positions", otherwise=2048))
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    inner = get(config, "intermediate_size", "n_inner", "ffn_hidden_size", otherwise=4 * config.hidden_size)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    if kind not in ("gpt2", "gpt_neox", "bloom"):
        writer.add_head_count_kv(groups_of(config))
    if get(config, "head_dim") not in (None, config.hidden_size // heads):
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    if get(config, "rms_norm_eps") and kind != "stablelm":
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    else:
        writer.add_layer_norm_eps(get(config, "layer_norm_eps", "layer_norm_epsilon"))
    if kind not in ("gpt2", "bloom"):
        rope(writer, config)
    if kind in ("gemma2", "gemma3_text", "mistral", "phi3") and config.sliding_window:
        writer.add_sliding_window(config.sliding_window)
    if kind == "gemma2" and config.attn_logit_softcapping:
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
    if kind.startswith("gemma") and get(config, "final_logit_softcapping"):
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if kind in ("stablelm", "gpt_neox"):
        writer.add_parallel_residual(config.use_parallel_residual)
    if kind == "falcon":
        writer.add_tensor_data_layout("jploski")


def begin(path, config):
    return gguf.GGUFWriter(path, NAMES.get(config.model_type, config.model_type))


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tensors(writer, model, kind=gguf.GGMLQuantizationType.F32):
    """Matrices of the kind, vectors as float32; the model gets what is left of its values."""
    for name, value in tensors(model):
        value = numpy.ascontiguousarray(value, dtype="float32")
        if value.ndim == 1 or kind == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(name, value)
        else:
            writer.add_tensor(name, gguf.quants.quantize(value, kind), raw_dtype=kind)


def write(path, model, kind=gguf.GGMLQuantizationType.F32, extra=None):
    writer = begin(path, model.config)
    metadata(writer, model.config)
    add_tensors(writer, model, kind)
    if extra:
        extra(writer)
    finish(writer)


def quantized(model, kind):
    """The model with the values that its matrices have in a file of the kind; a table of positions stays as it is."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 and "wpe" not in name:
                value = parameter.float().numpy()
                transposed = model.config.model_type == "gpt2" and parameter.shape[0] != model.config.vocab_size
                value = value.T if transposed else value
                value = gguf.quants.dequantize(gguf.quants.quantize(numpy.ascontiguousarray(value), kind), kind)
                parameter.copy_(torch.from_numpy(numpy.ascontiguousarray(value.T if transposed else value)))
    return model


# ---- tokenizers ----

KINDS = gguf.TokenType


def add_words(writer, tokenizer, kinds):
    """Tokens and their types; a hole in the ids is an unused token."""
    vocab = {i: token for token, i in tokenizer.get_vocab(with_added_tokens=True).items()}
    size = max(vocab) + 1
    types = [kinds(i, vocab[i]) if i in vocab else KINDS.UNUSED for i in range(size)]
    writer.add_token_list([vocab.get(i, f"[PAD{i}]") for i in range(size)])
    writer.add_token_types(types)
    return size


def add_byte_level(writer, tokenizer, pre, merges):
    added = tokenizer.get_added_tokens_decoder()
    writer.add_tokenizer_model("gpt2")
    if pre:
        writer.add_tokenizer_pre(pre)

    def kind(i, _):
        return KINDS.NORMAL if i not in added else KINDS.CONTROL if added[i].special else KINDS.USER_DEFINED

    add_words(writer, tokenizer, kind)
    writer.add_token_merges([" ".join(pair) for pair in merges])


def add_sentencepiece(writer, model):
    """Of a sentencepiece.SentencePieceProcessor."""
    writer.add_tokenizer_model("llama")
    types = []
    for i in range(model.get_piece_size()):
        kind = KINDS.NORMAL
        for is_kind, other in (
            (model.is_unknown, KINDS.UNKNOWN),
            (model.is_control, KINDS.CONTROL),
            (model.is_unused, KINDS.UNUSED),
            (model.is_byte, KINDS.BYTE),
        ):
            kind = other if is_kind(i) else kind
        types.append(kind)
    writer.add_token_list([model.id_to_piece(i) for i in range(model.get_piece_size())])
    writer.add_token_scores([model.get_score(i) for i in range(model.get_piece_size())])
    writer.add_token_types(types)
    writer.add_bos_token_id(model.bos_id())
    writer.add_eos_token_id(model.eos_id())
    writer.add_unk_token_id(model.unk_id())
