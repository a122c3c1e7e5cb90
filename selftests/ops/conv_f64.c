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

TEST_MAIN()
