"""Downloads a model's config, tokenizer and safetensors from a hub with Hugging Face's routes.

usage: from_hub.py ORG/NAME REVISION OUTDIR

  GET {endpoint}/api/models/{id}/revision/{revision}?blobs=true   the commit and its files with sizes and checksums
  GET {endpoint}/{id}/resolve/{commit}/{file}                     one file, often by a redirect to another host

Files that are there with the right checksum are kept, a cut one (.part) is continued. HF_ENDPOINT, HF_TOKEN.
"""

import errno
import hashlib
import json
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

ENDPOINT = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
TOKEN = os.environ.get("HF_TOKEN", "")
WANTED = re.compile(
    r"^(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|chat_template)\.json$"
    r"|^chat_template\.jinja$|^[^/]+\.safetensors(\.index\.json)?$|^LICENSE[^/]*$"
)
CHUNK = 1 << 20
TRIES = 5


class Failed(Exception):
    pass


class KeepTokenHome(urllib.request.HTTPRedirectHandler):
    """The token is for the hub, not for the host that it redirects to."""

    def redirect_request(self, request, fp, code, msg, headers, newurl):
        new = super().redirect_request(request, fp, code, msg, headers, newurl)
        if new and urllib.parse.urlsplit(newurl).netloc != urllib.parse.urlsplit(request.full_url).netloc:
            new.headers.pop("Authorization", None)
        return new


OPENER = urllib.request.build_opener(KeepTokenHome)


def get(url, start=0):
    request = urllib.request.Request(url, headers={"User-Agent": "minisgl"})
    if TOKEN:
        request.add_header("Authorization", f"Bearer {TOKEN}")
    if start:
        request.add_header("Range", f"bytes={start}-")
    return OPENER.open(request, timeout=30)


def explain(error, what):
    if isinstance(error, urllib.error.HTTPError):
        hint = {
            401: "not allowed: it may be gated or private, set HF_TOKEN",
            403: "not allowed: accept its licence on the hub, then set HF_TOKEN",
            404: "not found",
        }.get(error.code, f"HTTP {error.code}")
        return f"{what}: {hint}"
    reason = getattr(error, "reason", error)
    hint = " (HF_ENDPOINT names another hub)" if isinstance(error, urllib.error.URLError) else ""
    return f"{what}, from {ENDPOINT}: {getattr(reason, 'strerror', None) or reason}{hint}"


def is_of_disk(error):
    """Whether it says something of the folder that is written to, and nothing of the hub."""
    if isinstance(error, urllib.error.URLError):
        return False
    return error.filename is not None or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def list_files(model, revision):
    url = f"{ENDPOINT}/api/models/{model}/revision/{urllib.parse.quote(revision, safe='')}?blobs=true"
    try:
        with get(url) as answer:
            info = json.load(answer)
        return info["sha"], [f for f in info["siblings"] if WANTED.match(f["rfilename"])]
    except (urllib.error.URLError, OSError) as error:
        raise Failed(explain(error, f"{model} at {revision}")) from error
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"{ENDPOINT}: the answer is not a hub's: {error}") from error


def checksum(path, entry):
    """Whether the file is what the hub says: SHA-256 of large files, git's blob hash of small ones."""
    lfs = entry.get("lfs")
    if lfs:
        digest, expected = hashlib.sha256(), lfs["sha256"]
    elif entry.get("blobId"):
        digest, expected = hashlib.sha1(b"blob %d\0" % os.path.getsize(path)), entry["blobId"]
    else:
        return True
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest() == expected


class Progress:
    def __init__(self, total):
        self.total, self.done, self.began, self.shown = total, 0, time.monotonic(), 0.0
        self.terminal = sys.stderr.isatty()

    def add(self, size, name):
        self.done += size
        now = time.monotonic()
        if self.terminal and (now - self.shown > 0.1 or self.done >= self.total):
            self.shown = now
            share = self.done / max(self.total, 1)
            bar = "#" * int(30 * share)
            rate = self.done / max(now - self.began, 1e-3) / 1e6
            sys.stderr.write(f"\r\033[K[{bar:<30}] {100 * share:3.0f} %  {rate:.1f} MB/s  {name}")
            sys.stderr.flush()

    def end(self):
        if self.terminal and self.shown:
            sys.stderr.write("\n")


def fetch(url, part, size, progress, name):
    """Appends to part what is missing. A server that ignores Range makes it start again."""
    start = os.path.getsize(part) if os.path.exists(part) else 0
    if size is not None and start >= size:
        if start == size:
            return
        os.remove(part)
        start = 0
    with get(url, start) as answer, open(part, "ab") as file:
        if start and answer.status != 206:
            file.truncate(0)
            progress.done -= start
        while chunk := answer.read(CHUNK):
            file.write(chunk)
            progress.add(len(chunk), name)
    if size is not None and os.path.getsize(part) < size:
        raise OSError("connection closed early")


def download(model, commit, entry, outdir, progress):
    """False: it was there."""
    name, size = entry["rfilename"], entry.get("size")
    path = os.path.join(outdir, name)
    part = path + ".part"
    if os.path.exists(path) and checksum(path, entry):
        progress.add(size or 0, name)
        return False
    if os.path.exists(part):
        progress.done += os.path.getsize(part)
    url = f"{ENDPOINT}/{model}/resolve/{commit}/{urllib.parse.quote(name)}"
    for attempt in range(1, TRIES + 1):
        try:
            fetch(url, part, size, progress, name)
            if checksum(part, entry):
                os.replace(part, path)
                return True
            progress.done -= os.path.getsize(part)
            os.remove(part)
            raise OSError("checksum does not match")
        except (urllib.error.URLError, OSError) as error:
            if is_of_disk(error):
                raise Failed(f"{part}: {error.strerror}") from error
            final = isinstance(error, urllib.error.HTTPError) and error.code in (401, 403, 404)
            if final or attempt == TRIES:
                raise Failed(explain(error, name)) from error
            time.sleep(min(2**attempt, 10) * float(os.environ.get("MINISGL_RETRY_SCALE", "1")))


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    model, revision, outdir = sys.argv[1:]
    progress = Progress(0)
    try:
        commit, files = list_files(model, revision)
        names = {f["rfilename"] for f in files}
        if "config.json" not in names:
            raise Failed(f"{model}: has no config.json")
        if not any(n.endswith(".safetensors") for n in names):
            raise Failed(f"{model}: has no safetensors files")
        # A folder with shards and one whole file holds the same weights twice: the index decides.
        if "model.safetensors.index.json" in names:
            files = [f for f in files if f["rfilename"] != "consolidated.safetensors"]
        os.makedirs(outdir, exist_ok=True)
        progress.total = sum(f.get("size") or 0 for f in files)
        fetched = [download(model, commit, entry, outdir, progress) for entry in files]
        progress.end()
        how = "" if any(fetched) else ", already there"
        print(f"{outdir}: {len(files)} files at {commit[:12]}{how}", file=sys.stderr)
    except (Failed, OSError) as error:
        progress.end()
        print(f"get_model: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        progress.end()
        print("get_model: stopped; the same command goes on from here", file=sys.stderr)
        sys.exit(1)


main()
