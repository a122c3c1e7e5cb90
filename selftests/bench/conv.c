// SPDX-License-Identifier: MIT
/*
 * How fast the convolutions of ResNet-50 at batch 1 run on one thread, as a
 * share of the measured FMA peak: each layer with warm caches, then all of
 * them in order, each with its own weights, as a network runs them.
 *
 *	build/test/bench/conv [base|v3|v4|v4_vnni|v4x|v4_amx] [repetitions] [direct]
 *
 * FLOP are those of the direct sum, also where Winograd's algorithm does with
 * fewer; "direct" turns that off.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "selftests/bench/cpu_time.h"
#include "kernels/conv.h"
#include "selftests/kernels/kernel_test.h"

struct layer {
	size_t	times, ic, hw, oc, k, s;
};

static const struct layer resnet50[] = {
	{ 1, 3, 224, 64, 7, 2 },
	{ 1, 64, 56, 64, 1, 1 },	{ 3, 64, 56, 64, 3, 1 },
	{ 4, 64, 56, 256, 1, 1 },	{ 2, 256, 56, 64, 1, 1 },
	{ 1, 256, 56, 128, 1, 1 },	{ 1, 128, 56, 128, 3, 2 },
	{ 1, 256, 56, 512, 1, 2 },	{ 4, 128, 28, 512, 1, 1 },
	{ 3, 512, 28, 128, 1, 1 },	{ 3, 128, 28, 128, 3, 1 },
	{ 1, 512, 28, 256, 1, 1 },	{ 1, 256, 28, 256, 3, 2 },
	{ 1, 512, 28, 1024, 1, 2 },	{ 6, 256, 14, 1024, 1, 1 },
	{ 5, 1024, 14, 256, 1, 1 },	{ 5, 256, 14, 256, 3, 1 },
	{ 1, 1024, 14, 512, 1, 1 },	{ 1, 512, 14, 512, 3, 2 },
	{ 1, 1024, 14, 2048, 1, 2 },	{ 3, 512, 7, 2048, 1, 1 },
	{ 2, 2048, 7, 512, 1, 1 },	{ 2, 512, 7, 512, 3, 1 },
};
#define LAYERS	(sizeof(resnet50) / sizeof(resnet50[0]))
#define MAXRUN	64
#define ACT_MAX	((size_t)256 * 56 * 56 * 4 * 4)	/* bytes of an activation */

/* One convolution ready to run. */
struct conv {
	struct rlx_k_conv_c a;
	struct rlx_k_wino_c wino;
	size_t		units, scratch;
	bool		use_wino;
	double		flop;
};

static void *need(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (!p)
		exit(1);
	memset(p, 0, bytes);
	return p;
}

#if defined(__x86_64__)
#define FMA_V4	__attribute__((target("avx512f")))
#define FMA_V3	__attribute__((target("avx2,fma")))
#else
#define FMA_V4
#define FMA_V3
#endif
typedef float v16 __attribute__((vector_size(64)));
typedef float v8 __attribute__((vector_size(32)));
typedef float v4 __attribute__((vector_size(16)));

/* Twelve chains of multiply-adds, timed from outside; returns their FLOP. */
#define PEAK(name, type, lanes, target)					\
target __attribute__((noinline)) static double name(float *sink)	\
{									\
	const type m = { 0 }, k = m + 0.999f, b = m + sink[0];		\
	type a0 = m, a1 = m + 1, a2 = m + 2, a3 = m + 3, a4 = m + 4;	\
	type a5 = m + 5, a6 = m + 6, a7 = m + 7, a8 = m + 8, a9 = m + 9; \
	type a10 = m + 10, a11 = m + 11; /* equal chains would be merged */ \
									\
	for (int i = 0; i < 1000000; i++) {				\
		a0 = a0 * k + b; a1 = a1 * k + b; a2 = a2 * k + b;	\
		a3 = a3 * k + b; a4 = a4 * k + b; a5 = a5 * k + b;	\
		a6 = a6 * k + b; a7 = a7 * k + b; a8 = a8 * k + b;	\
		a9 = a9 * k + b; a10 = a10 * k + b; a11 = a11 * k + b;	\
	}								\
	a0 += a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11;	\
	sink[1] += a0[0];						\
	return 12.0 * 1000000 * lanes * 2;				\
}
PEAK(peak_v4, v16, 16, FMA_V4)
PEAK(peak_v3, v8, 8, FMA_V3)
PEAK(peak_base, v4, 4, )

static double peak(enum rlx_isa isa)
{
	float sink[2] = { 1e-3f, 0 };
	double best = 0, t, f;

	for (int i = 0; i < 20; i++) {
		t = cpu_time();
		f = isa >= RLX_ISA_V4 ? peak_v4(sink) :
		    isa == RLX_ISA_V3 ? peak_v3(sink) : peak_base(sink);
		t = cpu_time() - t;
		best = f / t > best ? f / t : best;
	}
	return best * 1e-9;
}

/* Weights for the kernel the layer will use. */
static void setup_weights(struct conv *c, const float *src, enum rlx_isa isa)
{
	const struct rlx_kernels *k = rlx_kernels_get(isa);
	struct rlx_k_conv_pack pk = { .conv = &c->a, .src = src };
	struct rlx_k_wino_pack pw = { .conv = &c->wino, .src = src };

	if (c->use_wino) {
		pw.dst = need(rlx_wino_c_wsize(&c->wino));
		k->wino_c_pack(&pw, 0, rlx_wino_c_pack_units(&c->wino), NULL);
		c->wino.w = pw.dst;
		c->units = rlx_wino_c_units(&c->wino);
		c->scratch = rlx_wino_c_scratch(&c->wino);
		return;
	}
	pk.dst = need(rlx_conv_c_wsize(&c->a));
	k->conv_c_pack(&pk, 0, rlx_conv_pack_units(&c->a), NULL);
	c->a.w = pk.dst;
	c->units = rlx_conv_c_units(&c->a);
	c->scratch = rlx_conv_c_scratch(&c->a);
}

