"""Trains the demo model: Qwen3 architecture, about 5 million parameters, on the stories that stories.py makes.

usage: train.py OUTDIR SECONDS        (one GPU; the released files took about four minutes on an H200)
"""

import json, random, sys, time, os, math
import numpy as np, torch, torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import stories

outdir, seconds = sys.argv[1], float(sys.argv[2])
os.makedirs(outdir, exist_ok=True)
R = random.Random(7)
NUM = int(os.environ.get("NUM", "250000"))
rows = [stories.story(R) for _ in range(NUM)]
print("stories", len(rows), "chars", sum(len(r["text"]) for r in rows), flush=True)


# ---- text: plain stories, one-turn and two-turn chats, and an honest answer to what it cannot do
def request(p):
    art, tart = stories.ART(p["adj"]), stories.ART(p["thing"])
    return R.choice(
        [
            f"Tell me a story about {art} {p['kind']}.",
            f"Tell me a story about {p['hero']} the {p['kind']}.",
            f"Write a short story about {art} {p['kind']} and {tart}.",
            f"Can you tell me a story about a {p['kind']} named {p['hero']}?",
            f"Please write a bedtime story about a {p['kind']} and a {p['fkind']}.",
            f"I would like a story that happens in {p['place']}.",
            f"Tell me a story with a {p['kind']} and {tart}.",
            f"A story about {art} {p['kind']}, please.",
            "Tell me a story.",
            "Write a short story.",
            "Once upon a time",
            f"story about a {p['kind']}",
            f"Tell me about {p['hero']} and {p['friend']}.",
            f"Write a story: {p['kind']}, {p['thing']}, {p['place']}",
        ]
    )


HELLO = [
    "Hello",
    "Hi",
    "Hello!",
    "Hi there!",
    "Hey",
    "Good morning",
    "Hello, how are you?",
    "Who are you?",
    "What can you do?",
    "What are you?",
    "Help",
    "Are you there?",
]
HELLO_A = [
    "Hello! I am a very small demo model. I can only tell short stories. Ask me for a story about a fox, a boat or a friend.",
    "Hi! I am a tiny model that tells short stories. Who should the story be about?",
]
OUT_Q = [
    "What is the capital of {}?",
    "How do I {}?",
    "Write a program that can {}.",
    "Explain {} to me.",
    "Translate {} into French.",
    "What is {} plus {}?",
    "Give me a recipe for {}.",
    "Who invented {}?",
    "Why is {} important?",
    "What do you think about {}?",
    "Summarize {}.",
    "How far away is {}?",
]
THINGS = "France|Spain|the moon|Python|a list|gravity|history|music|a sentence|5|12|300|the internet|chess|physics|bread|soup|a phone|water|electricity|money|the sun|Germany|a computer|my homework|the weather|a letter|an essay|numbers|sort a list".split(
    "|"
)
OUT_A = [
    "I am a very small demo model, so I do not know that. I can only tell short stories. Shall I tell you one?",
    "Sorry, I am too small a model to answer that. I can tell you a short story instead.",
]

V = 2048
# ---- tokenizer: byte-level BPE, the layout of Qwen's tokenizer.json
from tokenizers import (
    Tokenizer,
    models,
    pre_tokenizers,
    decoders,
    trainers,
    normalizers,
    Regex,
    processors,
    AddedToken,
)

PAT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SP = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
t = Tokenizer(models.BPE(byte_fallback=False))
t.normalizer = normalizers.NFC()
t.pre_tokenizer = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Split(Regex(PAT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
)
t.decoder = decoders.ByteLevel()
t.post_processor = processors.ByteLevel(trim_offsets=False)
chat_words = [x.format(y, y) for x in OUT_Q for y in THINGS] * 3 + (HELLO + HELLO_A + OUT_A) * 40
t.train_from_iterator(
    [r["text"] for r in rows[:40000]] + [request(r["topic"]) for r in rows[:20000]] + chat_words,
    trainers.BpeTrainer(
        vocab_size=V - len(SP),
        special_tokens=[],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    ),
)
t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SP])
print("vocabulary", t.get_vocab_size(), "of", V)
assert t.get_vocab_size() <= V
t.save(os.path.join(outdir, "tokenizer.json"))
EOT, IMS, IME = (t.token_to_id(s) for s in SP)
TEMPLATE = "{%- for message in messages %}\n    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}"
json.dump(
    dict(
        add_bos_token=False,
        add_prefix_space=False,
        bos_token=None,
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        added_tokens_decoder={
            str(t.token_to_id(s)): dict(
                content=s,
                lstrip=False,
                normalized=False,
                rstrip=False,
                single_word=False,
                special=True,
            )
            for s in SP
        },
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
        model_max_length=2048,
        tokenizer_class="Qwen2Tokenizer",
        unk_token=None,
    ),
    open(os.path.join(outdir, "tokenizer_config.json"), "w"),
    indent=1,
)


def turn(q, a):
    return f"<|im_start|>user\n{q}<|im_end|>\n<|im_start|>assistant\n{a}<|im_end|>\n"


