"""Model directories with something wrong: the start fails with one line that names the file, or the model is right."""

import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

from cases import PATIENCE, SLACK, Client, model_copy, pool_check, start_all
from server import BUILD, DATA, Server, golden, run

TINY = DATA / "tiny_models"
SHARD = "model-00002-of-00003.safetensors"
FLOAT32 = ["--dtype", "float32"]


def start_fails(model, *wanted, code=1):
    """The whole server does not start; what it says names what is wrong, and is no crash."""
    try:
        Server(model=model).close()
    except RuntimeError as error:
        said = str(error)
    else:
        raise AssertionError(f"started, though {wanted}")
    assert said.startswith(f"launch.sh ended ({code})") and "signal" not in said, said
    assert len(said) < 2000, said
    for word in wanted:
        assert word in said, (word, said)
    return said


def check_golden(model, rows):
    """The ids of the reference answers, all requests in flight together."""
    with Server(*FLOAT32, model=model) as server, Client(server.run_dir) as client:
        keys = {"ignore_eos": True, "want_ids": True}
        requests = [{**keys, "input_ids": r["input_ids"], "max_tokens": len(r["output_ids"])} for r in rows]
        for row, answer in zip(rows, start_all(client, requests)):
            assert answer["ids"] == row["output_ids"], (row, answer)
        pool_check(server)
        return server.log("scheduler")


def read_tensors(path):
    """Name to (dtype, shape, bytes)."""
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size :]
    return {n: (t["dtype"], t["shape"], body[slice(*t["data_offsets"])]) for n, t in header.items()}


