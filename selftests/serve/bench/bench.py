# SPDX-License-Identifier: MIT
"""
HTTP against the bare run, a raw echo and a server around ONNX Runtime, in turns.

One connection: the median of /infer minus the bare run and minus an echo of the
same size is what the server costs. They are taken close to one another, in slices of a
twentieth of a second, and the median of the slices' differences stands: a run is a hundred
times longer than what is looked for and drifts by more than that, and the least of all
would set an echo that found the CPUs awake against a run that left them in deep sleep.
Saturation: rows a second against bare batches. Equal load: the same rate for both
servers, times from when a request was due. There the best of all rounds stands for each,
as other work on the machine only adds. A model of some microseconds shows the server's
cost where MiniLM's run hides it.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import urllib.request

BUILD = os.environ.get("BUILD", "build")
RLX, RLXD = BUILD + "/bin/rlx", BUILD + "/bin/rlxd"
HERE = BUILD + "/bench-serve/"
MODEL = BUILD + "/models/minilm"
SEQ = int(os.environ.get("RLX_BENCH_SEQ", "32"))
SECONDS = os.environ.get("RLX_BENCH_SECONDS", "0.5")
ROUNDS = int(os.environ.get("RLX_BENCH_ROUNDS", "15"))
SLICES = 10     # of a round, for one connection
CONNS = ("--connections", "32")
SECRET = "secret-of-the-benchmark"
THREADS = os.environ.get("RLX_BENCH_THREADS", str(len(os.sched_getaffinity(0))))


def goal(what, met):
    print("  goal: %s: %s" % (what, "met" if met else "MISSED"))


def start(*cmd):
    """A server that prints its port."""
    p = subprocess.Popen(cmd, stdout=subprocess.PIPE, text=True)
    return p, p.stdout.readline().strip()


def start_rlxd(conf):
    p = subprocess.Popen([RLXD, "--config", conf], stderr=subprocess.PIPE, text=True)
    port = None
    for line in p.stderr:
        if "event=listening" in line:
            port = line.strip().rsplit(":", 1)[1]
        if "event=ready" in line:
            return p, port
    sys.exit("rlxd did not start")


def load(port, body, *args, **how):
    return ask("--to", "127.0.0.1:" + port, "--body", body, *args, **how)


def one(port, body, *args):
    """The median of a slice, one request behind the other, in microseconds."""
    r = load(port, body, *args, seconds=float(SECONDS) / SLICES, warm_up=0.05)
    return r["from_when_sent"]["p50_us"]


def most(port, body, *args):
    """
    Requests a second of 32 connections: all of them, from the first request to the last
    reply. Behind a warm-up those it had begun would not count, but take time all the same.
    """
    return load(port, body, *args, *CONNS, warm_up=0)["requests"]["per_second"]


def ask(*args, seconds=float(SECONDS), warm_up=0.1):
    for seconds in (seconds, 4, 30):
        out = subprocess.run([RLX, "load", "--json", "--seconds", str(seconds), "--warm-up",
                              str(warm_up)] + list(args), stdout=subprocess.PIPE, text=True)
        r = json.loads(out.stdout)
        q = r["requests"]
        if q["bad_status"] or q["differing"] or q["broken"]:
            sys.exit("a request failed: %s" % q)
        if q["ok"]:
            return r
    sys.exit("no reply came")


def wrk(address, tmp, length):
    """Rows a second by another's count: 32 connections, each reply must be a 200."""
    with open(tmp + "/wrk.lua", "w") as f:
        f.write("""
wrk.method = "POST"
wrk.path = "/v2/models/minilm/infer"
wrk.body = io.open("%s/body", "rb"):read("*a")
wrk.headers["Inference-Header-Content-Length"] = "%d"
wrk.headers["Authorization"] = "Bearer %s"
done = function(summary, latency, requests)
	local e = summary.errors
	print("bad " .. e.connect + e.read + e.write + e.status + e.timeout)
	print("rate " .. summary.requests / summary.duration * 1e6)
end
""" % (tmp, length, SECRET))
    # It takes whole seconds.
    out = subprocess.run(["wrk", "-t", "1", "-c", "32", "-d", "%ds" % max(1, float(SECONDS)),
                          "-s", tmp + "/wrk.lua", address], stdout=subprocess.PIPE, text=True,
                         check=True).stdout
    got = dict(ln.split() for ln in out.splitlines() if ln.startswith(("bad ", "rate ")))
    if got["bad"] != "0":
        sys.exit("a request of wrk failed:\n" + out)
    return float(got["rate"])