static void setup(struct conv *c, const struct layer *l, enum rlx_isa isa,
		  bool wino)
{
	size_t o = l->hw / l->s, n;
	float *src, *bias;
	uint64_t seed = 1;

	bias = need(l->oc * sizeof(*bias));
	c->a = (struct rlx_k_conv_c){
		.n = 1, .ic = l->ic, .oc = l->oc, .groups = 1, .ih = l->hw,
		.iw = l->hw, .oh = o, .ow = o, .kh = l->k, .kw = l->k,
		.sh = l->s, .sw = l->s, .dh = 1, .dw = 1, .pt = l->k / 2,
		.pl = l->k / 2, .act = RLX_ACT_RELU, .x_plain = l->ic == 3,
		.bias = bias,
	};
	c->wino = (struct rlx_k_wino_c){
		.n = 1, .ic = l->ic, .oc = l->oc, .ih = l->hw, .iw = l->hw,
		.oh = o, .ow = o, .pt = 1, .pl = 1, .act = RLX_ACT_RELU,
		.bias = bias,
	};
	if (!rlx_conv_c_init(isa, &c->a))
		exit(1);
	c->wino.m = wino ? rlx_wino_c_pick(isa, &c->a) : 0;
	c->use_wino = rlx_wino_c_init(isa, &c->wino);
	n = l->oc * l->ic * l->k * l->k;
	src = need(n * sizeof(*src));
	kt_fill(src, n, &seed);
	setup_weights(c, src, isa);
	free(src);
	c->flop = 2.0 * (double)n * (double)(o * o);
}

static double timed(const struct rlx_kernels *k, struct conv *c,
		    const float *x, float *y, void *scratch)
{
	double t = cpu_time();

	c->a.x = c->wino.x = x;
	c->a.y = c->wino.y = y;
	if (c->use_wino)
		k->wino_c(&c->wino, 0, c->units, scratch);
	else
		k->conv_c(&c->a, 0, c->units, scratch);
	return cpu_time() - t;
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "base", "v3", "v4", "v4_vnni", "v4x", "v4_amx" };
	enum rlx_isa isa = RLX_ISA_COUNT;
	int reps = argc > 2 ? atoi(argv[2]) : 10;
	struct conv c[MAXRUN];
	size_t n = 0, i, j, scratch = 0, which[MAXRUN];
	double top, all = 0, sum = 0, best = 1e9, t;
	float *buf[3];
	const struct rlx_kernels *k;
	void *sc;

	while (isa-- > 0)
		if (argc > 1 ? !strcmp(argv[1], names[isa]) : kt_isa_runs(isa))
			break;
	if (isa >= RLX_ISA_COUNT || !kt_isa_runs(isa)) {
		fprintf(stderr, "%s: no such level here\n", argv[1]);
		return 1;
	}
	k = rlx_kernels_get(isa);
	for (i = 0; i < LAYERS; i++)
		for (j = 0; j < resnet50[i].times; j++, n++) {
			setup(&c[n], &resnet50[i], isa, argc < 4);
			which[n] = i;
			if (c[n].scratch > scratch)
				scratch = c[n].scratch;
			all += c[n].flop;
		}
	sc = need(scratch);
	for (i = 0; i < 3; i++) {
		uint64_t seed = i;

		buf[i] = need(ACT_MAX);
		kt_fill(buf[i], ACT_MAX / 4, &seed);
	}
	top = peak(isa);
	printf("level %s, %.1f GFLOP/s FMA peak of a core, scratch %zu KiB\n",
	       names[isa], top, scratch >> 10);
	for (i = 0; i < n; i++) {
		const struct layer *l = &resnet50[which[i]];
		double lb = 1e9;

		if (i && which[i] == which[i - 1])
			continue;
		for (int r = 0; r < reps; r++) {
			t = timed(k, &c[i], buf[0], buf[1], sc);
			lb = t < lb ? t : lb;
		}
		sum += lb * (double)l->times;
		printf("%zux %4zu>%4zu %3zux%-3zu k%zu s%zu m%zu %3zu units "
		       "%7.3f ms %6.1f GFLOP/s %3.0f%%\n", l->times, l->ic,
		       l->oc, l->hw, l->hw, l->k, l->s,
		       c[i].use_wino ? c[i].wino.m : 0, c[i].units, lb * 1e3,
		       c[i].flop / lb * 1e-9, c[i].flop / lb * 1e-7 / top);
	}
	printf("sum of layers          %7.3f ms %6.1f GFLOP/s %3.0f%%\n",
	       sum * 1e3, all / sum * 1e-9, all / sum * 1e-7 / top);
	for (int r = 0; r < reps; r++) {
		for (t = 0, i = 0; i < n; i++)
			t += timed(k, &c[i], buf[i % 3], buf[(i + 1) % 3], sc);
		best = t < best ? t : best;
	}
	printf("in order, cold weights %7.3f ms %6.1f GFLOP/s %3.0f%%\n",
	       best * 1e3, all / best * 1e-9, all / best * 1e-7 / top);
	return 0;
}
