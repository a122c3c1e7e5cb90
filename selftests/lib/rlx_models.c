// SPDX-License-Identifier: MIT
/* Files, inputs and graphs of the models that tests and benchmarks run. */
#include <math.h>
#include <string.h>

#include "ir/graph.h"
#include "selftests/lib/rlx_models.h"

unsigned int rlx_model_inputs(const struct rlx_model *m)
{
	unsigned int n = 0;

	while (n < RLX_MODEL_INPUTS && m->in[n].name)
		n++;
	return n;
}

const char *rlx_model_path(char *buf, const char *name)
{
	const char *build = getenv("BUILD");

	snprintf(buf, 512, "%s/models/%s", build ? build : "build", name);
	return buf;
}

/* Bars of random width in lines ten high, over the noise that is there. */
static void draw_page(float *x, const struct rlx_type *t, uint64_t *state)
{
	int64_t c, row, col, ink = 0, h = t->dim[2], w = t->dim[3];
	float shade[2] = { 0.9f, -0.8f };

	for (row = 0; row < h; row++)
		for (col = 0; col < w; col++) {
			if (!(rlx_test_rand(state) % 4))
				ink = row / 10 % 2 && col > 9 && col < w - 9 && !ink;
			for (c = 0; c < t->dim[1]; c++)
				x[(c * h + row) * w + col] += shade[ink];
		}
}

static void *fill_one(const struct rlx_model_input *in, uint64_t *state)
{
	int64_t i, n = rlx_type_count(&in->type);
	void *data = malloc((size_t)rlx_type_bytes(&in->type));
	double x;

	CHECK(data);
	for (i = 0; i < n; i++) {
		x = rlx_test_uniform(state, in->lo, in->hi);
		if (in->type.dtype == RLX_F32)
			((float *)data)[i] = (float)x;
		else if (in->type.dtype == RLX_I32)
			((int32_t *)data)[i] = (int32_t)x;
		else
			((int64_t *)data)[i] = (int64_t)x;
	}
	if (in->page)
		draw_page(data, &in->type, state);
	return data;
}

void rlx_model_fill(const struct rlx_model *m, uint64_t seed, void **data)
{
	unsigned int i;

	for (i = 0; i < rlx_model_inputs(m); i++)
		data[i] = fill_one(&m->in[i], &seed);
}

void rlx_model_drop(const struct rlx_model *m, void **data)
{
	unsigned int i;

	for (i = 0; i < rlx_model_inputs(m); i++)
		free(data[i]);
}

enum rlx_status rlx_model_peer(const struct rlx_model *m, void *const *data,
			       int threads, struct rlx_peer **out,
			       struct rlx_error *err)
{
	struct rlx_peer_value v[RLX_MODEL_INPUTS];
	unsigned int i, n = rlx_model_inputs(m);
	char lib[512], path[512];
	enum rlx_status st;

	for (i = 0; i < n; i++)
		v[i] = (struct rlx_peer_value){
			.name = m->in[i].name, .type = m->in[i].type,
			.data = data[i],
			.bytes = (size_t)rlx_type_bytes(&m->in[i].type),
		};
	st = rlx_peer_open(rlx_model_path(lib, "libonnxruntime.so"),
			   rlx_model_path(path, m->file), threads, out, err);
	return st ? st : rlx_peer_bind(*out, v, n, err);
}

enum rlx_status rlx_model_import(const struct rlx_model *m, void *const *data,
				 struct rlx_segment *seg, struct rlx_error *err)
{
	struct rlx_spec spec[RLX_MODEL_INPUTS] = { 0 };
	struct rlx_instance want = { .spec = spec };
	struct onnx_file *f = NULL;
	enum rlx_status st;
	char path[512];
	unsigned int i;

	want.n_spec = rlx_model_inputs(m);
	for (i = 0; i < want.n_spec; i++)
		spec[i] = (struct rlx_spec){
			.kind = RLX_SPEC_TENSOR, .name = m->in[i].name,
			.type = m->in[i].type,
		};
	st = onnx_open(rlx_model_path(path, m->file), ONNX_ROOT_MODEL, &f, err);
	if (st)
		return st;
	st = onnx_build(f, &want, seg, err);
	if (!st && seg->need == RLX_NEED_INPUTS) {
		for (i = 0; i < want.n_spec; i++)
			if (seg->inputs >> i & 1)
				spec[i].data = data[i];
		rlx_segment_fini(seg);
		st = onnx_build(f, &want, seg, err);
	}
	if (!st && seg->need != RLX_NEED_NOTHING) {
		rlx_segment_fini(seg);
		st = rlx_fail(err, RLX_ENOSUP, "%s is not one graph", m->file);
	}
	onnx_put(f);
	return st;
}

struct rlx_session *rlx_model_run(const struct rlx_model *m, void *const *data,
				  struct rlx_graph *g, const struct rlx_compile_opts *opts)
{
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	unsigned int i;

