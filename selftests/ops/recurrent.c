// SPDX-License-Identifier: MIT
/*
 * lstm, gru and rnn on the CPU by kernels alone, at every instruction set level, against the
 * evaluation in double: forms and data drawn by chance, weights as constants or not, NaN and
 * infinities among the inputs, and lengths out of range.
 */
#include "ir/element.h"
#include "rlx/run.h"
#include "selftests/kernels/isa.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/rnn_form.h"

enum { ROUNDS = 150 };

struct data {
	struct rlx_tensor	in[RNN_INPUTS], want[3], got[3];
	unsigned int		fixed;		/* bit k: input k is a constant */
};

static struct rlx_tensor tensor_new(struct rlx_type t)
{
	struct rlx_tensor x = { t, malloc((size_t)rlx_type_bytes(&t) + 1) };

	CHECK(x.data);
	memset(x.data, 0xa5, (size_t)rlx_type_bytes(&t));
	return x;
}

static void fill(struct rlx_tensor *x, double range, bool odd, uint64_t *seed)
{
	static const double special[] = { NAN, INFINITY, -INFINITY };
	int64_t i, n = rlx_type_count(&x->type);

	for (i = 0; i < n; i++)
		el_set(x, i, rlx_test_uniform(seed, -range, range));
	if (odd && n)
		el_set(x, (int64_t)(rlx_test_rand(seed) % (uint64_t)n),
		       special[rlx_test_rand(seed) % 3]);
}

static void data_init(struct data *d, const struct rnn_form *f, uint64_t *seed)
{
	/* states without bounds may become so small as to be 0 in f32: NaN, times infinity */
	const bool may_be_odd = f->type[RNN_X].dtype == RLX_F64 || !f->n_act;
	int k;

	*d = (struct data){ .fixed = (unsigned int)rlx_test_rand(seed) & 0xff };
	if (rlx_test_rand(seed) & 1)
		d->fixed = rlx_test_rand(seed) & 1 ? 0xfe : 0;
	d->fixed &= ~1u;
	for (k = 0; k < RNN_INPUTS; k++) {
		if (!f->type[k].dtype)
			continue;
		d->in[k] = tensor_new(f->type[k]);
		if (k == RNN_LENS)
			rnn_form_lens(f, &d->in[k], seed);
		if (k != RNN_LENS)
			fill(&d->in[k], f->range[k],
			     may_be_odd && rlx_test_rand(seed) % 12 == 0, seed);
	}
}

static void data_fini(struct data *d)
{
	int k;

	for (k = 0; k < RNN_INPUTS; k++)
		free(d->in[k].data);
	for (k = 0; k < 3; k++) {
		free(d->want[k].data);
		free(d->got[k].data);
	}
}

static struct rlx_graph *graph_of(const struct rnn_form *f, const struct data *d)
{
	struct rlx_graph *g = rlx_graph_new("recurrent");
	rlx_value in[RNN_INPUTS], y;
	char name[16];
	uint32_t k;

	for (k = 0; k < RNN_INPUTS; k++) {
		snprintf(name, sizeof(name), "i%u", k);
		if (f->type[k].dtype)
			in[k] = d->fixed >> k & 1 ? rlx_constant(g, f->type[k], d->in[k].data) :
						    rlx_input(g, name, f->type[k]);
	}
	y = rnn_form_emit(g, f, in);
	for (k = 0; k < rnn_form_outputs(f); k++) {
		snprintf(name, sizeof(name), "o%u", k);
		rlx_output(g, name, rlx_out(g, y, k));
	}
	CHECKF(!rlx_graph_finish(g), "%s: %s", rnn_form_text(f), rlx_graph_error(g)->text);
	return g;
}