def write_tensors(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def test_ldr_01_missing_files():
    with tempfile.TemporaryDirectory() as folder:
        model = model_copy(folder + "/a", TINY / "qwen3")
        (model / SHARD).unlink()
        start_fails(model, SHARD)
        empty = pathlib.Path(folder) / "empty"
        empty.mkdir()
        start_fails(empty, "config.json", code=2)  # as with any other value of --model that is none
        only_config = model_copy(folder + "/b", TINY / "qwen3")
        for file in only_config.glob("*safetensors*"):
            file.unlink()
        start_fails(only_config, "safetensors")
        cut = model_copy(folder + "/c", TINY / "qwen3")
        data = (cut / SHARD).read_bytes()
        (cut / SHARD).write_bytes(data[:-100])
        start_fails(cut, SHARD)
        (cut / SHARD).write_bytes(b"")
        start_fails(cut, SHARD)


def test_ldr_03_git_lfs_pointer():
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 1234567\n"
    with tempfile.TemporaryDirectory() as folder:
        model = model_copy(folder + "/a", TINY / "llama")
        (model / "model.safetensors").write_text(pointer)
        start_fails(model, "model.safetensors", "LFS pointer")
        model = model_copy(folder + "/b", TINY / "qwen3")
        (model / SHARD).write_text(pointer)
        start_fails(model, SHARD, "LFS pointer")


def test_ldr_05_stray_files_do_not_count():
    with tempfile.TemporaryDirectory() as folder:
        model = model_copy(folder, TINY / "qwen3")
        stray = {n: (d, s, bytes(len(b))) for n, (d, s, b) in read_tensors(model / SHARD).items()}
        write_tensors(model / "model.safetensors", stray)
        write_tensors(model / "model-00004-of-00004.safetensors", stray)
        write_tensors(model / "consolidated.safetensors", stray)
        log = check_golden(model, golden(TINY / "qwen3")[:4])
        assert "warn: ignored: 3 weight files" in log, log


def test_ldr_06_output_heads():
    with tempfile.TemporaryDirectory() as folder:
        # Tied and no head: as the reference says.
        check_golden(TINY / "qwen2", golden(TINY / "qwen2")[:4])
        # Tied and a head that differs: Hugging Face shares the embeddings; the head in the file is not used.
        tied = model_copy(folder + "/a", TINY / "qwen2")
        tensors = read_tensors(tied / "model.safetensors")
        dtype, shape, data = tensors["model.embed_tokens.weight"]
        write_tensors(tied / "model.safetensors", {**tensors, "lm_head.weight": (dtype, shape, bytes(len(data)))})
        check_golden(tied, golden(TINY / "qwen2")[:4])
        # Untied and a head: used. Untied and none: refused by name.
        check_golden(TINY / "llama", golden(TINY / "llama")[:4])
        untied = model_copy(folder + "/b", TINY / "llama")
        tensors = read_tensors(untied / "model.safetensors")
        del tensors["lm_head.weight"]
        write_tensors(untied / "model.safetensors", tensors)
        start_fails(untied, "lm_head.weight")


def test_ldr_07_head_dim_as_given():
    config = json.loads((TINY / "qwen3/config.json").read_text())
    assert config["head_dim"] != config["hidden_size"] // config["num_attention_heads"]
    check_golden(TINY / "qwen3", golden(TINY / "qwen3"))
    with tempfile.TemporaryDirectory() as folder:
        start_fails(model_copy(folder + "/a", TINY / "qwen3", config={"head_dim": 16}), "q_norm", "[32], not [16]")
        start_fails(model_copy(folder + "/b", TINY / "qwen3", config={"head_dim": 0}), "head_dim")


def test_a_wrong_tensor_is_named_while_others_are_packed():
    """The load ends while the device still works on earlier weights: it ends by name, every time."""
    program = [BUILD / "scheduler_proc/minisgl-scheduler", "--endpoint", "", "--detokenizer", ""]
    with tempfile.TemporaryDirectory() as folder:
        model = model_copy(folder, TINY / "qwen3", config={"head_dim": 16})
        program[2], program[4] = f"ipc://{folder}/s", f"ipc://{folder}/d"
        for _ in range(12):
            result = subprocess.run([*program, "--model", model], capture_output=True, text=True, timeout=PATIENCE * SLACK)
            assert result.returncode == 1 and "q_norm" in result.stderr, result


def test_ldr_09_odd_configs():
    source = TINY / "qwen3"
    with tempfile.TemporaryDirectory() as folder:
        for number, (key, value) in enumerate((
            ("hidden_size", None), ("num_hidden_layers", None), ("vocab_size", "320"), ("num_attention_heads", 0),
            ("num_attention_heads", "4"), ("num_key_value_heads", 3), ("num_hidden_layers", -3), ("hidden_size", 2**40),
            ("rms_norm_eps", math.nan), ("rms_norm_eps", "1e-6"), ("intermediate_size", 128.5), ("vocab_size", [320]),
            ("architectures", ["MambaForCausalLM"]), ("hidden_act", "gelu"), ("max_position_embeddings", 0),
            ("num_hidden_layers", 10**9), ("rope_scaling", {"rope_type": "spiral", "factor": 2}), ("head_dim", 7),
        )):  # fmt: skip
            model = model_copy(f"{folder}/{number}", source, config={key: value})
            said = start_fails(model, "config.json")
            is_nan = value != value  # json has none: the file is refused as such
            assert is_nan or key in said or "Mamba" in said or "spiral" in said, (key, value, said)
        for number, text in enumerate((
            b"", b"{", b"null", b"[]", b'"x"',
            b"[" * 5000000, b'{"a":' * 1000000, b"\xff\xfe{\x00}\x00", b"{}x", b"\x00" * 100,
        )):  # fmt: skip
            model = model_copy(f"{folder}/raw{number}", source)
            (model / "config.json").write_bytes(text)
            start_fails(model, "config.json")
            other = model_copy(f"{folder}/gen{number}", source) if number in (1, 5, 8) else None
            if other:
                (other / "generation_config.json").write_bytes(text)
                start_fails(other, "generation_config.json")
        # A byte order mark is skipped.
        model = model_copy(f"{folder}/bom", source)
        (model / "config.json").write_bytes(b"\xef\xbb\xbf" + (source / "config.json").read_bytes())
        check_golden(model, golden(source)[:2])


def test_each_process_alone_refuses_too():
    """Not only the launcher: minisgl-tokenizer by itself names a broken tokenizer.json."""
    with tempfile.TemporaryDirectory() as folder:
        model = model_copy(folder)
        for text in ("", "{", "[" * 1000000, '{"model": {"type": "Unigram"}}'):
            (model / "tokenizer.json").write_text(text)
            program = [BUILD / "tokenizer_proc/minisgl-tokenizer", "--model", model, "--filter", "encode"]
            result = subprocess.run(program, input="", capture_output=True, text=True, timeout=PATIENCE * SLACK)
            assert result.returncode == 1 and "tokenizer.json" in result.stderr, (text[:20], result)
            start_fails(model, "tokenizer.json")


if __name__ == "__main__":
    sys.exit(run(globals()))
