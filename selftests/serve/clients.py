# SPDX-License-Identifier: MIT
"""The official OpenAI and Triton clients, unchanged, and ONNX Runtime as the oracle."""
import asyncio
import base64
import json
import os
import struct
import subprocess
import sys

import numpy as np
import onnxruntime
import openai
import tritonclient.http as triton
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from rlxd import BUILD, ENGINES, Server, Skip, check_metrics, main, minilm, test, wait_for

TEXTS = ["The quick brown fox jumps over the lazy dog.", "hello", "A contract is void.",
         "word " * 50, "Zürich, 北京 and déjà vu!", "x" * 300]
MODELS = BUILD + "/models/"

server = Server(
    minilm("max_tokens = 128\n") +
    "[model vision]\npath = %s\n" % os.path.abspath(BUILD + "/serve/vision.onnx") +
    "[model many]\npath = %s\nbatch = yes\nmax_batch = 4\nbatch_delay = 500ms\n"
    % os.path.abspath(BUILD + "/serve/vision.onnx"),
    server="shared_memory = local\n", engine=ENGINES[0]).__enter__()
client = openai.OpenAI(base_url=server.url("/v1"), api_key="none")
tc = triton.InferenceServerClient("127.0.0.1:%d" % server.port)
oracle = None


def truth(ids):
    """MiniLM by ONNX Runtime: the mean of the tokens' vectors, of length 1."""
    global oracle
    path = MODELS + "minilm.onnx"
    if not os.path.exists(path):
        raise Skip("minilm.onnx is not made")
    if oracle is None:
        oracle = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    ids = np.array([ids], dtype=np.int64)
    feed = {}
    for i in oracle.get_inputs():
        feed[i.name] = ids if i.name == "input_ids" else \
            np.ones_like(ids) if i.name == "attention_mask" else np.zeros_like(ids)
    out = oracle.run(None, feed)[0].astype(np.float64)
    v = out.mean(axis=1)[0] if out.ndim == 3 else out[0]
    return v / np.linalg.norm(v)


@test
def openai_models():
    names = [m.id for m in client.models.list()]
    assert names == ["minilm", "vision", "many"], names
    assert client.models.retrieve("minilm").object == "model"
    try:
        client.models.retrieve("nothing")
        assert False
    except openai.NotFoundError as e:
        assert "nothing" in str(e)


@test
def openai_embeddings():
    one = [client.embeddings.create(model="minilm", input=t).data[0].embedding
           for t in TEXTS]
    many = client.embeddings.create(model="minilm", input=TEXTS)
    assert [d.index for d in many.data] == list(range(len(TEXTS)))
    for a, b in zip(one, many.data):
        assert len(a) == 384 and abs(np.linalg.norm(a) - 1) < 1e-5
        assert np.abs(np.array(a) - np.array(b.embedding)).max() < 2e-6
    assert many.usage.prompt_tokens == many.usage.total_tokens > 80


@test
def openai_float_equals_base64():
    # The client asks for base64 unless told otherwise.
    a = client.embeddings.create(model="minilm", input=TEXTS)
    b = client.embeddings.create(model="minilm", input=TEXTS, encoding_format="float")
    for x, y in zip(a.data, b.data):
        assert np.array_equal(np.array(x.embedding, dtype=np.float32),
                              np.array(y.embedding, dtype=np.float32))


@test
def openai_token_ids_against_onnxruntime():
    lists = [[101, 7592, 2088, 102], [101] + list(range(2000, 2060)) + [102], [101, 102],
             [101] + list(range(5000, 5126)) + [102]]
    got = client.embeddings.create(model="minilm", input=lists)
    for ids, d in zip(lists, got.data):
        assert np.abs(truth(ids) - np.array(d.embedding)).max() < 5e-6
    single = client.embeddings.create(model="minilm", input=lists[0])
    assert single.usage.prompt_tokens == 4


@test
def openai_errors():
    for kind, args in ((openai.NotFoundError, {"model": "x", "input": "a"}),
                       (openai.BadRequestError, {"model": "minilm", "input": ""}),
                       (openai.BadRequestError, {"model": "vision", "input": "a"}),
                       (openai.BadRequestError, {"model": "minilm", "input": "w " * 500}),
                       (openai.BadRequestError, {"model": "minilm", "input": "a",
                                                 "dimensions": 10})):
        try:
            client.embeddings.create(**args)
            assert False, args
        except kind as e:
            assert e.body["message"], e.body


@test
def openai_async_many():
    async def run():
        a = openai.AsyncOpenAI(base_url=str(client.base_url), api_key="none")
        return await asyncio.gather(*[
            a.embeddings.create(model="minilm", input=TEXTS[i % 3]) for i in range(60)])
    want = [d.embedding for d in client.embeddings.create(model="minilm",
                                                          input=TEXTS[:3]).data]
    for i, r in enumerate(asyncio.run(run())):
        assert np.abs(np.array(r.data[0].embedding) - np.array(want[i % 3])).max() < 2e-6


