// SPDX-License-Identifier: MIT
/*
 * Gradients of lstm, gru and rnn in forms drawn by chance: in f64 against central differences of
 * the evaluation, compiled for each instruction set level, with NaN behind the ends of rows; of
 * narrower floats against those of f64; of second order against differences of the first.
 */
#include <float.h>

#include "ir/element.h"
#include "rlx/grad.h"
#include "rlx/run.h"
#include "selftests/kernels/isa.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/rnn_form.h"

enum { ROUNDS = 60, OUTPUTS = 3, MOST = RNN_INPUTS + OUTPUTS };

/* Inputs, and weights of the outputs, whose weighed sum is the loss; gradients by inputs. */
struct data {
	struct rnn_form		 f;
	struct rlx_tensor	 in[MOST];	/* a weight of output k at RNN_INPUTS + k */
	struct rlx_tensor	 d[RNN_INPUTS];
	double			 loss;
};

/* What of a graph is computed. */
enum what { LOSS, GRADIENT, SECOND };

static struct rlx_tensor tensor_new(struct rlx_type t)
{
	struct rlx_tensor x = { t, malloc((size_t)rlx_type_bytes(&t) + 1) };

	CHECK(x.data);
	memset(x.data, 0xa5, (size_t)rlx_type_bytes(&t));
	return x;
}

static void fill(struct rlx_tensor *x, double range, uint64_t *seed)
{
	int64_t i, n = rlx_type_count(&x->type);

	for (i = 0; i < n; i++)
		el_set(x, i, rlx_test_uniform(seed, -range, range));
}

static bool is_float(const struct data *d, int k)
{
	return d->f.type[k].dtype && k != RNN_LENS;
}

/* Nobody reads them: they are in no result and no gradient. */
static void poison_ends(struct data *d)
{
	const struct rnn_form *f = &d->f;
	int64_t t, b, i;

	for (b = 0; f->type[RNN_LENS].dtype && b < f->batch; b++)
		for (t = el_geti(&d->in[RNN_LENS], b); t < f->steps; t++)
			for (i = 0; i < f->in; i++)
				el_set(&d->in[RNN_X], (f->batch_first ? b * f->steps + t :
						       t * f->batch + b) * f->in + i, NAN);
}

static void data_init(struct data *d, enum rlx_dtype dt, uint64_t *seed)
{
	struct rnn_form *f = &d->f;
	int64_t h = 0;
	int k;

	memset(d, 0, sizeof(*d));
	do
		rnn_form_draw(f, dt, seed);
	while (f->hidden > 12);
	h = f->hidden;
	for (k = 0; k < RNN_INPUTS; k++) {
		if (!f->type[k].dtype)
			continue;
		d->in[k] = tensor_new(f->type[k]);
		if (k == RNN_LENS)
			rnn_form_lens(f, &d->in[k], seed);
		if (k != RNN_LENS) {
			fill(&d->in[k], f->range[k], seed);
			d->d[k] = tensor_new(f->type[k]);
		}
	}
	for (k = 0; k < (int)rnn_form_outputs(f); k++) {
		d->in[RNN_INPUTS + k] = tensor_new(k ? rlx_type(dt, f->dirs, f->batch, h) :
						       rlx_type(dt, f->steps, f->dirs, f->batch, h));
		if (f->batch_first)
			d->in[RNN_INPUTS + k].type = k ? rlx_type(dt, f->batch, f->dirs, h) :
				rlx_type(dt, f->batch, f->steps, f->dirs, h);
		fill(&d->in[RNN_INPUTS + k], 1, seed);
	}
	poison_ends(d);
}

static void data_fini(struct data *d)
{
	int k;

	for (k = 0; k < MOST; k++)
		free(d->in[k].data);
	for (k = 0; k < RNN_INPUTS; k++)
		free(d->d[k].data);
}

static rlx_value weighed(struct rlx_graph *g, rlx_value x, rlx_value w)
{
	return rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = x, .b = w));
}

static rlx_value sum_of(struct rlx_graph *g, rlx_value a, rlx_value b)
{
	return a.id ? rlx_emit(g, add, .a = a, .b = b) : b;
}

static void gradients(struct rlx_graph *g, const struct data *d, const rlx_value *in,
		      rlx_value *loss, rlx_value *out)
{
	rlx_value wrt[RNN_INPUTS], by[RNN_INPUTS];
	uint32_t n = 0;
	int k;

	for (k = 0; k < RNN_INPUTS; k++)
		if (is_float(d, k))
			wrt[n++] = in[k];
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { loss, 1 },
				     .wrt = { wrt, n } }, by);
	for (k = 0, n = 0; k < RNN_INPUTS; k++)
		out[k] = is_float(d, k) ? by[n++] : RLX_NONE;
}

