// SPDX-License-Identifier: MIT
/* Running the samples of ops; see op_case.h. */
#include "selftests/lib/op_case.h"
#include "ir/element.h"
#include "rlx/log.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/upper.h"

unsigned int op_case_failures;

const char *op_case_gpu(void)
{
	const char *name = getenv("RLX_TEST_GPU");

	return name ? name : "cuda";
}

static void take_line(void *ctx, enum rlx_log_level level, const char *line)
{
	(void)ctx;
	(void)level;
	if (!strstr(line, "by the reference evaluator"))
		fprintf(stderr, "rlx: %s\n", line);
}

void op_case_host_is_fine(void)
{
	rlx_log_set(take_line, NULL);
}

static void fill(struct rlx_tensor t, double lo, double hi, uint64_t *seed)
{
	int64_t n = rlx_type_count(&t.type), i;
	bool ints = el_is_int(t.type.dtype);

	if (lo == 0 && hi == 0) {
		lo = ints ? 0 : -2;
		hi = ints ? 1 : 2;
	}
	for (i = 0; i < n; i++)
		if (ints)
			el_seti(&t, i, (int64_t)floor(rlx_test_uniform(seed, ceil(lo),
							       floor(hi) + 1)));
		else
			el_set(&t, i, rlx_test_uniform(seed, lo, hi));
}

static void *room(const struct rlx_type *t)
{
	void *p = NULL;

	CHECK(!posix_memalign(&p, 64, (size_t)rlx_type_bytes(t) + 64));
	return p;
}

/* $RLX_TEST_OPS, "fft rfft": those alone, while one is at work on them. */
static bool is_asked(const struct rlx_op_def *def)
{
	const char *only = getenv("RLX_TEST_OPS"), *at = only;
	size_t n = strlen(def->name);

	for (; at && (at = strstr(at, def->name)); at += n)
		if ((at == only || at[-1] == ' ') && (!at[n] || at[n] == ' '))
			return true;
	return !only;
}

bool op_case_init(struct op_case *c, const struct rlx_op_def *def, unsigned int i,
		  enum rlx_dtype real, uint64_t *seed)
{
	uint32_t k;

	memset(c, 0, sizeof(*c));
	c->def = def;
	c->args = calloc(1, def->args_size + 1u);
	CHECK(c->args);
	c->s.def = def;
	c->s.args = c->args;
	if (!is_asked(def) || !rlx_sample_get(i, &c->s)) {
		op_case_fini(c);
		return false;
	}
	CHECK(!rlx_args_resolve(def, c->args, &(struct rlx_error){ 0 }));
	for (k = 0; k < c->s.n_in; k++) {
		if (!c->s.in[k].dtype)
			continue;
		if (real && c->s.in[k].dtype == RLX_F32)
			c->s.in[k].dtype = real;
		c->data[k] = room(&c->s.in[k]);
		fill((struct rlx_tensor){ c->s.in[k], c->data[k] }, c->s.lo[k],
		     c->s.hi[k], seed);
	}
	return true;
}

void op_case_convert(struct op_case *to_case, const struct op_case *c,
		     enum rlx_dtype from, enum rlx_dtype to)
{
	uint32_t k;
	int64_t i;

	*to_case = *c;
	to_case->args = NULL;	/* shared: freed with @c */
	to_case->s.args = c->args;
	for (k = 0; k < c->s.n_in; k++) {
		struct rlx_tensor s = { c->s.in[k], c->data[k] }, d;

		if (!c->data[k])
			continue;
		if (s.type.dtype == from)
			to_case->s.in[k].dtype = to;
		d = (struct rlx_tensor){ to_case->s.in[k], room(&to_case->s.in[k]) };
		to_case->data[k] = d.data;
		for (i = 0; i < rlx_type_count(&s.type); i++)
			if (s.type.dtype == d.type.dtype)
				el_copy(&d, i, &s, i);
			else
				el_set(&d, i, el_get(&s, i));
	}
}

void op_case_fini(struct op_case *c)
{
	uint32_t k;

	for (k = 0; k < RLX_SAMPLE_IN; k++)
		free(c->data[k]);
	for (k = 0; c->args && k < c->s.n_graphs; k++)
		rlx_graph_put(c->s.graphs[k]);
	free(c->args);
}

struct rlx_graph *op_case_graph(const struct op_case *c)
{
	struct rlx_graph *g = rlx_graph_new(c->def->name);
	struct rlx_op_ref ref = { c->def };
	unsigned char args[4096] = { 0 };
	rlx_value in[RLX_SAMPLE_IN] = { 0 }, v;
	unsigned int i, k = 0;
	char name[16];

