// SPDX-License-Identifier: MIT
/*
 * Quantized convolutions drawn at random, from bytes to bytes, against the same in floats: the
 * time of f32's convolution from f32 to f32, and of the graph whose weights no pass takes for
 * bytes ("dequantized"), as multiples of the quantized one's; fastest of runs in turns. Two
 * stars mark what is slower than both. RLX_ISA forces a level.
 *
 *	build/test/bench/qconv [CASES [SEED [THREADS]]]
 */
#include <math.h>

#include "selftests/bench/session_turn.h"
#include "selftests/lib/qdq_conv.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { TURNS = 5, TURN_NS = 1000000, SIDES = 3 };

static struct rlx_session *session_of(const struct qdq_conv *c, int side, unsigned int threads)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = threads,
				      .flags = RLX_COMPILE_NATIVE };
	struct rlx_type in = qdq_conv_input(c);
	struct rlx_session *s;
	struct xy_net n;
	struct rlx_buf b;
	rlx_value x;

	in.dtype = side == 1 ? RLX_F32 : c->x_signed ? RLX_I8 : RLX_U8;
	x = xy_begin(&n, in);
	xy_end(&n, side == 1 ? qdq_conv_f32(&n, c, x) : qdq_conv(&n, c, x, side == 2));
	s = rig_session(n.g, &o);
	b = rlx_session_buf(s, RLX_IO_INPUT, "x");
	if (side == 1)
		xy_fill(&n, rlx_buf_ptr(b), -3, 3);
	else
		memset(rlx_buf_ptr(b), 77, b.bytes);
	return s;
}

int main(int argc, char **argv)
{
	unsigned int cases = argc > 1 ? (unsigned int)atoi(argv[1]) : 40, i, slow = 0;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : rlx_test_seed();
	unsigned int threads = argc > 3 ? (unsigned int)atoi(argv[3]) : 1;
	double best[SIDES], logs = 0;
	struct rlx_session *s[SIDES];
	struct qdq_conv c;
	char name[256];
	int k, t;

	setlinebuf(stdout);
	printf("seed %llu\n     us    f32  dequantized\n", (unsigned long long)seed);
	for (i = 0; i < cases; i++) {
		qdq_conv_draw(&c, &seed, XY_MOST, 2e6, 1e9);
		c.quantized = true;
		qdq_conv_name(&c, name, sizeof(name));
		for (k = 0; k < SIDES; k++) {
			s[k] = session_of(&c, k, threads);
			best[k] = INFINITY;
		}
		for (t = 0; t < TURNS; t++)
			for (k = 0; k < SIDES; k++)
				best[k] = fmin(best[k], session_turn(s[k], TURN_NS));
		for (k = 0; k < SIDES; k++)
			rlx_session_free(s[k]);
		logs += log(best[1] / best[0]);
		slow += best[0] > best[1] && best[0] > best[2];
		printf("%8.1f %5.2f %5.2f %s %s\n", best[0] * 1e-3, best[1] / best[0],
		       best[2] / best[0],
		       best[0] > best[1] && best[0] > best[2] ? "**" : "  ", name);
	}
	printf("%u of %u slower than both, f32 %.2f on average\n", slow, cases,
	       exp(logs / cases));
	return 0;
}