static enum rlx_status run(struct rlx_graph *g, const struct rnn_form *f, const struct data *d,
			   const char *device, struct rlx_tensor *out)
{
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = device, .threads = 1, .flags = RLX_COMPILE_NATIVE,
	};
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st;
	char name[16];
	uint32_t k;

	CHECKF(!rlx_compile(g, &o, &p, &err), "%s: %s", rnn_form_text(f), err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	for (k = 0; k < RNN_INPUTS; k++) {
		snprintf(name, sizeof(name), "i%u", k);
		if (f->type[k].dtype && !(d->fixed >> k & 1))
			CHECK(!rlx_session_set(s, RLX_IO_INPUT, name, f->type[k], d->in[k].data));
	}
	st = rlx_session_run(s);
	for (k = 0; !st && k < rnn_form_outputs(f); k++) {
		snprintf(name, sizeof(name), "o%u", k);
		if (!out[k].data)
			out[k] = tensor_new(*rlx_program_io_type(p, RLX_IO_OUTPUT, (unsigned int)
					    rlx_program_io_find(p, RLX_IO_OUTPUT, name)));
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, name, out[k].type, out[k].data));
	}
	rlx_session_free(s);
	rlx_program_put(p);
	return st;
}

/* States that grow without bounds are compared as far as floats of the dtype are. */
static void compare(const struct rnn_form *f, const struct data *d, double tol, const char *level)
{
	double a, b, most;
	unsigned int k;
	int64_t i, n;

	for (k = 0; k < rnn_form_outputs(f); k++) {
		n = rlx_type_count(&d->want[k].type);
		for (most = 1, i = 0; i < n; i++)
			if (isfinite(el_get(&d->want[k], i)))
				most = fmax(most, fabs(el_get(&d->want[k], i)));
		for (i = 0; i < n; i++) {
			a = el_get(&d->got[k], i);
			b = el_get(&d->want[k], i);
			CHECKF((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= tol * most,
			       "%s: output %u [%lld] is %.17g, not %.17g; constants %#x; %s", level,
			       k, (long long)i, a, b, d->fixed, rnn_form_text(f));
		}
	}
}

static void one(enum rlx_dtype dt, double tol, uint64_t *seed)
{
	struct rnn_form f;
	struct data d;
	struct rlx_graph *g;
	int l;

	do
		rnn_form_draw(&f, dt, seed);
	while (dt != RLX_F64 && rnn_form_steps(&f));
	data_init(&d, &f, seed);
	g = graph_of(&f, &d);
	CHECK(!run(g, &f, &d, "ref", d.want));
	for (l = RLX_ISA_BASE; l <= RLX_ISA_V4X; l++) {
		if (!isa_runs((enum rlx_isa)l))
			continue;
		setenv("RLX_ISA", isa_name((enum rlx_isa)l), 1);
		CHECK(!run(g, &f, &d, "cpu", d.got));
		compare(&f, &d, tol, isa_name((enum rlx_isa)l));
	}
	rlx_graph_put(g);
	data_fini(&d);
}

static void some(enum rlx_dtype dt, double tol)
{
	uint64_t seed = rlx_test_seed();
	int i;

	for (i = 0; i < ROUNDS; i++)
		one(dt, tol, &seed);
}

TEST(f32) { some(RLX_F32, 2e-5); }
TEST(f64) { some(RLX_F64, 1e-12); }
TEST(f16) { some(RLX_F16, 1e-3); }
TEST(bf16) { some(RLX_BF16, 8e-3); }

TEST(lengths_out_of_range)
{
	uint64_t seed = rlx_test_seed();
	struct rnn_form f;
	struct data d;
	struct rlx_graph *g;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		do
			rnn_form_draw(&f, i & 1 ? RLX_F64 : RLX_F32, &seed);
		while (!f.type[RNN_LENS].dtype || !f.batch || !f.hidden);
		data_init(&d, &f, &seed);
		el_seti(&d.in[RNN_LENS], (int64_t)(rlx_test_rand(&seed) % (uint64_t)f.batch),
			rlx_test_rand(&seed) & 1 ? f.steps + 1 : -1);
		d.fixed &= ~(1u << RNN_LENS);
		g = graph_of(&f, &d);
		CHECK_EQ(run(g, &f, &d, "ref", d.want), RLX_ERANGE);
		CHECK_EQ(run(g, &f, &d, "cpu", d.got), RLX_ERANGE);
		rlx_graph_put(g);
		data_fini(&d);
	}
}

TEST_MAIN()