def tls_files(tmp):
    """A certificate for this machine, its key, and a key to ask with: options of rlxd."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-keyout", tmp + "/tls.key", "-out",
                    tmp + "/tls.pem", "-subj", "/CN=localhost"], check=True, capture_output=True)
    with open(os.open(tmp + "/secret", os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
        f.write(SECRET)
    return "tls_certificate = %s/tls.pem\ntls_key = %s/tls.key\n" % (tmp, tmp)


def start_bare(batch):
    return subprocess.Popen([HERE + "bare", MODEL, str(SEQ), str(batch), THREADS],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def bare(p, seconds):
    """Median of a run in microseconds, and rows a second."""
    for t in (0.1, seconds):    # the first warms up
        p.stdin.write("%s\n" % t)
        p.stdin.flush()
        line = p.stdout.readline()
    return [float(x) for x in line.split()]


def cost(r, run):
    """What http takes over echo and run: the median of all slices, and half of them."""
    v = sorted(h - e - b for h, e, b in zip(r["http"], r["echo"], r[run]))
    print("  http minus echo minus run: %.1f us (half of all: %.1f to %.1f)"
          % (statistics.median(v), v[len(v) // 4], v[len(v) - 1 - len(v) // 4]))
    return statistics.median(v)


def tiny(tmp):
    """The cost of a request whose run is short: microseconds, least of the rounds."""
    n = 3 * 16 * 16 * 4
    head = json.dumps({"inputs": [{"name": "x", "shape": [1, 3, 16, 16], "datatype": "FP32",
                       "parameters": {"binary_data_size": n}}],
                       "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}).encode()
    head += b" " * (-len(head) % 8)
    with open(tmp + "/tiny", "wb") as f:
        f.write(head + bytes(n))
    with open(tmp + "/tiny.conf", "w") as f:
        f.write("[server]\nlisten = 127.0.0.1:0\naccess_log = none\n[model vision]\n"
                "path = %s\nthreads = 1\n" % os.path.abspath(BUILD + "/serve/vision.onnx"))
    rlxd, port = start_rlxd(tmp + "/tiny.conf")
    echo, echo_port = start(HERE + "echo")
    infer = ("--path", "/v2/models/vision/infer", "--same", "--header",
             "Inference-Header-Content-Length: %d" % len(head))
    r = {"http": [], "echo": [], "run": []}
    try:
        for _ in range(ROUNDS * SLICES):
            before = runs(port)
            r["http"].append(one(port, tmp + "/tiny", *infer))
            after = runs(port)
            r["run"].append((after[0] - before[0]) / (after[1] - before[1]) * 1e6)
            r["echo"].append(one(echo_port, tmp + "/tiny", "--raw"))
    finally:
        for p in (rlxd, echo):
            p.terminate()
    mid = {k: statistics.median(v) for k, v in r.items()}
    print("a tiny model, %d bytes in, one connection, median us: http %.1f  echo %.1f  run %.1f"
          % (n + len(head), mid["http"], mid["echo"], mid["run"]))
    cost(r, "run")


def channels(tmp):
    """A model that does next to nothing, over channels: microseconds of the best round."""
    ways = (("both spin", "always", ["--spin"]), ("as they learn", "auto", []),
            ("rlxd sleeps", "never", []))
    best = {}
    for name, spin, args in ways:
        conf = tmp + "/" + spin
        with open(conf, "w") as f:
            f.write("[server]\nlisten = 127.0.0.1:0\naccess_log = none\n[model relu]\n"
                    "path = %s\nthreads = 1\n[channel c]\naddress = @rlxd-bench-%d\nspin = %s\n"
                    % (os.path.abspath(BUILD + "/serve/relu.onnx"), os.getpid(), spin))
        rlxd, _ = start_rlxd(conf)
        try:
            for _ in range(ROUNDS):
                t = ask("--to", "channel:@rlxd-bench-%d" % os.getpid(), "--model", "relu",
                        *args)["from_when_sent"]
                now = (t["p50_us"], t["p99_us"], t["p99_9_us"])
                best[name] = min(best.get(name, now), now)
        finally:
            rlxd.terminate()
            rlxd.wait()
    print("a model that does nothing over a channel of rlxd, us:")
    for name, t in best.items():
        print("  %-14s p50 %.2f  p99 %.2f  p99.9 %.2f" % ((name,) + t))
    p50, _, p99_9 = best["both spin"]
    goal("both spinning, p50 at most 1 us, p99.9 at most 5 us", p50 <= 1 and p99_9 <= 5)


def runs(port):
    """Seconds and number of runs so far, by the server's own count."""
    with urllib.request.urlopen("%s://127.0.0.1:%s/metrics" % ("http", port)) as f:
        text = f.read().decode()
    return [float(ln.rsplit(" ", 1)[1]) for end in ("sum", "count") for ln in text.splitlines()
            if ln.startswith("rlxd_model_run_seconds_%s{" % end)]