/* Second order: the loss becomes the sum of the squares of the gradients. */
static struct rlx_graph *graph_of(const struct data *d, enum what what)
{
	struct rlx_graph *g = rlx_graph_new("gradient");
	rlx_value in[MOST] = { 0 }, y, loss = RLX_NONE, by[RNN_INPUTS], s = RLX_NONE;
	char name[16];
	int k;

	for (k = 0; k < MOST; k++) {
		snprintf(name, sizeof(name), "i%d", k);
		if (d->in[k].data)
			in[k] = rlx_input(g, name, d->in[k].type);
	}
	y = rnn_form_emit(g, &d->f, in);
	for (k = 0; k < (int)rnn_form_outputs(&d->f); k++)
		loss = sum_of(g, loss, weighed(g, rlx_out(g, y, (unsigned int)k),
					       in[RNN_INPUTS + k]));
	if (what != LOSS)
		gradients(g, d, in, &loss, by);
	if (what == SECOND) {
		for (k = 0; k < RNN_INPUTS; k++)
			if (is_float(d, k))
				s = sum_of(g, s, weighed(g, by[k], by[k]));
		loss = s;
		gradients(g, d, in, &loss, by);
	}
	rlx_output(g, "loss", loss);
	for (k = 0; what != LOSS && k < RNN_INPUTS; k++) {
		snprintf(name, sizeof(name), "d%d", k);
		if (is_float(d, k))
			rlx_output(g, name, by[k]);
	}
	CHECKF(!rlx_graph_finish(g), "%s: %s", rnn_form_text(&d->f), rlx_graph_error(g)->text);
	return g;
}

static struct rlx_session *session_of(const struct data *d, enum what what, const char *device)
{
	const struct rnn_form *f = &d->f;
	bool native = f->steps && f->batch && f->in && f->hidden;
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = device, .threads = 1,
		.flags = native ? RLX_COMPILE_NATIVE : 0,
	};
	struct rlx_graph *g = graph_of(d, what);
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };

	if (!native)	/* sums over nothing are */
		op_case_host_is_fine();
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s: %s", rnn_form_text(&d->f), err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

static void run(struct rlx_session *s, struct data *d, enum what what)
{
	struct rlx_type t = rlx_scalar(d->f.type[RNN_X].dtype);
	struct rlx_tensor loss = tensor_new(t);
	char name[16];
	int k;

	for (k = 0; k < MOST; k++) {
		snprintf(name, sizeof(name), "i%d", k);
		if (d->in[k].data)
			CHECK(!rlx_session_set(s, RLX_IO_INPUT, name, d->in[k].type,
					       d->in[k].data));
	}
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "loss", t, loss.data));
	d->loss = el_get(&loss, 0);
	free(loss.data);
	for (k = 0; what != LOSS && k < RNN_INPUTS; k++) {
		snprintf(name, sizeof(name), "d%d", k);
		if (is_float(d, k))
			CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, name, d->f.type[k],
					       d->d[k].data));
	}
}

/* The loss's slope along @dir from input @k; the session computes the loss. */
static double slope(struct rlx_session *s, struct data *d, int k, const double *dir, double h,
		    enum what what)
{
	struct rlx_tensor *x = &d->in[k];
	int64_t n = rlx_type_count(&x->type), i;
	double *keep = x->data, up;

	x->data = malloc((size_t)n * sizeof(double) + 1);
	CHECK(x->data);
	for (i = 0; i < n; i++)
		el_set(x, i, keep[i] + h * dir[i]);
	run(s, d, what);
	up = d->loss;
	for (i = 0; i < n; i++)
		el_set(x, i, keep[i] - h * dir[i]);
	run(s, d, what);
	free(x->data);
	x->data = keep;
	return (up - d->loss) / (2 * h);
}

/* d->d[k] along a direction against the slope of what @s computes as its loss. */
static void check(struct rlx_session *s, struct data *d, int k, enum what what, uint64_t *seed)
{
	int64_t n = rlx_type_count(&d->f.type[k]), i;
	double *dir = calloc((size_t)n + 1, sizeof(*dir)), got = 0, size = 1, want = 0, h,
	       noise = 0;

	CHECK(dir);
	for (i = 0; i < n; i++) {
		dir[i] = rlx_test_uniform(seed, -1, 1);
		got += dir[i] * el_get(&d->d[k], i);
		size += fabs(dir[i] * el_get(&d->d[k], i));
	}
	/* a step may cross a kink of an activation: then a smaller one */
	for (h = 1e-5; h > 0.5e-7; h /= 10) {
		want = slope(s, d, k, dir, h, what);
		noise = 64 * DBL_EPSILON * (1 + fabs(d->loss)) / h;
		if (fabs(got - want) <= 1e-6 * fmax(size, fabs(want)) + noise)
			break;
	}
	CHECKF(fabs(got - want) <= 1e-6 * fmax(size, fabs(want)) + noise,
	       "input %d: gradient %.10g, difference %.10g; %s", k, got, want,
	       rnn_form_text(&d->f));
	free(dir);
}

