// SPDX-License-Identifier: MIT
/* What is known of a device's chip: its row of chips.def, or what its driver tells. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/gpu/gpu.h"

static const struct rlx_g_chip known[] = {
#define CHIP(n, ...) { .name = n, __VA_ARGS__ },
#include "backends/gpu/chips.def"
};

const struct rlx_g_chip *gpu_chip_usual(void)
{
	return &known[0];
}

static const struct rlx_g_chip *find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strstr(name, known[i].name))
			return &known[i];
	return NULL;
}

/* Operations of a multiprocessor in a clock: MMA of f16, FMA of f32, by generations. */
static const struct {
	bool		nvidia;
	int		from;		/* ten times major, and minor */
	double		mma, fma;
	double		f8;		/* as fast as that many times f16 */
} generation[] = {
	{ true, 100, 8192, 256, 2 }, { true, 90, 4096, 256, 2 }, { true, 89, 1024, 256, 2 },
	{ true, 86, 1024, 256, 0 }, { true, 80, 2048, 128, 0 }, { true, 70, 1024, 128, 0 },
	{ true, 0, 128, 128, 0 },
	{ false, 100, 512, 256, 0 }, { false, 94, 2048, 256, 2 }, { false, 90, 1024, 128, 0 },
	{ false, 0, 256, 128, 0 },
};

/* Arithmetic from generation and clock, bandwidths from memory's clock and width. */
static void derive(struct rlx_g_chip *c, const struct gpu_device *d, bool nvidia)
{
	int major = d->attr[GPU_ATTR_MAJOR] * 10 + d->attr[GPU_ATTR_MINOR];
	double ghz = d->attr[GPU_ATTR_CLOCK] * 1e-6, f16, f32, bus;
	size_t i = 0;

	while (generation[i].nvidia != nvidia || generation[i].from > major)
		i++;
	ghz = ghz > 0.1 && ghz < 10 ? ghz : 1.5;
	f16 = 0.8 * ghz * generation[i].mma;
	f32 = 0.8 * ghz * generation[i].fma;
	c->rate[RLX_G_RATE_mma_f16] = f16;
	c->rate[RLX_G_RATE_mma_tf32] = nvidia && major >= 80 ? f16 / 2 : 0;
	c->rate[RLX_G_RATE_mma_f8] = f16 * generation[i].f8;
	c->rate[RLX_G_RATE_mma_i8] = nvidia ? 2 * f16 : f16;
	c->rate[RLX_G_RATE_fma_f32] = f32;
	c->rate[RLX_G_RATE_fma_f64] = f32 / (major >= 86 && major < 90 && nvidia ? 64 : 2);
	bus = 2e-6 * d->attr[GPU_ATTR_MEMORY_CLOCK] * d->attr[GPU_ATTR_MEMORY_BITS] / 8;
	/* drivers tell nonsense, too: no memory of a GPU is beyond these */
	c->dram_bw = bus > 10 && bus < 1e5 ? fmin(fmax(0.9 * bus, 51), 1.9e4) : 500;
	c->l2_bw = 3 * c->dram_bw;
	c->sm_l2_bw = 50 * ghz;
	c->sm_dram_bw = fmin(30 * ghz, c->dram_bw);
	if (!nvidia) {
		c->start_ns = c->pdl_ns = c->event_ns = 4000;
		c->dram_ns = 1500;
		c->l2_ns = 500;
	}
	c->source = "derived from what its driver tells";
}

void gpu_chip_describe(struct gpu_device *d)
{
	const struct rlx_g_chip *row = find(d->name);
	struct rlx_g_chip *c = &d->described;

	*c = row ? *row : known[0];
	d->chip_is_derived = !row;
	if (!row)
		derive(c, d, d->api->map_tiles && d->attr[GPU_ATTR_WARP] == 32);
	snprintf(c->name, sizeof(c->name), "%s", d->name);
	c->sms = (uint32_t)d->attr[GPU_ATTR_SM_COUNT];
	if (d->attr[GPU_ATTR_SHARED_SM] >= d->attr[GPU_ATTR_SHARED])
		c->smem_sm = (uint32_t)d->attr[GPU_ATTR_SHARED_SM];
	if (d->attr[GPU_ATTR_THREADS_SM] >= 256)
		c->threads_sm = (uint32_t)d->attr[GPU_ATTR_THREADS_SM];
	if (d->attr[GPU_ATTR_L2] > 1)
		c->l2_bytes = (uint64_t)d->attr[GPU_ATTR_L2];
	atomic_store_explicit(&d->chip, c, memory_order_release);
}