def main():
    tmp = tempfile.mkdtemp()
    ids = b"".join((2000 + i).to_bytes(8, "little") for i in range(SEQ))
    head = json.dumps({"inputs": [{"name": "input_ids", "shape": [1, SEQ], "datatype": "INT64",
                       "parameters": {"binary_data_size": 8 * SEQ}}],
                       "outputs": [{"name": "embedding",
                                    "parameters": {"binary_data": True}}]}).encode()
    head += b" " * (-len(head) % 8)
    for name, data in (("body", head + ids), ("echo", b"x" * 1800)):
        with open(tmp + "/" + name, "wb") as f:
            f.write(data)
    with open(tmp + "/conf", "w") as f:
        f.write("[server]\nlisten = 127.0.0.1:0\naccess_log = none\n[model minilm]\n"
                "path = %s\nbuckets = %d\nmax_batch = 16\nthreads = %s\n"
                % (os.path.abspath(MODEL), SEQ, THREADS))
    with open(tmp + "/conf") as f, open(tmp + "/tls.conf", "w") as g:
        g.write(f.read().replace("127.0.0.1:0\n", "tls:127.0.0.1:0\n" + tls_files(tmp)) +
                "[key bench]\nsecret_file = %s/secret\n" % tmp)
    channels(tmp)
    tiny(tmp)
    infer = ("--path", "/v2/models/minilm/infer", "--header",
             "Inference-Header-Content-Length: %d" % len(head), "--same")
    body = tmp + "/body"
    rlxd, port = start_rlxd(tmp + "/conf")
    tls, tls_port = start_rlxd(tmp + "/tls.conf")
    echo, echo_port = start(HERE + "echo")
    ort, ort_port = start(HERE + "peer", BUILD + "/models/libonnxruntime.so",
                          BUILD + "/models/minilm.onnx", str(SEQ), THREADS)
    bare1, bare16 = start_bare(1), start_bare(16)
    r = {k: [] for k in ("bare", "http", "echo", "ort", "bare16", "http32", "wrk", "tls",
                        "ort32")}
    try:
        for _ in range(ROUNDS):
            for _ in range(SLICES):
                r["bare"].append(bare(bare1, float(SECONDS) / SLICES)[0])
                r["http"].append(one(port, body, *infer))
                r["echo"].append(one(echo_port, tmp + "/echo", "--raw"))
            r["bare16"].append(bare(bare16, SECONDS)[1])
            r["http32"].append(most(port, body, *infer))
            r["wrk"].append(wrk("%s://127.0.0.1:%s" % ("http", port), tmp, len(head)))
            r["tls"].append(wrk("%s://127.0.0.1:%s" % ("https", tls_port), tmp, len(head)))
            # Not between the others: its threads spin on behind a request.
            r["ort"].append(load(ort_port, body)["from_when_sent"]["p50_us"])
            r["ort32"].append(most(ort_port, body))
        rate = str(0.7 * max(r["ort32"]))
        equal = {"rlxd": [], "ort": []}
        for _ in range(ROUNDS):
            for name, to, args in (("rlxd", port, infer), ("ort", ort_port, ())):
                t = load(to, body, *args, *CONNS, "--rate", rate)["from_when_due"]
                equal[name].append((t["p50_us"], t["p99_us"]))
    finally:
        for p in (rlxd, tls, echo, ort, bare1, bare16):
            p.terminate()
    if os.getloadavg()[0] > 1.2 * len(os.sched_getaffinity(0)) + 1:
        print("the machine is busy (load %.1f): times are of little worth" % os.getloadavg()[0])
    mid = {k: statistics.median(v) for k, v in r.items()}
    print("%d tokens, %s threads, %d rounds of %s s" % (SEQ, THREADS, ROUNDS, SECONDS))
    print("one connection, median us:  bare run %.1f  rlxd %.1f  echo %.1f  onnxruntime %.1f"
          % (mid["bare"], mid["http"], mid["echo"], mid["ort"]))
    goal("at most 25 us", cost(r, "bare") <= 25)
    rows = {k: max(r[k]) for k in ("bare16", "http32", "ort32")}
    part = rows["http32"] / rows["bare16"]
    print("32 connections, rows/s:     bare batches of 16 %.0f  rlxd %.0f (%.1f %%)  "
          "onnxruntime %.0f" % (rows["bare16"], rows["http32"], 100 * part, rows["ort32"]))
    goal("at least 95 % of bare batches", part >= 0.95)
    goal("more than onnxruntime", rows["http32"] > rows["ort32"])
    print("  asked by wrk:              rlxd %.0f, by TLS %.0f" % (max(r["wrk"]), max(r["tls"])))
    p99 = {}
    for name in ("rlxd", "ort"):
        p50, p99[name] = (min(x[i] for x in equal[name]) for i in (0, 1))
        print("%s/s by the clock, us:     %-4s p50 %.0f  p99 %.0f" % (
            rate.split(".")[0], name, p50, p99[name]))
    goal("p99 below onnxruntime's", p99["rlxd"] < p99["ort"])


main()
