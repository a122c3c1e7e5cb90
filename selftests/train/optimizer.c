// SPDX-License-Identifier: MIT
/*
 * Optimizers for 100 steps against the formulas written out here in double: with variables of
 * f64 to the last digits, with those of f32 as near as f32 is. The loss is <c, w> with c drawn
 * at each step, so that the gradient is c.
 */
#include "selftests/lib/train_rig.h"

enum { ROWS = 6, COLS = 4, N = ROWS * COLS, STEPS = 100 };

/* What a formula keeps, and one step of it: w by g, step @t from 1 on. */
struct model {
	double	w[N], m[N], v[N], r[ROWS], c[COLS], ema[N];
};
typedef void formula(struct model *x, const struct rlx_optimizer *o, const double *g, double lr,
		     int t);

static void sgd(struct model *x, const struct rlx_optimizer *o, const double *g, double lr, int t)
{
	int i;

	for (i = 0; i < N; i++) {
		double d = g[i] + o->decay * x->w[i];

		x->m[i] = o->momentum * x->m[i] + d;
		x->w[i] -= lr * (o->nesterov ? d + o->momentum * x->m[i] : x->m[i]);
	}
}

static void adamw(struct model *x, const struct rlx_optimizer *o, const double *g, double lr,
		  int t)
{
	int i;

	for (i = 0; i < N; i++) {
		x->w[i] *= 1 - lr * o->decay;
		x->m[i] += (1 - o->beta1) * (g[i] - x->m[i]);
		x->v[i] = o->beta2 * x->v[i] + (1 - o->beta2) * g[i] * g[i];
		x->w[i] -= lr / (1 - pow(o->beta1, t)) * x->m[i] /
			   (sqrt(x->v[i]) / sqrt(1 - pow(o->beta2, t)) + o->eps);
	}
}

static void lion(struct model *x, const struct rlx_optimizer *o, const double *g, double lr, int t)
{
	int i;

	for (i = 0; i < N; i++) {
		double c = o->beta1 * x->m[i] + (1 - o->beta1) * g[i];

		x->w[i] -= lr * ((c > 0) - (c < 0) + o->decay * x->w[i]);
		x->m[i] = o->beta2 * x->m[i] + (1 - o->beta2) * g[i];
	}
}

/* c = a b, [COLS, @k] by [@k, @m]; or a a' without b, @m being COLS */
static void product(const double *a, const double *b, double *c, int k, int m)
{
	int i, j, p;

	for (i = 0; i < COLS; i++)
		for (j = 0; j < m; j++)
			for (c[i * m + j] = 0, p = 0; p < k; p++)
				c[i * m + j] += a[i * k + p] * (b ? b[p * m + j] : a[j * k + p]);
}

static void muon(struct model *x, const struct rlx_optimizer *o, const double *g, double lr, int t)
{
	double u[N], a[COLS * COLS], b[COLS * COLS], y[N], norm = 0, s;
	int i, j, k;

	for (i = 0; i < N; i++) {
		x->m[i] += (1 - o->momentum) * (g[i] - x->m[i]);
		s = o->nesterov ? g[i] + o->momentum * (x->m[i] - g[i]) : x->m[i];
		u[i % COLS * ROWS + i / COLS] = s;	/* more rows than columns: transposed */
		norm += s * s;
	}
	norm = fmax(sqrt(norm), 1e-7);
	for (i = 0; i < N; i++)
		u[i] /= norm;
	for (k = 0; k < 5; k++) {
		product(u, NULL, a, ROWS, COLS);
		product(a, a, b, COLS, COLS);
		for (i = 0; i < COLS * COLS; i++)
			b[i] = -4.7750 * a[i] + 2.0315 * b[i];
		product(b, u, y, COLS, ROWS);
		for (i = 0; i < N; i++)
			u[i] = 3.4445 * u[i] + y[i];
	}
	s = sqrt(fmax(1, (double)COLS / ROWS));
	for (i = 0; i < ROWS; i++)
		for (j = 0; j < COLS; j++)
			x->w[i * COLS + j] = x->w[i * COLS + j] * (1 - lr * o->decay) -
					     lr * s * u[j * ROWS + i];
}

