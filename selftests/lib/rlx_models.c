// SPDX-License-Identifier: MIT
/* Files, inputs and graphs of the models that tests and benchmarks run. */
#include <math.h>

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
