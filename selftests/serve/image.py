# SPDX-License-Identifier: MIT
"""The OCI image: what it says it holds, twice the same, and a server out of nothing else."""
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile

import certs
from rlxd import BUILD, Server, Skip, main, test

dir = tempfile.TemporaryDirectory(prefix="rlxd-image-")
FILE = dir.name + "/image.tar"
ROOT = dir.name + "/root"


def make(out, **env):
    r = subprocess.run(["tools/image.sh", out], capture_output=True, text=True,
                       env=dict(os.environ, BUILD=BUILD, **env))
    assert r.returncode == 0, r.stderr
    return r.stdout


def members():
    with tarfile.open(FILE) as t:
        return {m.name.removeprefix("./"): t.extractfile(m).read() for m in t if m.isfile()}


def blob(files, d):
    """What a descriptor names, if it is that."""
    data = files["blobs/" + d["digest"].replace(":", "/")]
    assert d["size"] == len(data)
    assert d["digest"] == "sha256:" + hashlib.sha256(data).hexdigest()
    return data


def layer():
    files = members()
    index = json.loads(files["index.json"])
    manifest = json.loads(blob(files, index["manifests"][0]))
    return files, index, manifest, blob(files, manifest["layers"][0])


@test
def layout():
    """As the image specification has it, every hash and size looked at."""
    told = make(FILE)
    files, index, manifest, packed = layer()
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    oci = "application/vnd.oci.image."
    assert index["schemaVersion"] == 2 and index["mediaType"] == oci + "index.v1+json"
    assert index["manifests"][0]["mediaType"] == oci + "manifest.v1+json"
    assert index["manifests"][0]["digest"] in told
    assert manifest["mediaType"] == oci + "manifest.v1+json"
    assert manifest["config"]["mediaType"] == oci + "config.v1+json"
    assert [x["mediaType"] for x in manifest["layers"]] == [oci + "layer.v1.tar+gzip"]
    config = json.loads(blob(files, manifest["config"]))
    assert config["os"] == "linux" and config["architecture"] in ("amd64", "arm64")
    assert config["rootfs"]["diff_ids"] == [
        "sha256:" + hashlib.sha256(gzip.decompress(packed)).hexdigest()]
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["Entrypoint"] == ["/usr/sbin/rlxd"]
    # As older tools want it.
    (docker,) = json.loads(files["manifest.json"])
    assert docker["Config"] in files and all(x in files for x in docker["Layers"])
    assert set(f for f in files if f.startswith("blobs/")) == {
        "blobs/sha256/" + d["digest"][7:]
        for d in [index["manifests"][0], manifest["config"]] + manifest["layers"]}


@test
def twice_the_same():
    """Whatever the time, the umask, the zone and the locale."""
    def other(path, umask, **env):
        subprocess.run(["sh", "-c", "umask %03o && exec tools/image.sh %s" % (umask, path)],
                       check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, BUILD=BUILD, **env))
        with open(path, "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()
    with open(FILE, "rb") as f:
        want = hashlib.sha256(f.read()).hexdigest()
    again = dir.name + "/again.tar"
    assert other(again, 0o077, TZ="Asia/Tokyo", LC_ALL="C.UTF-8", HOME="/nonexistent") == want
    assert other(again, 0o000, SOURCE_DATE_EPOCH="86400") != want
    assert other(again, 0o022, SOURCE_DATE_EPOCH="86400") == other(
        again, 0o002, SOURCE_DATE_EPOCH="86400")


@test
def files():
    """Nobody's files, no devices, no programs that run as another user, and licences."""
    packed = layer()[3]
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed))) as t:
        all = t.getmembers()
    os.mkdir(ROOT)
    subprocess.run(["tar", "-xzpf", "-", "-C", ROOT], input=packed, check=True)
    assert len(set(m.mtime for m in all)) == 1
    for m in all:
        assert (m.uid, m.gid, m.uname, m.gname) == (0, 0, "", ""), m
        assert m.isfile() or m.isdir(), m
        assert m.mode in (0o755, 0o644) or m.name == "./tmp" and m.mode == 0o1777, (m, m.mode)
    names = [m.name for m in all]
    for lib in ("libssl.so.3", "libcrypto.so.3", "libc.so.6", "liburing.so.2", "libinih.so.1"):
        assert any(n.endswith("/" + lib) for n in names), lib
    for package in ("libc6", "liburing2", "libssl3", "libinih1", "rlxd"):
        assert any(n.startswith("./usr/share/doc/%s/" % package) for n in names), package
    # No shell and nothing else to run.
    assert [n for n in names if "/bin/" in n or "/sbin/" in n] == ["./usr/sbin/rlxd"]


