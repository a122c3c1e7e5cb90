// SPDX-License-Identifier: MIT
/* Building, running and reading a small graph; see rig.h. */
#include "selftests/lib/rig.h"
#include "ir/element.h"
#include "ir/eval.h"
#include "ir/graph.h"
#include "selftests/lib/rlx_test.h"

static struct rlx_tensor tensor_new(struct rlx_type t)
{
	struct rlx_tensor x = { t, NULL };
	size_t n = (size_t)rlx_type_bytes(&t) + 1;

	CHECK(rlx_type_bytes(&t) >= 0);
	CHECK(!posix_memalign(&x.data, 64, n));
	memset(x.data, 0xa5, n);
	return x;
}

unsigned int rig_devices(const char *out[RIG_DEVICES])
{
	out[0] = NULL;
	out[1] = "ref";
	out[2] = "cpu";
	out[3] = getenv("RLX_TEST_GPU");
	return out[3] ? 4 : 3;
}

void rig_init(struct rig *r, const char *device)
{
	*r = (struct rig){ .device = device, .seed = rlx_test_seed() };
	r->g = rlx_graph_new("rig");
}

void rig_fini(struct rig *r)
{
	unsigned int i;

	for (i = 0; i < r->n_in; i++)
		free(r->in[i].data);
	for (i = 0; i < r->n_out; i++)
		free(r->out[i].data);
	rlx_graph_put(r->g);
}

void rig_reset(struct rig *r)
{
	const char *device = r->device;
	uint64_t seed = r->seed;

	rig_fini(r);
	rig_init(r, device);
	r->seed = seed;
}

rlx_value rig_input(struct rig *r, struct rlx_type t, const void *data)
{
	char name[16];

	CHECK(r->n_in < RIG_MAX);
	snprintf(name, sizeof(name), "i%u", r->n_in);
	r->in[r->n_in] = tensor_new(t);
	if (rlx_type_bytes(&t))
		memcpy(r->in[r->n_in].data, data, (size_t)rlx_type_bytes(&t));
	r->n_in++;
	return rlx_input(r->g, name, t);
}

rlx_value rig_random(struct rig *r, struct rlx_type t, double lo, double hi)
{
	struct rlx_tensor x = tensor_new(t);
	rlx_value v;
	int64_t i;

	for (i = 0; i < rlx_type_count(&t); i++)
		if (el_is_int(t.dtype))
			el_seti(&x, i, (int64_t)floor(rlx_test_uniform(&r->seed, lo, hi + 1)));
		else
			el_set(&x, i, rlx_test_uniform(&r->seed, lo, hi));
	v = rig_input(r, t, x.data);
	free(x.data);
	return v;
}

void rig_output(struct rig *r, rlx_value v)
{
	const struct rlx_type *t = rlx_type_of(r->g, v);
	char name[16];

	CHECKF(t, "%s", rlx_graph_error(r->g)->text);
	CHECK(r->n_out < RIG_MAX);
	snprintf(name, sizeof(name), "o%u", r->n_out);
	r->out[r->n_out++] = tensor_new(*t);
	rlx_output(r->g, name, v);
}

unsigned int rig_count(const struct rlx_graph *g, unsigned int op)
{
	unsigned int i, n = 0;

	for (i = 0; i < g->n_node; i++)
		n += g->node[i].def->index == op;
	return n;
}

static enum rlx_status run_session(struct rig *r, struct rlx_session *s)
{
	struct rlx_program *p = rlx_session_program(s);
	enum rlx_status st = RLX_OK;
	unsigned int i;

	for (i = 0; i < r->n_in && !st; i++)
		st = rlx_session_set(s, RLX_IO_INPUT,
				     rlx_program_io_name(p, RLX_IO_INPUT, i),
				     r->in[i].type, r->in[i].data);
	for (i = 0; i < r->n_out && !st; i++) {
		struct rlx_buf b = rlx_session_buf(s, RLX_IO_OUTPUT,
						   rlx_program_io_name(p, RLX_IO_OUTPUT, i));

		CHECK(rlx_buf_ptr(b));
		memset(rlx_buf_ptr(b), 0xa5, b.bytes);
	}
	if (!st)
		st = rlx_session_run(s);
	for (i = 0; i < r->n_out && !st; i++)
		st = rlx_session_get(s, RLX_IO_OUTPUT,
				     rlx_program_io_name(p, RLX_IO_OUTPUT, i),
				     r->out[i].type, r->out[i].data);
	return st;
}

enum rlx_status rig_try(struct rig *r)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = r->device,
				      .precision = r->precision };
	struct rlx_program_info info;
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	enum rlx_status st = rlx_graph_finish(r->g);

	r->err = *rlx_graph_error(r->g);
	if (st)
		return st;
	if (!r->device)
		return rlx_graph_eval(r->g, r->in, r->out, &r->err);
	st = rlx_compile(r->g, &o, &p, &r->err);
	if (!st) {
		rlx_program_info(p, &info);
		r->steps = info.steps;
		st = rlx_session_new(p, NULL, &s, &r->err);
	}
	if (!st)
		st = run_session(r, s);
	if (st && s && rlx_session_error(s)->status)
		r->err = *rlx_session_error(s);
	rlx_session_free(s);
	rlx_program_put(p);
	return st;
}

void rig_run(struct rig *r)
{
	enum rlx_status st = rig_try(r);

	CHECKF(!st, "%s: %s", r->device ? r->device : "eval", r->err.text);
}

double rig_in(const struct rig *r, unsigned int k, int64_t i)
{
	CHECK(k < r->n_in && i < rlx_type_count(&r->in[k].type));
	return el_get(&r->in[k], i);
}

double rig_get(const struct rig *r, unsigned int k, int64_t i)
{
	CHECK(k < r->n_out && i < rlx_type_count(&r->out[k].type));
	return el_get(&r->out[k], i);
}

void rig_want(const struct rig *r, unsigned int k, int64_t i, double want, double tol)
{
	double got = rig_get(r, k, i);

	/* of infinity all numbers are as far as infinity allows */
	CHECKF(isnan(want) ? isnan(got) : got == want ||
	       (isfinite(want) && fabs(got - want) <= tol * (1 + fabs(want))),
	       "%s: output %u, element %lld is %.9g, not %.9g",
	       r->device ? r->device : "eval", k, (long long)i, got, want);
}

struct rlx_session *rig_session(struct rlx_graph *g, const struct rlx_compile_opts *o)
{
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, o, &p, &err), "%s: %s", o->device, err.text);
	rlx_graph_put(g);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s: %s", o->device, err.text);
	rlx_program_put(p);
	return s;
}