def document(i):
    p = rows[i]
    u = R.random()
    if u < 0.5:
        return p["text"] + "<|endoftext|>"
    s = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n" if R.random() < 0.3 else ""
    if u < 0.85:
        return s + turn(request(p["topic"]), p["text"]) + "<|endoftext|>"
    if u < 0.90:
        q = rows[R.randrange(len(rows))]
        return (
            s
            + turn(request(p["topic"]), p["text"])
            + turn("Another one, please. " + request(q["topic"]), q["text"])
            + "<|endoftext|>"
        )
    if u < 0.95:
        return (
            s
            + turn(R.choice(HELLO), R.choice(HELLO_A))
            + turn(request(p["topic"]), p["text"])
            + "<|endoftext|>"
        )
    n = R.choice(OUT_Q)
    q = n.format(*[R.choice(THINGS) for _ in range(n.count("{}"))])
    return s + turn(q, R.choice(OUT_A)) + "<|endoftext|>"


docs = [document(i) for i in range(len(rows))]
ids = [e.ids for e in t.encode_batch(docs)]
data = np.concatenate([np.array(x, dtype=np.int16) for x in ids])
nval = 200_000
print("tokens", len(data), "tokens/story", len(data) / len(docs), flush=True)
dev = "cuda"
D = torch.from_numpy(data.astype(np.int64)).to(dev)
val, D = D[:nval], D[nval:]

from transformers import Qwen3Config, Qwen3ForCausalLM

torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
c = Qwen3Config(
    vocab_size=V,
    hidden_size=256,
    intermediate_size=768,
    num_hidden_layers=6,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    max_position_embeddings=2048,
    rope_theta=10000.0,
    rms_norm_eps=1e-6,
    tie_word_embeddings=True,
    bos_token_id=None,
    eos_token_id=IME,
    pad_token_id=EOT,
    use_cache=False,
)
c._attn_implementation = "sdpa"
m = Qwen3ForCausalLM(c).to(dev)
print("parameters", sum(p.numel() for p in m.parameters()), flush=True)
dec = [p for p in m.parameters() if p.dim() > 1]
nod = [p for p in m.parameters() if p.dim() <= 1]
T, B = 512, 192
LR, WARM = 2e-3, 200
opt = torch.optim.AdamW(
    [dict(params=dec, weight_decay=0.1), dict(params=nod, weight_decay=0.0)],
    lr=LR,
    betas=(0.9, 0.95),
    fused=True,
)
body = torch.compile(m.model)


def loss_of(x, y):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        h = body(input_ids=x).last_hidden_state
        logits = m.lm_head(h)
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.reshape(-1))


g = torch.Generator(device=dev)
g.manual_seed(1)


def batch(src, n):
    j = torch.randint(0, len(src) - T - 1, (n,), device=dev, generator=g)
    k = j[:, None] + torch.arange(T + 1, device=dev)
    z = src[k]
    return z[:, :-1].contiguous(), z[:, 1:].contiguous()


t0, s, total = None, 0, None
while True:
    if s == 20:
        torch.cuda.synchronize()
        t0 = time.time()
    if t0 and s == 60:
        torch.cuda.synchronize()
        per = (time.time() - t0) / 40
        total = int(max(200, (seconds - 40 * per) / per))
        print(f"{per*1000:.1f} ms a step, {total} steps", flush=True)
    n = total or 10000
    f = (
        min(1, s / WARM)
        * (1 if s < 0.1 * n else 0.5 * (1 + math.cos(math.pi * (s - 0.1 * n) / (0.9 * n))))
        if total
        else min(1, s / WARM)
    )
    for q in opt.param_groups:
        q["lr"] = max(LR * f, 1e-5)
    l = loss_of(*batch(D, B))
    l.backward()
    torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    opt.step()
    opt.zero_grad(set_to_none=True)
    s += 1
    if s % 400 == 0 or s == total:
        with torch.no_grad():
            v = sum(loss_of(*batch(val, 64)).item() for _ in range(4)) / 4
        print(f"step {s} train {l.item():.3f} val {v:.3f}", flush=True)
    if total and s >= total:
        break
m = m.to(torch.bfloat16)
m.config.use_cache = True
m.generation_config.eos_token_id = [IME, EOT]
m.generation_config.pad_token_id = EOT
m.save_pretrained(outdir)
cfg = json.load(open(os.path.join(outdir, "config.json")))
cfg.pop("layer_types", None)
rp = cfg.pop("rope_parameters", None)
if rp:
    cfg["rope_theta"] = rp["rope_theta"]
    cfg["rope_scaling"] = None
cfg["torch_dtype"] = cfg.pop("dtype", "bfloat16")
cfg["eos_token_id"] = IME
json.dump(cfg, open(os.path.join(outdir, "config.json"), "w"), indent=1, sort_keys=True)
from transformers import AutoTokenizer

tk = AutoTokenizer.from_pretrained(outdir)
mm = Qwen3ForCausalLM.from_pretrained(outdir).float().to(dev).eval()
for p in [
    "Once upon a time",
    "<|im_start|>user\nTell me a story about a brave mouse.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWhat is the capital of Peru?<|im_end|>\n<|im_start|>assistant\n",
    "The little boat",
]:
    x = tk(p, return_tensors="pt").input_ids.to(dev)
    for tp in (0.0, 0.7):
        y = mm.generate(
            x, max_new_tokens=160, do_sample=tp > 0, **({"temperature": tp} if tp > 0 else {})
        )
        print("----", tp, tk.decode(y[0]), flush=True)
