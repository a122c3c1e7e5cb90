// SPDX-License-Identifier: MIT
/*
 * The convolutions of small networks on one thread: depthwise, 1 x 1 and few
 * pixels, as in PP-OCRv4's recogniser (48 x 320 input) and Silero VAD, each
 * with warm caches.
 *
 *	build/test/bench/conv_small [repetitions]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "selftests/bench/cpu_time.h"
#include "kernels/conv.h"
#include "selftests/kernels/kernel_test.h"

struct layer {
	size_t	times, ic, ih, iw, oc, kh, kw, sh, sw, p;
	bool	dw;
	enum rlx_act act;
};

#define HS	RLX_ACT_HARD_SWISH
static const struct layer ocr[] = {
	{ 1, 3, 48, 320, 16, 3, 3, 2, 2, 1, false, HS },
	{ 1, 16, 24, 160, 16, 3, 3, 1, 1, 1, true, HS },
	{ 1, 16, 24, 160, 32, 1, 1, 1, 1, 0, false, HS },
	{ 1, 32, 24, 160, 32, 3, 3, 1, 1, 1, true, HS },
	{ 1, 32, 24, 160, 64, 1, 1, 1, 1, 0, false, HS },
	{ 1, 64, 24, 160, 64, 3, 3, 1, 1, 1, true, HS },
	{ 1, 64, 24, 160, 64, 1, 1, 1, 1, 0, false, HS },
	{ 1, 64, 24, 160, 64, 3, 3, 2, 1, 1, true, HS },
	{ 1, 64, 12, 160, 128, 1, 1, 1, 1, 0, false, HS },
	{ 1, 128, 12, 160, 128, 3, 3, 1, 1, 1, true, HS },
	{ 1, 128, 12, 160, 128, 1, 1, 1, 1, 0, false, HS },
	{ 1, 128, 12, 160, 128, 3, 3, 1, 2, 1, true, HS },
	{ 1, 128, 12, 80, 240, 1, 1, 1, 1, 0, false, HS },
	{ 4, 240, 12, 80, 240, 5, 5, 1, 1, 2, true, HS },
	{ 4, 240, 12, 80, 240, 1, 1, 1, 1, 0, false, HS },
	{ 1, 240, 12, 80, 240, 5, 5, 2, 1, 2, true, HS },
	{ 1, 240, 1, 1, 60, 1, 1, 1, 1, 0, false, RLX_ACT_RELU },
	{ 1, 60, 1, 1, 240, 1, 1, 1, 1, 0, false, RLX_ACT_HARD_SIGMOID },
	{ 1, 240, 6, 80, 480, 1, 1, 1, 1, 0, false, HS },
	{ 1, 480, 6, 80, 480, 5, 5, 1, 1, 2, true, HS },
	{ 1, 480, 1, 1, 120, 1, 1, 1, 1, 0, false, RLX_ACT_RELU },
	{ 1, 120, 1, 1, 480, 1, 1, 1, 1, 0, false, RLX_ACT_HARD_SIGMOID },
	{ 1, 480, 6, 80, 480, 1, 1, 1, 1, 0, false, HS },
	{ 1, 480, 6, 80, 480, 5, 5, 2, 1, 2, true, HS },
	{ 2, 480, 3, 80, 480, 1, 1, 1, 1, 0, false, HS },
	{ 1, 480, 3, 80, 480, 5, 5, 1, 1, 2, true, HS },
	{ 1, 480, 1, 40, 60, 1, 3, 1, 1, 1, false, RLX_ACT_SILU },
	{ 1, 60, 1, 40, 120, 1, 1, 1, 1, 0, false, RLX_ACT_SILU },
};

static const struct layer vad[] = {
	{ 1, 1, 1, 640, 258, 1, 256, 1, 128, 0, false, RLX_ACT_NONE },
	{ 1, 129, 1, 4, 128, 1, 3, 1, 1, 1, false, RLX_ACT_RELU },
	{ 1, 128, 1, 4, 64, 1, 3, 1, 2, 1, false, RLX_ACT_RELU },
	{ 1, 64, 1, 2, 64, 1, 3, 1, 2, 1, false, RLX_ACT_RELU },
	{ 1, 64, 1, 1, 128, 1, 3, 1, 1, 1, false, RLX_ACT_RELU },
};

static float *need(size_t n)
{
	float *p = aligned_alloc(64, (n * 4 + 127) / 64 * 64);
	uint64_t seed = n;

	if (!p)
		exit(1);
	kt_fill(p, n, &seed);
	return p;
}

static double best_of(rlx_k_fn *fn, const void *args, size_t units,
		      void *scratch, int reps)
{
	double best = 1e9, t;
	int i, n = 20;

	while (reps--) {
		t = cpu_time();
		for (i = 0; i < n; i++)
			fn(args, 0, units, scratch);
		t = (cpu_time() - t) / n;
		best = t < best ? t : best;
	}
	return best;
}

static double dw_time(const struct layer *l, enum rlx_isa isa, int reps)
{
	const struct rlx_kernels *k = rlx_kernels_get(isa);
	struct rlx_k_dw_c a = {
		.n = 1, .channels = l->ic, .ih = l->ih, .iw = l->iw,
		.oh = (l->ih + 2 * l->p - l->kh) / l->sh + 1,
		.ow = (l->iw + 2 * l->p - l->kw) / l->sw + 1,
		.kh = l->kh, .kw = l->kw, .sh = l->sh, .sw = l->sw, .dh = 1,
		.dw = 1, .pt = l->p, .pl = l->p, .act = l->act,
		.act_a = 0.2f, .act_b = 0.5f,
	};
	struct rlx_k_dw_pack pk = { .conv = &a };
	size_t blocks;
	double t;

	if (!rlx_dw_c_init(isa, &a))
		exit(1);
	blocks = (l->ic + a.c - 1) / a.c;
	pk.src = need(l->ic * l->kh * l->kw);
	pk.dst = need(rlx_dw_c_wsize(&a) / 4);
	k->dw_c_pack(&pk, 0, blocks, NULL);
	a.w = pk.dst;
	a.bias = need(l->ic);
	a.x = need(blocks * a.c * a.ih * a.iw);
	a.y = need(blocks * a.c * a.oh * a.ow);
	t = best_of(k->dw_c, &a, rlx_dw_c_units(&a), NULL, reps);
	free((void *)pk.src);
	free(pk.dst);
	free((void *)a.bias);
	free((void *)a.x);
	free(a.y);
	return t;
}

static double conv_time(const struct layer *l, enum rlx_isa isa, int reps)
{
	const struct rlx_kernels *k = rlx_kernels_get(isa);
	struct rlx_k_conv_c a = {
		.n = 1, .ic = l->ic, .oc = l->oc, .groups = 1, .ih = l->ih,
		.iw = l->iw, .oh = l->ih == 1 ? 1 :
			(l->ih + 2 * l->p - l->kh) / l->sh + 1,
		.ow = (l->iw + 2 * l->p - l->kw) / l->sw + 1,
		.kh = l->kh, .kw = l->kw, .sh = l->sh, .sw = l->sw, .dh = 1,
		.dw = 1, .pt = l->ih == 1 ? 0 : l->p, .pl = l->p,
		.act = l->act, .act_a = 0.2f, .act_b = 0.5f,
		.x_plain = l->ic <= 3,
	};
	struct rlx_k_conv_pack pk = { .conv = &a };
	float *scratch;
	double t;

	if (!rlx_conv_c_init(isa, &a))
		exit(1);
	pk.src = need(l->oc * l->ic * l->kh * l->kw);
	pk.dst = need(rlx_conv_c_wsize(&a) / 4);
	k->conv_c_pack(&pk, 0, rlx_conv_pack_units(&a), NULL);
	a.w = pk.dst;
	a.bias = need(l->oc);
	a.x = need((l->ic + 15) * a.ih * a.iw);
	a.y = need((l->oc + 15) * a.oh * a.ow);
	scratch = need(rlx_conv_c_scratch(&a) / 4 + 1);
	t = best_of(k->conv_c, &a, rlx_conv_c_units(&a), scratch, reps);
	free((void *)pk.src);
	free(pk.dst);
	free((void *)a.bias);
	free((void *)a.x);
	free(a.y);
	free(scratch);
	return t;
}

static void table(const char *name, const struct layer *l, size_t n,
		  enum rlx_isa isa, int reps)
{
	double sum = 0, dw = 0, t, flop;

	for (; n--; l++) {
		t = l->dw ? dw_time(l, isa, reps) : conv_time(l, isa, reps);
		flop = 2.0 * (double)(l->kh * l->kw * l->oc) *
		       (double)((l->ih == 1 ? 1 : l->ih / l->sh)) *
		       (double)((l->iw + 2 * l->p - l->kw) / l->sw + 1) *
		       (l->dw ? 1 : (double)l->ic);
		printf("%zux %3zu>%3zu %2zux%-3zu k%zux%-3zu s%zux%-3zu %s "
		       "%8.2f us %6.1f GFLOP/s\n", l->times, l->ic, l->oc,
		       l->ih, l->iw, l->kh, l->kw, l->sh, l->sw,
		       l->dw ? "dw" : "  ", t * 1e6, flop / t * 1e-9);
		sum += t * (double)l->times;
		dw += l->dw ? t * (double)l->times : 0;
	}
	printf("%s: %.1f us, of them depthwise %.1f us\n", name, sum * 1e6,
	       dw * 1e6);
}

int main(int argc, char **argv)
{
	int reps = argc > 1 ? atoi(argv[1]) : 20;
	enum rlx_isa isa = RLX_ISA_COUNT;

	while (--isa > 0 && !kt_isa_runs(isa))
		;
	table("recogniser", ocr, sizeof(ocr) / sizeof(*ocr), isa, reps);
	table("voice activity", vad, sizeof(vad) / sizeof(*vad), isa, reps);
	return 0;
}
