// SPDX-License-Identifier: MIT
/*
 * MiniLM built from its safetensors gives the sentence vectors that ONNX Runtime
 * gives with the exported model, whatever stands in the padding.
 */
#include "rlx/bert.h"
#include "rlx/run.h"
#include "selftests/lib/rlx_models.h"

enum { WIDTH = 384 };

static void must(enum rlx_status st, const struct rlx_error *err)
{
	if (st)
		rlx_test_fail(__FILE__, __LINE__, "%s: %s", rlx_status_name(st), err->text);
}

static struct rlx_session *open_session(struct rlx_bert *b, int64_t seq,
					enum rlx_precision precision)
{
	struct rlx_bert_opts o = {
		.size = sizeof(o), .batch = 1, .seq = seq, .pool = RLX_BERT_MEAN,
		.normalise = true,
	};
	struct rlx_compile_opts c = {
		.size = sizeof(c), .precision = precision, .flags = RLX_COMPILE_NATIVE,
	};
	struct rlx_session_opts so = { .size = sizeof(so), .strict = true };
	struct rlx_error err = { 0 };
	struct rlx_session *s;
	struct rlx_program *p;
	struct rlx_graph *g;

	must(rlx_bert_graph(b, &o, &g, &err), &err);
	must(rlx_compile(g, &c, &p, &err), &err);
	must(rlx_session_new(p, &so, &s, &err), &err);
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

static int64_t *input(struct rlx_session *s, const char *name)
{
	int64_t *p = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, name));

	CHECKF(p, "no input %s", name);
	return p;
}

/* The peer's vector for @n tokens without padding, pooled in double. */
static void peer_vector(const char *file, int64_t *ids, int64_t n, double *y)
{
	int64_t ones[256], zeros[256] = { 0 }, i, k;
	struct rlx_type t = rlx_type(RLX_I64, 1, n);
	size_t bytes = (size_t)n * sizeof(*ids);
	const struct rlx_peer_value v[] = {
		{ "input_ids", t, ids, bytes }, { "attention_mask", t, ones, bytes },
		{ "token_type_ids", t, zeros, bytes },
	};
	struct rlx_peer_value out;
	struct rlx_error err = { 0 };
	struct rlx_peer *p;
	char lib[512];
	double len = 0;

	for (i = 0; i < n; i++)
		ones[i] = 1;
	must(rlx_peer_open(rlx_model_path(lib, "libonnxruntime.so"), file, 1, &p, &err), &err);
	must(rlx_peer_bind(p, v, 3, &err), &err);
	must(rlx_peer_run(p, &err), &err);
	must(rlx_peer_output(p, 0, &out, &err), &err);
	CHECK_EQ(out.bytes, (size_t)n * WIDTH * sizeof(float));
	for (k = 0; k < WIDTH; k++) {
		for (y[k] = 0, i = 0; i < n; i++)
			y[k] += (double)((const float *)out.data)[i * WIDTH + k] / (double)n;
		len += y[k] * y[k];
	}
	for (k = 0; k < WIDTH; k++)
		y[k] /= sqrt(len);
	rlx_peer_close(p);
}

static double cosine(const float *x, const double *y)
{
	double dot = 0, len = 0;
	int k;

	for (k = 0; k < WIDTH; k++) {
		dot += (double)x[k] * y[k];
		len += (double)x[k] * (double)x[k];
	}
	CHECKF(fabs(len - 1) < 1e-5, "length %g", sqrt(len));
	return dot / sqrt(len);
}

static void compare(enum rlx_precision precision, double least)
{
	static const struct {
		int64_t seq, n;
	} cases[] = { { 16, 3 }, { 16, 16 }, { 64, 41 }, { 256, 200 } };
	uint64_t seed = rlx_test_seed();
	char dir[512], file[512];
	struct rlx_error err = { 0 };
	struct rlx_session *s;
	struct rlx_bert *b;
	double y[WIDTH], c;
	int64_t *ids, i;
	unsigned int k;

	must(rlx_bert_open(rlx_model_path(dir, "minilm"), &b, &err), &err);
	rlx_model_path(file, "minilm.onnx");
	for (k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		s = open_session(b, cases[k].seq, precision);
		ids = input(s, "input_ids");
		for (i = 0; i < cases[k].seq; i++)
			ids[i] = (int64_t)rlx_test_uniform(&seed, 0, 30522);
		*input(s, "lengths") = cases[k].n;
		must(rlx_session_run(s), rlx_session_error(s));
		peer_vector(file, ids, cases[k].n, y);
		c = cosine(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "embedding")), y);
		CHECKF(c > least, "%lld tokens of %lld: cosine %.9f", (long long)cases[k].n,
		       (long long)cases[k].seq, c);
		printf("# %lld tokens of %lld: cosine %.9f\n", (long long)cases[k].n,
		       (long long)cases[k].seq, c);
		rlx_session_free(s);
	}
	rlx_bert_put(b);
}

TEST(sentence_vectors_f32)
{
	compare(RLX_PRECISION_AS_WRITTEN, 0.999999);
}

TEST(sentence_vectors_bf16)
{
	compare(RLX_PRECISION_BF16, 0.9999);
}

TEST_MAIN()
