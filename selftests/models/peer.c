// SPDX-License-Identifier: MIT
/* The peer harness against the fetched library, and the generated models in it. */
#include "selftests/lib/rlx_test.h"
#include "tools/rlx/peer_ort.h"

enum { HIDDEN = 384, MAX_SEQ = 64 };

static int64_t ids[MAX_SEQ], ones[MAX_SEQ], zeros[MAX_SEQ];

/* A path below $BUILD/models, in one of two buffers taken in turn. */
static const char *path_of(const char *name)
{
	static char buf[2][512];
	static int turn;
	const char *build = getenv("BUILD");

	turn = !turn;
	snprintf(buf[turn], sizeof(buf[turn]), "%s/models/%s",
		 build ? build : "build", name);
	return buf[turn];
}

static struct rlx_peer *open_or_fail(const char *model, int threads)
{
	struct rlx_error err = { 0 };
	struct rlx_peer *p = NULL;

	if (rlx_peer_open(path_of("libonnxruntime.so"), path_of(model), threads,
			  &p, &err))
		rlx_test_fail(__FILE__, __LINE__, "%s", err.text);
	return p;
}

static struct rlx_peer_value tokens(const char *name, const int64_t *data,
				    int64_t seq)
{
	return (struct rlx_peer_value){
		.name = name, .type = rlx_type(RLX_I64, 1, seq),
		.data = data, .bytes = (size_t)seq * sizeof(*data),
	};
}

static enum rlx_status bind_tokens(struct rlx_peer *p, int64_t seq,
				   struct rlx_error *err)
{
	struct rlx_peer_value v[3] = {
		tokens("token_type_ids", zeros, seq),
		tokens("input_ids", ids, seq),
		tokens("attention_mask", ones, seq),
	};
	uint64_t state = rlx_test_seed();
	int i;

	for (i = 0; i < MAX_SEQ; i++) {
		ids[i] = 1000 + (int64_t)(rlx_test_rand(&state) % 20000);
		ones[i] = 1;
	}
	return rlx_peer_bind(p, v, 3, err);
}

static void run_tokens(struct rlx_peer *p, int64_t seq, struct rlx_peer_value *out)
{
	struct rlx_error err = { 0 };

	if (bind_tokens(p, seq, &err) || rlx_peer_run(p, &err) ||
	    rlx_peer_output(p, 0, out, &err))
		rlx_test_fail(__FILE__, __LINE__, "%s", err.text);
}

static void check_finite(const struct rlx_peer_value *v)
{
	int64_t i, n = rlx_type_count(&v->type);
	const float *x = v->data;
	double sq = 0;

	CHECK_EQ(v->type.dtype, RLX_F32);
	for (i = 0; i < n; i++) {
		CHECKF(isfinite(x[i]), "element %lld is %g", (long long)i, x[i]);
		sq += (double)x[i] * x[i];
	}
	sq /= (double)n;
	CHECKF(sq > 0.01 && sq < 100, "mean square %g", sq);
}

TEST(signature)
{
	struct rlx_peer *p = open_or_fail("minilm.onnx", 1);
	const struct rlx_peer_value *in, *out;

	CHECK_EQ(rlx_peer_inputs(p, &in), 3);
	CHECK_EQ(rlx_peer_outputs(p, &out), 1);
	CHECK_STR(in[0].name, "input_ids");
	CHECK_EQ(in[0].type.dtype, RLX_I64);
	CHECK_EQ(in[0].type.rank, 2);
	CHECK_EQ(in[0].type.dim[1], -1);
	CHECK_STR(out[0].name, "last_hidden_state");
	CHECK_EQ(out[0].type.dim[2], HIDDEN);
	CHECK(!strncmp(rlx_peer_version(p), "1.", 2));
	rlx_peer_close(p);
}