	memcpy(args, c->s.args, c->def->args_size);
	for (i = 0; i < c->s.n_in; i++) {
		snprintf(name, sizeof(name), "%u", i);
		if (c->s.in[i].dtype)
			in[i] = i && c->fixed ? rlx_constant(g, c->s.in[i], c->data[i]) :
				rlx_input(g, name, c->s.in[i]);
	}
	for (i = 0; i < c->def->n_field; i++) {
		const struct rlx_field *f = &c->def->field[i];

		if (f->role == RLX_FIELD_IN || f->role == RLX_FIELD_OPT)
			*(rlx_value *)(void *)(args + f->offset) = in[k++];
	}
	for (i = 0; i < c->def->n_field; i++)
		if (c->def->field[i].role == RLX_FIELD_INS)
			*(struct rlx_values *)(void *)(args + c->def->field[i].offset) =
				(struct rlx_values){ in + k, c->s.n_in - k };
	v = rlx_emit_raw(g, &ref, args, c->def->args_size, __FILE__, __LINE__);
	for (i = 0; rlx_out(g, v, i).id; i++) {
		snprintf(name, sizeof(name), "%u", i);
		rlx_output(g, name, rlx_out(g, v, i));
	}
	if (rlx_graph_finish(g)) {	/* the caller reads the graph's error */
	}
	return g;
}

static enum rlx_status run(const struct op_case *c, struct rlx_session *s,
			   struct op_result *out)
{
	struct rlx_program *p = rlx_session_program(s);
	enum rlx_status st = RLX_OK;
	unsigned int i, n = rlx_program_io_count(p, RLX_IO_OUTPUT);
	char name[16];

	for (i = 0; i < c->s.n_in && !st; i++) {
		snprintf(name, sizeof(name), "%u", i);
		if (c->s.in[i].dtype && !(i && c->fixed))
			st = rlx_session_set(s, RLX_IO_INPUT, name, c->s.in[i], c->data[i]);
	}
	for (i = 0; i < n && !st; i++) {
		struct rlx_buf b = rlx_session_buf(s, RLX_IO_OUTPUT,
						   rlx_program_io_name(p, RLX_IO_OUTPUT, i));

		CHECK(rlx_buf_ptr(b));
		memset(rlx_buf_ptr(b), 0xa5, b.bytes);
	}
	if (!st)
		st = rlx_session_run(s);
	CHECKF(!upper_in_use(), "%s leaves upper halves of vector registers in use", c->def->name);
	for (i = 0; i < n && !st; i++) {
		out->type[i] = *rlx_program_io_type(p, RLX_IO_OUTPUT, i);
		out->data[i] = room(&out->type[i]);
		st = rlx_session_get(s, RLX_IO_OUTPUT, rlx_program_io_name(p, RLX_IO_OUTPUT, i),
				     out->type[i], out->data[i]);
		out->n_out = i + 1;
	}
	return st;
}

enum rlx_status op_case_run(const struct op_case *c, const char *device,
			    struct op_result *out, struct rlx_error *err)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
	struct rlx_graph *g = op_case_graph(c);
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	enum rlx_status st;

	memset(out, 0, sizeof(*out));
	*err = (struct rlx_error){ 0 };
	op_case_host_is_fine();
	st = rlx_compile(g, &o, &p, err);
	rlx_graph_put(g);
	if (!st)
		st = rlx_session_new(p, NULL, &s, err);
	if (!st)
		st = run(c, s, out);
	if (st && s && rlx_session_error(s)->status)
		*err = *rlx_session_error(s);
	rlx_session_free(s);
	rlx_program_put(p);
	return st;
}

void op_result_fini(struct op_result *r)
{
	unsigned int i;

	for (i = 0; i < r->n_out; i++)
		free(r->data[i]);
	r->n_out = 0;
}

double op_result_bound(const struct op_result *truth, unsigned int k, double tol)
{
	struct rlx_tensor t = { truth->type[k], truth->data[k] };
	int64_t n = rlx_type_count(&t.type), i;
	double scale = 0;

	if (rlx_dtype_is_float(t.type.dtype) || t.type.dtype == RLX_C64)
		return tol;
	for (i = 0; i < n; i++)
		scale = fmax(scale, fabs(el_get(&t, i)));
	return scale > 0 ? round(tol * scale) / scale * (1 + 1e-9) : tol;
}

double op_result_error(const struct op_result *got, const struct op_result *truth,
		       unsigned int k)
{
	struct rlx_tensor g = { got->type[k], got->data[k] };
	struct rlx_tensor t = { truth->type[k], truth->data[k] };
	int64_t n = rlx_type_count(&t.type), i;
	double most = 0, scale = 0;

	if (rlx_type_count(&g.type) != n)
		return INFINITY;
	for (i = 0; i < n; i++) {
		double a = el_get(&g, i), b = el_get(&t, i);

		if (isnan(b) || isinf(b)) {
			if (!(isnan(a) && isnan(b)) && a != b)
				return INFINITY;
			continue;
		}
		if (isnan(a) || isinf(a))
			return INFINITY;
		most = fmax(most, fabs(a - b));
		scale = fmax(scale, fabs(b));
	}
	return scale > 0 ? most / scale : most;
}