static double rms(const double *x)
{
	double s = 0;
	int i;

	for (i = 0; i < N; i++)
		s += x[i] * x[i];
	return sqrt(s / N);
}

static void adafactor(struct model *x, const struct rlx_optimizer *o, const double *g, double lr,
		      int t)
{
	double k = pow(t, -0.8), a = fmax(1e-3, rms(x->w)) * fmin(lr, 1 / sqrt(t)), mean = 0, u[N];
	double e = 0x1p-23, clip = o->clip != 0 ? o->clip : 1, row, col;
	int i, j;

	for (i = 0; i < ROWS; i++) {
		for (row = 0, j = 0; j < COLS; j++)
			row += g[i * COLS + j] * g[i * COLS + j] / COLS;
		x->r[i] += k * (row - x->r[i]);
		mean += x->r[i] / ROWS;
	}
	for (j = 0; j < COLS; j++) {
		for (col = 0, i = 0; i < ROWS; i++)
			col += g[i * COLS + j] * g[i * COLS + j] / ROWS;
		x->c[j] += k * (col - x->c[j]);
	}
	for (i = 0; i < N; i++)
		u[i] = g[i] / sqrt(fmax(x->r[i / COLS] * x->c[i % COLS] / fmax(mean, e), e * e));
	a /= fmax(1, rms(u) / clip);
	for (i = 0; i < N; i++)
		x->w[i] = x->w[i] * (1 - lr * o->decay) - a * u[i];
}

static rlx_value step_graph(struct train_rig *r, enum rlx_dtype dt, const struct rlx_optimizer *o,
			    const struct rlx_train_opts *opts)
{
	struct rlx_type t = rlx_type(dt, ROWS, COLS);
	rlx_value w, loss;

	train_begin(r);
	w = rlx_var(r->g, r->v, "w", t, RLX_NORMAL(0.5), RLX_VAR_MATRIX);
	loss = rlx_emit(r->g, reduce, .x = rlx_emit(r->g, mul, .a = w,
						    .b = rlx_input(r->g, "c", t)));
	rlx_train_step(r->g, r->v, loss, rlx_input(r->g, "lr", rlx_scalar(RLX_F32)), opts, o);
	return w;
}

static void set_all(void *to, enum rlx_dtype dt, const double *from)
{
	int i;

	for (i = 0; i < N; i++)
		if (dt == RLX_F64)
			((double *)to)[i] = from[i];
		else
			((float *)to)[i] = (float)from[i];
}