# What a container has beside its files: an own /proc, /dev and no rights.
ENTER = """
mount -t proc proc "$0/proc" && mount -t tmpfs -o mode=755 dev "$0/dev" &&
for d in null urandom; do
	touch "$0/dev/$d" && mount --bind "/dev/$d" "$0/dev/$d" || exit
done
mkdir -m 1777 "$0/dev/shm" && mount -o remount,ro,bind "$0" 2>/dev/null
exec chroot --userspec=65532:65532 "$0" "$@"
"""


def inside(*args):
    if os.geteuid():
        raise Skip("not root: no file system of its own to enter")
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        raise Skip("no mount namespaces here")
    os.makedirs(ROOT + "/models", exist_ok=True)
    shutil.copy(BUILD + "/serve/vision.onnx", ROOT + "/models/vision.onnx")
    return ["unshare", "-m", "sh", "-c", ENTER, ROOT] + list(args)


@test
def serves_out_of_itself():
    with Server(args=inside("/usr/sbin/rlxd", "--model", "vision=/models/vision.onnx",
                            "--listen-insecure", "0.0.0.0:0")) as s:
        st, body = s.post("/v2/repository/index", {})
        assert st == 200 and body[0]["name"] == "vision", body
        assert s.get("/readyz")[0] == 200
        with open("/proc/%d/status" % s.proc.pid) as f:
            text = f.read()
        assert "Uid:\t65532\t65532" in text, text
        # Every file that it has mapped is of the image.
        with open("/proc/%d/maps" % s.proc.pid) as f:
            mapped = {ln.split(None, 5)[5].strip() for ln in f if "/" in ln}
        mapped = {p for p in mapped if p.startswith("/") and "memfd:" not in p}
        assert mapped and all(os.path.exists(ROOT + p.removeprefix(ROOT)) for p in mapped), mapped


@test
def its_configuration_is_good():
    r = subprocess.run(inside("/usr/sbin/rlxd", "--check"), capture_output=True, text=True)
    assert r.returncode == 0 and r.stdout.startswith("ok: 0 models"), r


@test
def speaks_tls():
    """OpenSSL is opened when a certificate is there: it is in the image too."""
    d = ROOT + "/etc/rlxd/"
    args = inside("/usr/sbin/rlxd", "--check")
    certs.ca("ca")
    certs.cert("server")
    with open(certs.DIR + "/secret", "w") as f:
        f.write("secret-0123456789")
    for name in ("server.pem", "server.key", "secret"):
        shutil.copy(certs.DIR + "/" + name, d + name)
        os.chown(d + name, 65532, 65532)
        os.chmod(d + name, 0o600)
    with open(d + "rlxd.conf", "w") as f:
        f.write("[server]\nlisten = tls:0.0.0.0:0\ntls_certificate = /etc/rlxd/server.pem\n"
                "tls_key = /etc/rlxd/server.key\n[key k]\nsecret_file = /etc/rlxd/secret\n")
    r = subprocess.run(args, capture_output=True, text=True)
    assert r.returncode == 0 and "1 keys" in r.stdout, r


main()