@test
def triton_health_and_metadata():
    assert tc.is_server_live() and tc.is_server_ready()
    assert tc.is_model_ready("minilm") and not tc.is_model_ready("nothing")
    assert tc.is_model_ready("minilm", "1")
    assert "binary_tensor_data" in tc.get_server_metadata()["extensions"]
    m = tc.get_model_metadata("minilm")
    assert m["inputs"][0] == {"name": "input_ids", "datatype": "INT64", "shape": [-1, -1]}
    assert tc.get_model_config("minilm")["max_batch_size"] == 0
    assert [x["name"] for x in tc.get_model_repository_index()] == ["minilm", "vision", "many"]


def ids_input(ids, binary=True):
    a = np.array(ids, dtype=np.int64)
    i = triton.InferInput("input_ids", a.shape, "INT64")
    i.set_data_from_numpy(a, binary_data=binary)
    return i


@test
def triton_infer_binary_and_json():
    ids = [[101, 7592, 2088, 102], [101, 2000, 2001, 102]]
    want = np.array([truth(x) for x in ids])
    for bin_in in (True, False):
        for bin_out in (True, False):
            r = tc.infer("minilm", [ids_input(ids, bin_in)], request_id="abc", outputs=[
                triton.InferRequestedOutput("embedding", binary_data=bin_out)])
            assert np.abs(r.as_numpy("embedding") - want).max() < 5e-6
            assert r.get_response()["id"] == "abc"
    r = tc.infer("minilm", [ids_input(ids)])
    assert np.abs(r.as_numpy("embedding") - want).max() < 5e-6


@test
def triton_mask():
    a = np.array([[101, 7592, 2088, 102, 0, 0], [101, 2000, 102, 5, 5, 5]], dtype=np.int64)
    m = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0]], dtype=np.int64)
    mask = triton.InferInput("attention_mask", m.shape, "INT64")
    mask.set_data_from_numpy(m)
    got = tc.infer("minilm", [ids_input(a), mask]).as_numpy("embedding")
    want = [truth([101, 7592, 2088, 102]), truth([101, 2000, 102])]
    assert np.abs(got - np.array(want)).max() < 5e-6


@test
def triton_async():
    ids = [[101, 7592, 2088, 102]]
    want = truth(ids[0])
    c = triton.InferenceServerClient("127.0.0.1:%d" % server.port, concurrency=8)
    for f in [c.async_infer("minilm", [ids_input(ids)]) for _ in range(40)]:
        assert np.abs(f.get_result().as_numpy("embedding")[0] - want).max() < 5e-6
    c.close()


@test
def triton_errors():
    for name, inputs, part in (
            ("nothing", [ids_input([[1]])], "no model"),
            ("minilm", [ids_input([[101, 1 << 40]])], "no token id"),
            ("minilm", [ids_input([[101] * 999])], "999 tokens"),
            ("vision", [ids_input([[1]])], "no input 'input_ids'")):
        try:
            tc.infer(name, inputs)
            assert False, name
        except InferenceServerException as e:
            assert part in str(e), str(e)


def vision_input(x, binary=True):
    i = triton.InferInput("x", x.shape, "FP32")
    i.set_data_from_numpy(x, binary_data=binary)
    return i


@test
def onnx_model_any_shape():
    rng = np.random.default_rng(3)
    o = onnxruntime.InferenceSession(BUILD + "/serve/vision.onnx",
                                     providers=["CPUExecutionProvider"])
    for n in (1, 2, 5):
        for binary in (True, False):
            x = rng.standard_normal((n, 3, 16, 16), dtype=np.float32)
            got = tc.infer("vision", [vision_input(x, binary)])
            want = o.run(None, {"x": x})
            for name, w in zip(("y", "n"), want):
                g = got.as_numpy(name)
                assert g.shape == w.shape and g.dtype == w.dtype, (g.shape, w.shape)
                assert np.abs(g.astype(np.float64) - w).max() < 1e-4


@test
def onnx_rows_in_batches():
    """Requests of one row are run together, others alone; each gets its own result."""
    rng = np.random.default_rng(4)
    o = onnxruntime.InferenceSession(BUILD + "/serve/vision.onnx",
                                     providers=["CPUExecutionProvider"])
    c = triton.InferenceServerClient("127.0.0.1:%d" % server.port, concurrency=12)
    xs = [rng.standard_normal((3 if i % 7 == 0 else 1, 3, 16, 16), dtype=np.float32)
          for i in range(60)]
    pending = [c.async_infer("many", [vision_input(x)]) for x in xs]
    for x, p in zip(xs, pending):
        got = p.get_result()
        for name, w in zip(("y", "n"), o.run(None, {"x": x})):
            g = got.as_numpy(name)
            assert g.shape == w.shape and np.abs(g.astype(np.float64) - w).max() < 1e-4
    c.close()
    batches = server.metric('rlxd_model_batches_total{model="many"}')
    assert 9 <= batches <= 50, batches