	CHECKF(!rlx_compile(g, opts, &p, &err), "%s: %s", m->file, err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s: %s", m->file, err.text);
	for (i = 0; i < rlx_model_inputs(m); i++) {
		if (rlx_program_io_find(p, RLX_IO_INPUT, m->in[i].name) < 0)
			continue;	/* folded into the graph */
		CHECKF(!rlx_session_set(s, RLX_IO_INPUT, m->in[i].name, m->in[i].type, data[i]),
		       "%s: %s", m->file, rlx_session_error(s)->text);
	}
	CHECKF(!rlx_session_run(s), "%s: %s", m->file, rlx_session_error(s)->text);
	rlx_program_put(p);
	return s;
}

struct rlx_distance rlx_model_distance(const float *a, const float *b, int64_t n, double slack)
{
	double rms = 0, worst = 0, ab = 0, aa = 0, bb = 0, e;
	int64_t i;

	for (i = 0; i < n; i++) {
		bb += (double)b[i] * b[i];
		aa += (double)a[i] * a[i];
		ab += (double)a[i] * b[i];
	}
	rms = sqrt(bb / (double)n);
	for (i = 0; i < n; i++) {
		e = fmax(fabs((double)a[i] - b[i]) - slack, 0) /
		    (fabs((double)b[i]) + rms);
		if (!(e <= worst))	/* so that a NaN wins */
			worst = e;
	}
	return (struct rlx_distance){ worst, ab / sqrt(aa * bb) };
}

/* The cosine between output @name of @s and @want. */
static double cosine_of(struct rlx_session *s, const char *name, const float *want)
{
	struct rlx_program *p = rlx_session_program(s);
	int i = rlx_program_io_find(p, RLX_IO_OUTPUT, name);
	const struct rlx_type *t = rlx_program_io_type(p, RLX_IO_OUTPUT, (unsigned int)i);

	return rlx_model_distance(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, name)), want,
				  rlx_type_count(t), 0).cosine;
}

static bool is_half(enum rlx_dtype dt)
{
	return dt == RLX_BF16 || dt == RLX_F16;
}

/* Reads node @n no value of 16 bits but as an operand of a product? */
static bool rounds_operands_only(const struct rlx_graph *g, const struct rlx_node *n)
{
	unsigned int op = n->def->index, operands = 0, k;

	if (op == RLX_OP_conv || op == RLX_OP_fused_conv)
		operands = 2;
	if (op == RLX_OP_attention)
		operands = 3;
	for (k = operands; k < n->n_in; k++)
		if (n->in[k] && is_half(g->val[n->in[k]].type.dtype))
			return false;
	return true;
}

/* The text of a graph after the precision policy. */
struct rounded {
	char	*text;
	size_t	 len;
};

static void keep_rounded(void *ctx, const char *pass, const struct rlx_graph *g)
{
	struct rounded *r = ctx;
	uint32_t i;
	FILE *f;

	if (strcmp(pass, "precision") || r->text)
		return;
	for (i = 0; i < g->n_node; i++)
		CHECKF(rounds_operands_only(g, &g->node[i]), "%s reads 16 bits",
		       g->node[i].def->name);
	f = open_memstream(&r->text, &r->len);
	CHECK(f && !rlx_graph_print(g, f, false));
	CHECK(!fclose(f));
}

/* The reference of the graph that @c's device rounds. */
static struct rlx_session *run_rounded(const struct rlx_model_case *c)
{
	const struct rlx_compile_opts ref = { .size = sizeof(ref), .device = "ref" };
	struct rlx_compile_opts opts = *c->opts;
	struct rounded r = { 0 };
	struct rlx_error err = { 0 };
	struct rlx_graph *g = NULL;
	struct rlx_program *p = NULL;
	struct rlx_session *s;

	opts.dump = keep_rounded;
	opts.dump_ctx = &r;
	CHECKF(!rlx_compile(c->g, &opts, &p, &err), "%s: %s", c->m->file, err.text);
	rlx_program_put(p);
	CHECK(r.text);
	CHECKF(!rlx_graph_parse(r.text, r.len, &g, &err), "%s: %s", c->m->file, err.text);
	s = rlx_model_run(c->m, c->data, g, &ref);
	rlx_graph_put(g);
	free(r.text);
	return s;
}

void rlx_model_check_rounded(const struct rlx_model_case *c, struct rlx_session *s,
			     const char *name, const float *want)
{
	static const double near = 0.9999;
	double to_want = cosine_of(s, name, want), to_rounded;
	struct rlx_session *ref;

	if (to_want > near)
		return;
	ref = run_rounded(c);
	to_rounded = cosine_of(s, name, rlx_buf_ptr(rlx_session_buf(ref, RLX_IO_OUTPUT, name)));
	printf("# %s %s: cosine %.8f with its own rounding in double\n", c->m->file, name,
	       to_rounded);
	rlx_session_free(ref);
	CHECKF(to_rounded > near, "cosine %.8f, %.8f with its own rounding in double", to_want,
	       to_rounded);
}
