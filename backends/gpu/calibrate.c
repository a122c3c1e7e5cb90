// SPDX-License-Identifier: MIT
/*
 * A chip's own numbers, measured once by kernels that there are anyway: an empty launch, copies
 * beyond the L2 and within it, products by tensor cores and by FMA. A chip that chips.def knows
 * needs none of it (RLX_CALIBRATE=1 does it all the same); one that it does not is measured when
 * the first program is compiled. Kept beside what was tuned.
 */
#include <stdio.h>
#include <string.h>

#include "backends/gpu/tune.h"
#include "backends/gpu/tune_rig.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/disk_cache.h"
#include "base/env.h"
#include "base/log.h"
#include "base/number.h"

/* What is measured, by name: where it is in the chip's numbers. */
static const struct {
	const char	*name;
	size_t		at;
} number[] = {
#define NUMBER_TIME(n)	{ #n, offsetof(struct rlx_g_chip, n) },
#define NUMBER_RATE(n)	{ #n, offsetof(struct rlx_g_chip, rate[RLX_G_RATE_##n]) },
	NUMBER_TIME(start_ns) NUMBER_TIME(dram_bw) NUMBER_TIME(l2_bw)
	NUMBER_RATE(mma_f16) NUMBER_RATE(fma_f32)
};

enum { N_NUMBERS = sizeof(number) / sizeof(number[0]) };

static double *number_of(struct rlx_g_chip *c, size_t i)
{
	return (double *)(void *)((char *)c + number[i].at);
}

/*
 * Take number @i, and with it those of its kind, in proportion. False: it is so far from what
 * the chip should have that something else was measured.
 */
static bool take(struct rlx_g_chip *c, size_t i, double v)
{
	double *to = number_of(c, i), by = *to > 0 ? v / *to : 0;

	if (!(by > 0.1 && by < 10))
		return false;
	*to = v;
	if (!strcmp(number[i].name, "dram_bw"))
		c->sm_dram_bw *= by;
	if (!strcmp(number[i].name, "l2_bw"))
		c->sm_l2_bw *= by;
	if (!strcmp(number[i].name, "start_ns"))
		c->pdl_ns *= by;
	if (!strcmp(number[i].name, "fma_f32"))
		c->rate[RLX_G_RATE_fma_f64] *= by;
	if (!strcmp(number[i].name, "mma_f16")) {
		c->rate[RLX_G_RATE_mma_tf32] *= by;
		c->rate[RLX_G_RATE_mma_f8] *= by;
		c->rate[RLX_G_RATE_mma_i8] *= by;
	}
	return true;
}

/* ---- measuring ---- */

/* The least of some turns, of one of @n; 0: it cannot be told. */
static double least_of(struct gpu_rig *r, const struct rlx_g_launch *l, unsigned int n)
{
	void *graph = gpu_rig_graph(r, l, n);
	double least = 0, ns;

	for (int i = 0; i < 5 && graph; i++) {
		ns = gpu_rig_time(r, graph) / n;
		if (ns > 0 && (!(least > 0) || ns < least))
			least = ns;
	}
	gpu_rig_graph_free(r, graph);
	return least;
}

/* ns of a launch that has nothing to do. */
static double empty_launch(struct gpu_rig *r)
{
	struct rlx_g_launch l = gpu_launch_for(r->d, 0);
	struct rlx_k_zero a = { NULL };

	memcpy(r->args, &a, sizeof(a));
	rlx_g_zero_launch(&a, &l);
	return least_of(r, &l, 100);
}

/* Bytes a ns that the driver's copies move, both ways counted. */
static double copy_rate(struct gpu_rig *r, uint64_t bytes, int n)
{
	const struct rlx_gpu_api *api = r->d->api;
	uint64_t from = gpu_rig_memory(r, bytes, 1), to = gpu_rig_memory(r, bytes, 1);
	float ms = 0;
	int rc = !from || !to || api->copy(to, from, bytes, r->stream) ||
		 api->stream_wait(r->stream) || api->event_record(r->event[0], r->stream);

	for (int i = 0; i < n && !rc; i++)
		rc = api->copy(to, from, bytes, r->stream);
	if (rc || api->event_record(r->event[1], r->stream) || api->stream_wait(r->stream) ||
	    api->event_elapsed(&ms, r->event[0], r->event[1]) || !(ms > 0))
		return 0;
	return 2.0 * (double)bytes * n / (ms * 1e6);
}

/* Operations of a multiprocessor in a ns in a product of @n x @n x @n, by f16 or f32. */
static double product_rate(struct gpu_rig *r, enum rlx_dtype type, size_t n)
{
	struct rlx_g_launch l = gpu_launch_for(r->d, 0);
	uint64_t bytes = n * n * (type == RLX_F32 ? 4 : 2);
	struct rlx_k_gemm g = {
		.m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .alpha = 1,
		.b_form = RLX_B_COLS, .a_type = type, .b_type = type, .c_type = type,
		.a = (void *)(uintptr_t)gpu_rig_memory(r, bytes, 1),
		.b = (void *)(uintptr_t)gpu_rig_memory(r, bytes, 1),
		.c = (void *)(uintptr_t)gpu_rig_memory(r, bytes, 1),
	};
	double ns;

	if (!g.a || !g.b || !g.c)
		return 0;
	memcpy(r->args, &g, sizeof(g));
	(type == RLX_F32 ? rlx_g_gemm_f32_launch : rlx_g_gemm_bf16_launch)(&g, &l);
	ns = l.can ? least_of(r, &l, 5) : 0;
	return ns > 0 ? 2.0 * (double)n * (double)n * (double)n / ns / l.processors : 0;
}

