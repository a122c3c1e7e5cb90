// SPDX-License-Identifier: MIT
/* Convolutions of f64 on the CPU: as many images at a time as their columns may take memory. */
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { IMAGES = 13, CHANNELS = 32, SIDE = 50, OUT = 3 };

/* The columns of an image: 9 taps of all its elements, 5.8 MB. */
static struct rlx_session *session_of(bool transposed, int64_t n, const double *w)
{
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = "cpu", .flags = RLX_COMPILE_NATIVE,
	};
	struct rlx_graph *g = rlx_graph_new("f64");
	int64_t in = transposed ? OUT : CHANNELS;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F64, n, in, SIDE, SIDE));
	rlx_value b = rlx_constant(g, rlx_type(RLX_F64, transposed ? CHANNELS : OUT), w);
	rlx_value k = rlx_constant(g, rlx_type(RLX_F64, OUT, CHANNELS, 3, 3), w);
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_program_info info;
	struct rlx_error err = { 0 };

	rlx_output(g, "y", transposed ?
		   rlx_emit(g, conv_transpose, .x = x, .w = k, .bias = b,
			    .pad = RLX_INTS(1, 1, 1, 1)) :
		   rlx_emit(g, conv, .x = x, .w = k, .bias = b, .pad = RLX_INTS(1, 1, 1, 1)));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_program_info(p, &info);
	CHECKF(info.work_bytes < 80 << 20, "%llu bytes", (unsigned long long)info.work_bytes);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

/* Bit for bit what each image gives alone. */
static void in_passes(bool transposed)
{
	uint64_t seed = rlx_test_seed();
	size_t in = (transposed ? OUT : CHANNELS) * SIDE * SIDE, i, k;
	size_t out = (transposed ? CHANNELS : OUT) * SIDE * SIDE;
	double w[OUT * CHANNELS * 9], *x, *y, *one;
	struct rlx_session *all, *s;

	for (i = 0; i < sizeof(w) / sizeof(*w); i++)
		w[i] = rlx_test_uniform(&seed, -1, 1);
	all = session_of(transposed, IMAGES, w);
	s = session_of(transposed, 1, w);
	x = rlx_buf_ptr(rlx_session_buf(all, RLX_IO_INPUT, "x"));
	y = rlx_buf_ptr(rlx_session_buf(all, RLX_IO_OUTPUT, "y"));
	for (i = 0; i < IMAGES * in; i++)
		x[i] = rlx_test_uniform(&seed, -1, 1);
	memset(y, 0xff, IMAGES * out * sizeof(*y));
	CHECK(!rlx_session_run(all));
	one = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "y"));
	for (k = 0; k < IMAGES; k++) {
		memcpy(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x")), x + k * in,
		       in * sizeof(*x));
		CHECK(!rlx_session_run(s));
		CHECKF(!memcmp(one, y + k * out, out * sizeof(*y)), "image %zu", k);
	}
	rlx_session_free(all);
	rlx_session_free(s);
}

TEST(images_in_passes) { in_passes(false); }
TEST(images_of_transposed_ones_in_passes) { in_passes(true); }

/* A drawn convolution of one output channel a group. */
struct few {
	int64_t	n, groups, per, in[3], k[3], s[3], d[3], p[3];
	int	rank;
	bool	transposed, bias;
};

static struct few draw_few(uint64_t *seed)
{
	struct few f = { .n = 1 + (int64_t)(rlx_test_rand(seed) % 3),
			 .groups = 1 + (int64_t)(rlx_test_rand(seed) % 4),
			 .per = 1 + (int64_t)(rlx_test_rand(seed) % 3),
			 .rank = 1 + (int)(rlx_test_rand(seed) % 3),
			 .transposed = rlx_test_rand(seed) % 2, .bias = rlx_test_rand(seed) % 2 };

	for (int i = 0; i < f.rank; i++) {
		f.k[i] = 1 + (int64_t)(rlx_test_rand(seed) % 4);
		f.s[i] = 1 + (int64_t)(rlx_test_rand(seed) % 3);
		f.d[i] = 1 + (int64_t)(rlx_test_rand(seed) % 3);
		f.p[i] = (int64_t)(rlx_test_rand(seed) % 3);
		if (f.transposed)	/* something is left of the smallest */
			f.p[i] %= (f.k[i] - 1) * f.d[i] / 2 + 1;
		/* long rows are many runs of a channel */
		f.in[i] = (f.k[i] - 1) * f.d[i] + 1 + (int64_t)(rlx_test_rand(seed) %
								(f.rank == 2 ? 60 : 12));
	}
	return f;
}

static void emit_few(struct rig *r, const struct few *f, const double *x, const double *w)
{
	struct rlx_type xt = { RLX_F64, (uint32_t)f->rank + 2, { f->n, f->groups * f->per } };
	struct rlx_type wt = { RLX_F64, (uint32_t)f->rank + 2, { f->groups, f->per } };
	int64_t pad[6];
	rlx_value vx, vw, b;
	int i;

	for (i = 0; i < f->rank; i++) {
		xt.dim[2 + i] = f->in[i];
		wt.dim[2 + i] = f->k[i];
		pad[i] = pad[f->rank + i] = f->p[i];
	}
	if (f->transposed) {
		wt.dim[0] = f->groups * f->per;
		wt.dim[1] = 1;
	}
	vx = rig_input(r, xt, x);
	vw = rig_input(r, wt, w);
	b = f->bias ? rig_input(r, rlx_type(RLX_F64, f->groups), w + 1) : RLX_NONE;
	rig_output(r, f->transposed ?
		   rlx_emit(r->g, conv_transpose, .x = vx, .w = vw, .bias = b,
			    .groups = f->groups, .stride = { f->s, (uint32_t)f->rank },
			    .pad = { pad, 2 * (uint32_t)f->rank },
			    .dilation = { f->d, (uint32_t)f->rank }) :
		   rlx_emit(r->g, conv, .x = vx, .w = vw, .bias = b,
			    .groups = f->groups, .stride = { f->s, (uint32_t)f->rank },
			    .pad = { pad, 2 * (uint32_t)f->rank },
			    .dilation = { f->d, (uint32_t)f->rank }));
}

/* Those run without columns. */
TEST(one_channel_a_group)
{
	enum { DRAWS = 60, MOST = 1 << 20 };
	uint64_t seed = rlx_test_seed();
	double *x = malloc(MOST * sizeof(*x));
	struct rig ref, cpu;
	int64_t i;
	int d;

	CHECK(x);
	for (i = 0; i < MOST; i++)
		x[i] = rlx_test_uniform(&seed, -1, 1);
	for (d = 0; d < DRAWS; d++) {
		struct few f = draw_few(&seed);

		rig_init(&ref, NULL);
		rig_init(&cpu, "cpu");
		emit_few(&ref, &f, x, x + 77);
		emit_few(&cpu, &f, x, x + 77);
		rig_run(&ref);
		rig_run(&cpu);
		for (i = 0; i < rlx_type_count(&cpu.out[0].type); i++)
			rig_want(&cpu, 0, i, rig_get(&ref, 0, i), 1e-13);
		rig_fini(&ref);
		rig_fini(&cpu);
	}
	free(x);
}

TEST_MAIN()