/* The same tensor from one thread and two, and again after another length. */
TEST(runs_agree)
{
	struct rlx_peer *one = open_or_fail("minilm.onnx", 1);
	struct rlx_peer *two = open_or_fail("minilm.onnx", 2);
	struct rlx_peer_value a, b;
	float first[16 * HIDDEN];
	double worst = 0;
	int i;

	run_tokens(one, 16, &a);
	CHECK_EQ(a.bytes, sizeof(first));
	check_finite(&a);
	memcpy(first, a.data, sizeof(first));
	run_tokens(two, 48, &b);
	CHECK_EQ(b.type.dim[1], 48);
	run_tokens(two, 16, &b);
	for (i = 0; i < 16 * HIDDEN; i++)
		worst = rlx_test_worse(worst, fabs(first[i] - ((const float *)b.data)[i]));
	CHECKF(worst < 1e-4, "differs by %g", worst);
	rlx_peer_close(one);
	rlx_peer_close(two);
}

TEST(times_are_positive)
{
	struct rlx_peer *p = open_or_fail("minilm.onnx", 1);
	struct rlx_error err = { 0 };
	double ns[4] = { 0 };
	int i;

	CHECK(!bind_tokens(p, 8, &err));
	CHECK(!rlx_peer_time(p, 4, ns, &err));
	for (i = 0; i < 4; i++)
		CHECK(ns[i] > 1000);
	rlx_peer_close(p);
}

TEST(generated_models_run)
{
	static const float zero[3 * 224 * 224];
	struct rlx_peer *p = open_or_fail("bert-base.onnx", 2);
	struct rlx_error err = { 0 };
	struct rlx_peer_value v;

	run_tokens(p, 32, &v);
	CHECK_EQ(v.type.dim[2], 768);
	check_finite(&v);
	rlx_peer_close(p);
	p = open_or_fail("resnet50.onnx", 2);
	v = (struct rlx_peer_value){
		.name = "input", .type = rlx_type(RLX_F32, 1, 3, 224, 224),
		.data = zero, .bytes = sizeof(zero),
	};
	CHECK(!rlx_peer_bind(p, &v, 1, &err));
	CHECK(!rlx_peer_run(p, &err));
	CHECK(!rlx_peer_output(p, 0, &v, &err));
	CHECK_EQ(rlx_type_count(&v.type), 1000);
	check_finite(&v);
	rlx_peer_close(p);
}

TEST(bad_requests_are_named)
{
	struct rlx_peer *p = open_or_fail("minilm.onnx", 1);
	struct rlx_error err = { 0 };
	struct rlx_peer_value v;

	CHECK_EQ(rlx_peer_run(p, &err), RLX_EINVAL);
	v = tokens("no_such_input", ids, 4);
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_peer_bind(p, &v, 1, &err), RLX_ENOENT);
	CHECK(strstr(err.text, "no_such_input"));
	v = tokens("input_ids", ids, 4);
	CHECK_EQ(rlx_peer_bind(p, &v, 1, NULL), RLX_EINVAL);
	v.bytes--;
	CHECK_EQ(rlx_peer_bind(p, &v, 1, NULL), RLX_ERANGE);
	CHECK_EQ(rlx_peer_output(p, 0, &v, NULL), RLX_ERANGE);
	rlx_peer_close(p);
}

TEST(bad_files_are_named)
{
	const char *lib = path_of("libonnxruntime.so");
	struct rlx_error err = { 0 };
	struct rlx_peer *p = NULL;

	CHECK_EQ(rlx_peer_open("/nonexistent/lib.so", "x", 1, &p, &err),
		 RLX_ENOENT);
	CHECK(strstr(err.text, "/nonexistent/lib.so"));
	CHECK_EQ(rlx_peer_open(lib, "/nonexistent.onnx", 1, &p, NULL),
		 RLX_ENOENT);
	CHECK_EQ(rlx_peer_open("libm.so.6", "x", 1, &p, NULL), RLX_ENOENT);
	CHECK_EQ(rlx_peer_open(lib, lib, 1, &p, NULL), RLX_EPARSE);
	CHECK_EQ(rlx_peer_open(lib, lib, 0, &p, NULL), RLX_EINVAL);
	CHECK(!p);
}

TEST_MAIN()