@test
def onnx_wrong_shape():
    for shape in ((1, 4, 16, 16), (1, 3, 16), (1, 3, 15, 16)):
        try:
            tc.infer("vision", [vision_input(np.zeros(shape, dtype=np.float32))])
            assert False, shape
        except InferenceServerException as e:
            assert "shape" in str(e), str(e)


@test
def system_shared_memory():
    a = np.array([[101, 7592, 2088, 102]], dtype=np.int64)
    ih = shm.create_shared_memory_region("in", "/rlxd_test_in", a.nbytes)
    oh = shm.create_shared_memory_region("out", "/rlxd_test_out", 384 * 4)
    try:
        shm.set_shared_memory_region(ih, [a])
        tc.register_system_shared_memory("in", "/rlxd_test_in", a.nbytes)
        tc.register_system_shared_memory("out", "/rlxd_test_out", 384 * 4)
        st = tc.get_system_shared_memory_status()
        assert {r["name"] for r in st} == {"in", "out"}, st
        i = triton.InferInput("input_ids", a.shape, "INT64")
        i.set_shared_memory("in", a.nbytes)
        o = triton.InferRequestedOutput("embedding")
        o.set_shared_memory("out", 384 * 4)
        for _ in range(3):
            tc.infer("minilm", [i], outputs=[o])
            got = shm.get_contents_as_numpy(oh, np.float32, [1, 384])
            assert np.abs(got[0] - truth(a[0])).max() < 5e-6
        i.set_shared_memory("in", a.nbytes, offset=8)
        try:
            tc.infer("minilm", [i], outputs=[o])
            assert False
        except InferenceServerException as e:
            assert "not in the region" in str(e)
    finally:
        tc.unregister_system_shared_memory()
        shm.destroy_shared_memory_region(ih)
        shm.destroy_shared_memory_region(oh)
    assert tc.get_system_shared_memory_status() == []


@test
def shared_memory_that_shrinks():
    """The owner cuts the file: the request fails, the server lives."""
    n = 3 * 16 * 16 * 4 * 64
    path = "/dev/shm/rlxd_test_cut"
    with open(path, "wb") as f:
        f.truncate(n)
    try:
        tc.register_system_shared_memory("cut", "/rlxd_test_cut", n)
        os.truncate(path, 0)
        i = triton.InferInput("x", (64, 3, 16, 16), "FP32")
        i.set_shared_memory("cut", n)
        try:
            tc.infer("vision", [i])
            assert False
        except InferenceServerException as e:
            assert "shorter" in str(e), str(e)
        assert tc.is_server_live()
    finally:
        tc.unregister_system_shared_memory()
        os.unlink(path)


@test
def metrics():
    """While they move: every scrape is whole in itself."""
    c = triton.InferenceServerClient("127.0.0.1:%d" % server.port, concurrency=4)
    for _ in range(10):
        pending = [c.async_infer("minilm", [ids_input([[101, 7592, 102]])]) for _ in range(8)]
        check_metrics(server.get("/metrics")[2])
        for p in pending:
            p.get_result()
    c.close()


@test
def copies_are_counted():
    """A binary tensor that comes in one piece, and its result, are copied once each."""
    before = server.metric('rlxd_copied_bytes_total{by="http"}')
    ids = struct.pack("<4q", 101, 7592, 2088, 102)
    head = json.dumps({"inputs": [{"name": "input_ids", "shape": [1, 4],
                       "datatype": "INT64", "parameters": {"binary_data_size": 32}}],
                       "parameters": {"binary_data_output": True}}).encode()
    head += b" " * (-len(head) % 8)
    st, h, out = server.get("/v2/models/minilm/infer",
                            {"Inference-Header-Content-Length": str(len(head))}, "POST",
                            head + ids)
    n = int(h["Inference-Header-Content-Length"])
    assert st == 200 and len(out) - n == 384 * 4
    after = server.metric('rlxd_copied_bytes_total{by="http"}')
    assert after - before == 32 + 384 * 4, (before, after)


@test
def curl():
    url = server.url("/v1/embeddings")
    r = subprocess.run(["curl", "-sS", "--fail", "-H", "Content-Type: application/json", url,
                        "-d", '{"model": "minilm", "input": "hello"}'],
                       capture_output=True, check=True)
    assert len(json.loads(r.stdout)["data"][0]["embedding"]) == 384
    big = '{"model": "minilm", "input": "hello", "user": "%s"}' % ("x" * 3000000)
    r = subprocess.run(["curl", "-sS", "--fail", url, "--json", "@-", "-H", "Expect: 100-continue"],
                       input=big.encode(), capture_output=True, check=True)
    assert len(json.loads(r.stdout)["data"][0]["embedding"]) == 384


@test
def server_ends_well():
    client.close()
    tc.close()
    server.__exit__(None, None, None)


main()