TEST(differences)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_session *loss, *grad;
	struct data d;
	int i, k, l;

	for (i = 0; i < ROUNDS; i++) {
		data_init(&d, RLX_F64, &seed);
		loss = session_of(&d, LOSS, "ref");
		for (l = RLX_ISA_BASE; l <= RLX_ISA_V4X; l++) {
			if (!isa_runs((enum rlx_isa)l))
				continue;
			setenv("RLX_ISA", isa_name((enum rlx_isa)l), 1);
			grad = session_of(&d, GRADIENT, "cpu");
			run(grad, &d, GRADIENT);
			rlx_session_free(grad);
			for (k = 0; k < RNN_INPUTS; k++)
				if (is_float(&d, k))
					check(loss, &d, k, LOSS, &seed);
		}
		unsetenv("RLX_ISA");
		rlx_session_free(loss);
		data_fini(&d);
	}
}

/*
 * The first order's own differences: its loss is the sum of squares. Gates without bounds square
 * a state with each step, up to where its gradient's square is beyond double: nothing is to be
 * told from those.
 */
TEST(second_order)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_session *s;
	struct data d;
	int i, k, seen = 0;

	for (i = 0; i < ROUNDS / 3; i++) {
		data_init(&d, RLX_F64, &seed);
		s = session_of(&d, SECOND, "cpu");
		run(s, &d, SECOND);
		seen += fabs(d.loss) < 1e60;
		for (k = 0; fabs(d.loss) < 1e60 && k < RNN_INPUTS; k++)
			if (is_float(&d, k))
				check(s, &d, k, LOSS, &seed);
		rlx_session_free(s);
		data_fini(&d);
	}
	CHECKF(seen > ROUNDS / 6, "%d of %d are finite", seen, ROUNDS / 3);
}

/* The largest of all gradients. */
static double largest(const struct data *d)
{
	double most = 1;
	int64_t j;
	int k;

	for (k = 0; k < RNN_INPUTS; k++)
		for (j = 0; is_float(d, k) && j < rlx_type_count(&d->f.type[k]); j++)
			most = fmax(most, fabs(el_get(&d->d[k], j)));
	return most;
}

/* @d's numbers in f64. */
static void widen(const struct data *d, struct data *wide)
{
	int64_t j;
	int k;

	*wide = *d;
	for (k = 0; k < MOST; k++) {
		if (!d->in[k].data || k == RNN_LENS)
			continue;
		wide->in[k].type.dtype = RLX_F64;
		wide->in[k] = tensor_new(wide->in[k].type);
		for (j = 0; j < rlx_type_count(&wide->in[k].type); j++)
			el_set(&wide->in[k], j, el_get(&d->in[k], j));
		if (k >= RNN_INPUTS)
			continue;
		wide->f.type[k].dtype = RLX_F64;
		wide->d[k] = tensor_new(wide->f.type[k]);
	}
}

/* The same numbers in @dt and in f64, unless they grow as activations without bounds let them. */
static void narrow(enum rlx_dtype dt, double tol)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_session *s;
	struct data d, wide;
	int i, k, checked = 0;
	double most;
	int64_t j;

	for (i = 0; i < ROUNDS; i++) {
		data_init(&d, dt, &seed);
		widen(&d, &wide);
		s = session_of(&wide, GRADIENT, "ref");
		run(s, &wide, GRADIENT);
		rlx_session_free(s);
		most = largest(&wide);
		if (most < 1e3 && !rnn_form_steps(&d.f)) {
			s = session_of(&d, GRADIENT, "cpu");
			run(s, &d, GRADIENT);
			rlx_session_free(s);
			checked++;
		} else {
			most = INFINITY;
		}
		for (k = 0; k < RNN_INPUTS; k++)
			for (j = 0; is_float(&d, k) && isfinite(most) &&
			     j < rlx_type_count(&d.f.type[k]); j++)
				CHECKF(fabs(el_get(&d.d[k], j) - el_get(&wide.d[k], j)) <=
				       tol * most, "input %d: %g, not %g; %s", k,
				       el_get(&d.d[k], j), el_get(&wide.d[k], j),
				       rnn_form_text(&d.f));
		wide.in[RNN_LENS].data = NULL;
		data_fini(&wide);
		data_fini(&d);
	}
	CHECKF(checked > ROUNDS / 4, "only %d of %d", checked, ROUNDS);
}

TEST(gradients_of_f32) { narrow(RLX_F32, 1e-4); }
TEST(gradients_of_f16) { narrow(RLX_F16, 2e-2); }
TEST(gradients_of_bf16) { narrow(RLX_BF16, 1e-1); }

TEST_MAIN()