static double element(const void *p, enum rlx_dtype dt, int i)
{
	return dt == RLX_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

/*
 * Some with a clip that bites, and an average of the weights. @tol is of weights up to 1: each
 * step rounds a larger one by as much more.
 */
static void compare(const char *device, enum rlx_dtype dt, const struct rlx_optimizer *o,
		    formula *f, double tol)
{
	struct rlx_train_opts opts = { .size = sizeof(opts), .clip_norm = 2.5, .ema = 0.9 };
	double g[N], top[N], norm, k, worst = 0, lr;
	uint64_t seed = rlx_test_seed();
	struct model x = { 0 };
	struct train_rig r;
	int t, i;

	step_graph(&r, dt, o, &opts);
	train_open(&r, device, 1, NULL, seed);
	for (i = 0; i < N; i++) {
		x.w[i] = x.ema[i] = element(train_at(&r, RLX_IO_STATE, "w"), dt, i);
		top[i] = 1;
	}
	for (t = 1; t <= STEPS; t++) {
		lr = (double)(float)(0.02 / (1 + 0.01 * t));
		for (norm = 0, i = 0; i < N; i++) {
			g[i] = (double)(float)rlx_test_uniform(&seed, -1, 1);
			norm += g[i] * g[i];
		}
		set_all(train_at(&r, RLX_IO_INPUT, "c"), dt, g);
		*(float *)train_at(&r, RLX_IO_INPUT, "lr") = (float)lr;
		train_run(&r);
		norm = sqrt(norm);
		CHECKF(fabs((double)*(float *)train_at(&r, RLX_IO_OUTPUT, "norm") - norm) <
		       1e-6 * norm, "norm");
		k = fmin(1, 2.5 / (norm + 1e-6));
		for (i = 0; i < N; i++)
			g[i] *= k;
		f(&x, o, g, lr, t);
		for (i = 0; i < N; i++) {
			x.ema[i] += 0.1 * (x.w[i] - x.ema[i]);
			top[i] = fmax(top[i], fabs(x.w[i]));
		}
	}
	for (i = 0; i < N; i++) {
		double a = element(train_at(&r, RLX_IO_STATE, "w"), dt, i);
		double e = element(train_at(&r, RLX_IO_STATE, "ema.w"), dt, i);

		worst = rlx_test_worse(worst, fabs(a - x.w[i]) / top[i]);
		worst = rlx_test_worse(worst, fabs(e - x.ema[i]) / top[i]);
	}
	CHECKF(worst <= tol, "%s, kind %d in %s: off by %g after %d steps", device, o->kind,
	       rlx_dtype_name(dt), worst, STEPS);
	train_end(&r);
}

#define SIZED	.size = sizeof(struct rlx_optimizer)
static const struct { struct rlx_optimizer o; formula *f; double f32; } cases[] = {
	{ { SIZED, .kind = RLX_SGD, .decay = 0.1 }, sgd, 2e-6 },
	{ { SIZED, .kind = RLX_SGD, .momentum = 0.9 }, sgd, 2e-6 },
	{ { SIZED, .kind = RLX_SGD, .momentum = 0.8, .nesterov = true, .decay = 0.05 }, sgd, 2e-6 },
	{ { SIZED, .kind = RLX_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1 },
	  adamw, 2e-6 },
	{ { SIZED, .kind = RLX_LION, .beta1 = 0.9, .beta2 = 0.99, .decay = 0.3 }, lion, 2e-6 },
	{ { SIZED, .kind = RLX_MUON, .momentum = 0.95, .decay = 0.1 }, muon, 2e-5 },
	{ { SIZED, .kind = RLX_MUON, .momentum = 0.9, .nesterov = true }, muon, 2e-5 },
	{ { SIZED, .kind = RLX_ADAFACTOR, .decay = 0.1 }, adafactor, 2e-6 },
	{ { SIZED, .kind = RLX_ADAFACTOR, .clip = 0.5 }, adafactor, 2e-6 },
};

TEST(formulas)
{
	unsigned int i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		compare("ref", RLX_F64, &cases[i].o, cases[i].f, 1e-11);
		compare("cpu", RLX_F64, &cases[i].o, cases[i].f, 1e-11);
		compare("cpu", RLX_F32, &cases[i].o, cases[i].f, cases[i].f32);
	}
}

/* What Muon leaves to another optimizer decays as that one says, or not at all. */
TEST(the_rest_has_a_decay_of_its_own)
{
	static const double decays[][2] = { { 0, 0.5 }, { 0.5, 0 }, { 0.25, 0.5 } };
	struct rlx_optimizer rest = { SIZED, .kind = RLX_SGD }, o = { SIZED, .kind = RLX_MUON };
	struct train_rig r;
	rlx_value w, loss;
	unsigned int i;
	double got;

	for (i = 0; i < sizeof(decays) / sizeof(decays[0]); i++) {
		o.rest = &rest;
		o.decay = decays[i][0];
		rest.decay = decays[i][1];
		train_begin(&r);
		w = rlx_var(r.g, r.v, "w", rlx_type(RLX_F64, 1), RLX_ONES, 0);
		loss = rlx_var(r.g, r.v, "no", rlx_type(RLX_F64, 1), RLX_ONES, RLX_VAR_NO_DECAY);
		loss = rlx_emit(r.g, add, .a = w, .b = loss);
		rlx_train_step(r.g, r.v, rlx_emit(r.g, mul, .a = loss, .b = rlx_scalar_const(r.g,
			       RLX_F64, 0)), rlx_scalar_const(r.g, RLX_F64, 0.5), NULL, &o);
		train_open(&r, "cpu", 1, NULL, 1);
		train_run(&r);
		got = *(double *)train_at(&r, RLX_IO_STATE, "w");
		CHECKF(got == 1 - 0.5 * rest.decay, "decay %g, of the rest %g: w is %g", o.decay,
		       rest.decay, got);
		CHECK(*(double *)train_at(&r, RLX_IO_STATE, "no") == 1);
		train_end(&r);
	}
}