/* What a kernel for such a product is taken to make of a chip's rate: see its cost. */
static double product_part(const struct gpu_device *d, enum rlx_dtype type)
{
	return type == RLX_F32 ? 0.8 : gpu_launch_for(d, 0).arch == 90 ? 1 : 0.5;
}

static bool measure(struct gpu_device *d, double out[N_NUMBERS])
{
	struct gpu_rig *r = gpu_rig_new(d);
	const uint64_t l2 = gpu_chip(d)->l2_bytes;

	if (!r)
		return false;
	out[0] = empty_launch(r);
	out[1] = copy_rate(r, l2 < 64 << 20 ? 256 << 20 : 4 * l2, 4);
	out[2] = copy_rate(r, l2 / 5, 40);
	gpu_rig_free(r);
	r = gpu_rig_new(d);
	if (!r)
		return false;
	out[3] = product_rate(r, RLX_F16, 4096) / product_part(d, RLX_F16);
	out[4] = product_rate(r, RLX_F32, 2048) / product_part(d, RLX_F32);
	gpu_rig_free(r);
	return true;
}

/* ---- the file ---- */

static void key_of(const struct gpu_device *d, char *buf, size_t size)
{
	snprintf(buf, size, "rlx chip 1; %s; %s; %d; driver %d", d->v->name, d->name,
		 d->attr[GPU_ATTR_SM_COUNT], d->d->version);
}

/* "name value" a line, each known, each believable; @c is what it was if one is not. */
static bool take_text(struct rlx_g_chip *c, char *text)
{
	struct rlx_g_chip with = *c;
	char name[32], *line, *end, *save = NULL;
	double v;
	size_t i;
	int n;

	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (sscanf(line, "%31s %n", name, &n) != 1)
			return false;
		v = rlx_strtod(line + n, &end);
		if (end == line + n)
			return false;
		for (i = 0; i < N_NUMBERS && strcmp(name, number[i].name); i++)
			;
		if (i == N_NUMBERS || !take(&with, i, v))
			return false;
	}
	*c = with;
	c->source = "measured here";
	return true;
}

static bool read_file(struct gpu_device *d, struct rlx_g_chip *c, const char *dir, const char *key)
{
	enum rlx_status st;
	void *data = NULL;
	bool ok = false;
	size_t n = 0;
	char *text;

	st = rlx_disk_cache_load(dir, key, &data, &n);
	if (st == RLX_ENOENT || st == RLX_ENOMEM)
		return false;
	text = st ? NULL : rlx_malloc(n + 1);
	if (text) {
		memcpy(text, data, n);
		text[n] = 0;
		ok = take_text(c, text);
	}
	if (!ok)
		rlx_log(RLX_LOG_WARN, "%s:%u: what was measured of the chip, in %s, is not to be "
			"believed: ignored", d->v->name, d->base.ordinal, dir);
	rlx_free(text);
	rlx_free(data);
	return ok;
}

/* Measured ones as lines; what cannot be believed stays what it was. */
static bool calibrate(struct gpu_device *d, struct rlx_g_chip *c, const char *dir, const char *key)
{
	double v[N_NUMBERS] = { 0 };
	uint64_t t0 = rlx_now();
	char text[512] = "";
	size_t i, n = 0;
	locale_t before;

	if (!measure(d, v))
		return false;
	before = rlx_point_begin();
	for (i = 0; i < N_NUMBERS; i++)
		if (take(c, i, v[i]))
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s %.1f\n",
					      number[i].name, v[i]);
	rlx_point_end(before);
	if (!n)
		return false;
	c->source = "measured here";
	rlx_log(RLX_LOG_WARN, "%s:%u: %s was measured, in %.0f ms: launches take %.0f ns, memory "
		"moves %.0f GB/s", d->v->name, d->base.ordinal, d->name,
		(double)(rlx_now() - t0) * 1e-6, c->start_ns, c->dram_bw);
	if (dir && rlx_disk_cache_store(dir, key, text, n))
		rlx_log(RLX_LOG_WARN, "%s:%u: what was measured cannot be kept in %s",
			d->v->name, d->base.ordinal, dir);
	return true;
}

void gpu_calibrate(struct gpu_device *d)
{
	static const char *const words[] = { "0", "1" };
	static atomic_bool told;
	bool asked = rlx_env_word("RLX_CALIBRATE", words, 2, &told) == 1, keeps, done;
	struct rlx_g_chip *c = &d->measured;
	char dir[4096], key[256];

	if (atomic_load_explicit(&d->calibrated, memory_order_acquire))
		return;
	pthread_mutex_lock(&d->calibrating);	/* others wait for what they are to plan by */
	if (!atomic_load_explicit(&d->calibrated, memory_order_relaxed)) {
		*c = d->described;
		keeps = rlx_disk_cache_dir("tune", dir, sizeof(dir));
		key_of(d, key, sizeof(key));
		done = !asked && keeps && read_file(d, c, dir, key);
		if (!done && (asked || d->chip_is_derived))
			done = calibrate(d, c, keeps ? dir : NULL, key);
		if (done)
			atomic_store_explicit(&d->chip, c, memory_order_release);
		atomic_store_explicit(&d->calibrated, true, memory_order_release);
	}
	pthread_mutex_unlock(&d->calibrating);
}