/* What a step makes is told by its name from variables, which may not be called so. */
TEST(states_that_are_no_variables)
{
	struct rlx_train_opts opts = { .size = sizeof(opts), .accumulate = 2,
				       .scaling = RLX_SCALE_LOSS_DYNAMIC };
	static const char *const names[] = { "train.w", "grad.w", "sgd.w", "adamw.m.w", "lion.w",
					     "muon.b", "adafactor.x" };
	struct train_rig r;
	unsigned int i, k;
	const char *name;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		step_graph(&r, RLX_F32, &cases[i].o, &opts);
		for (k = 0; k < rlx_vars_count(r.v); k++) {
			name = rlx_vars_name(r.v, k);
			CHECKF(rlx_train_keeps(name) == !!strcmp(name, "w"), "kind %d: '%s'",
			       cases[i].o.kind, name);
		}
		train_end(&r);
	}
	CHECK(!rlx_train_keeps(NULL) && !rlx_train_keeps("ema.w") && !rlx_train_keeps("trainer"));
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		train_begin(&r);
		rlx_var(r.g, r.v, names[i], rlx_scalar(RLX_F32), RLX_ONES, 0);
		CHECKF(rlx_graph_error(r.g)->status == RLX_EINVAL, "'%s' is a variable", names[i]);
		train_end(&r);
	}
}

/* All states are replaced in their places, and a run allocates nothing. */
TEST(in_place)
{
	unsigned int i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rlx_train_opts opts = { .size = sizeof(opts), .clip_norm = 1, .ema = 0.9,
					       .scaling = RLX_SCALE_LOSS_DYNAMIC };
		char text[8192] = "", want[64];
		struct train_rig r;
		FILE *f;

		step_graph(&r, RLX_F32, &cases[i].o, &opts);
		train_open(&r, "cpu", 1, NULL, 1);
		memset(train_at(&r, RLX_IO_INPUT, "c"), 0, N * 4);
		*(float *)train_at(&r, RLX_IO_INPUT, "lr") = 0.1f;
		train_run(&r);
		f = fmemopen(text, sizeof(text), "w");
		CHECK(f && !rlx_program_report(r.p, f));
		fclose(f);
		snprintf(want, sizeof(want), "# %u states, 0 of them copied",
			 rlx_program_io_count(r.p, RLX_IO_STATE));
		CHECKF(strstr(text, want), "kind %d: %s", cases[i].o.kind, text);
		CHECKF(strstr(text, " 0 on the host"), "kind %d: %s", cases[i].o.kind, text);
		train_end(&r);
	}
}

static void bad(struct rlx_optimizer o, struct rlx_train_opts opts, const char *text)
{
	struct train_rig r;

	o.size = sizeof(o);
	opts.size = sizeof(opts);
	step_graph(&r, RLX_F32, &o, &opts);
	CHECKF(rlx_graph_error(r.g)->status == RLX_EINVAL &&
	       strstr(rlx_graph_error(r.g)->text, text), "'%s', not '%s'",
	       rlx_graph_error(r.g)->text, text);
	train_end(&r);
}

TEST(refusals)
{
	static const struct rlx_optimizer muon_too = { SIZED, .kind = RLX_MUON };
	struct rlx_train_opts none = { 0 };
	struct rlx_optimizer sgd_o = { .kind = RLX_SGD };

	bad((struct rlx_optimizer){ .kind = 17 }, none, "kind is not one");
	bad((struct rlx_optimizer){ .kind = RLX_ADAMW, .beta1 = 1 }, none, "below 1");
	bad((struct rlx_optimizer){ .kind = RLX_ADAMW, .decay = -1 }, none, "decay");
	bad((struct rlx_optimizer){ .kind = RLX_ADAMW, .eps = NAN }, none, "eps");
	bad((struct rlx_optimizer){ .kind = RLX_MUON, .rest = &muon_too }, none, "rest");
	bad(sgd_o, (struct rlx_train_opts){ .clip_norm = -1 }, "clip_norm");
	bad(sgd_o, (struct rlx_train_opts){ .ema = 1 }, "ema");
	bad(sgd_o, (struct rlx_train_opts){ .scaling = 9 }, "scaling");
}

TEST_MAIN()
