// SPDX-License-Identifier: MIT
/*
 * The slot machine of the kernel module per request: submit, fetch, commit and reap
 * (or an answer by command), each batch under one lock.
 *
 *	build/test/bench/slot [milliseconds]
 */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "kmod/slot.c"

unsigned int rlx_shim_warned;

#define DEPTH	1024
#define BATCH	64
#define LANES	8

static struct rlx_slots q;
static struct rlx_slot slot[DEPTH];
static u32 heap[DEPTH];
static struct rlx_lane lane[LANES];
static struct rlx_slot_out out[BATCH];
static double limit = 0.2;
static u64 clock_ns;

enum phase { SUBMIT, FETCH, COMMIT, REAP, PHASES };

struct load {
	const char	*name;
	u32		batch, lanes;
	bool		parked, due;
};

static double now(void)
{
	return 1e-9 * (double)rlx_now();
}

static void submit(const struct load *l)
{
	struct rlx_slot *s[BATCH];
	u32 each = l->batch / l->lanes, i, k;

	spin_lock(&q.lock);
	for (i = 0; i < l->lanes; i++) {
		if (rlx_lane_take(&lane[i], s, each) != (int)each)
			exit(1);
		for (k = 0; k < each; k++) {
			s[k]->cmd = l->parked ? s[k] : NULL;
			s[k]->user_data = k;
			s[k]->deadline = l->due ? ++clock_ns : 0;
			s[k]->lease.words = 0;
			rlx_leases_add(&s[k]->lease, 0);
			rlx_leases_add(&s[k]->lease, 1);
		}
		if (rlx_slots_submit(&lane[i], s, each, out))
			exit(1);
	}
	spin_unlock(&q.lock);
}

static void once(const struct load *l, double *spent)
{
	struct rlx_slot_commit in[BATCH];
	struct rlx_slot_result res[BATCH];
	struct rlx_slot_ref ref[BATCH];
	double t[PHASES + 1];
	u32 i, n = 0;

	t[0] = now();
	submit(l);
	t[1] = now();
	spin_lock(&q.lock);
	if (rlx_slots_fetch(&q, 1, ref, l->batch) != (int)l->batch)
		exit(1);
	spin_unlock(&q.lock);
	for (i = 0; i < l->batch; i++)
		in[i] = (struct rlx_slot_commit){ .seq = ref[i].seq, .tag = ref[i].tag };
	t[2] = now();
	spin_lock(&q.lock);
	rlx_slots_begin(&q);
	if (rlx_slots_commit(&q, 1, in, l->batch, out) != (int)l->batch)
		exit(1);
	spin_unlock(&q.lock);
	t[3] = now();
	for (i = 0; i < l->lanes && !l->parked; i++) {
		spin_lock(&q.lock);
		n += rlx_lane_reap(&lane[i], res, BATCH);
		spin_unlock(&q.lock);
	}
	if (n != (l->parked ? 0 : l->batch))
		exit(1);
	t[4] = now();
	for (i = 0; i < PHASES; i++)
		spent[i] = t[i + 1] - t[i];
}

/* The least of each phase over 1000 rounds at a time: the machine is shared. */
static void measure(const struct load *l)
{
	double best[PHASES], sum[PHASES], spent[PHASES], begin = now(), empty = 1;
	double total = 0, t;
	u32 i, k;

	for (i = 0; i < PHASES; i++)
		best[i] = 1;
	for (k = 0; k < 1000; k++) {	/* what reading the clock costs */
		t = now();
		t = now() - t;
		empty = t < empty ? t : empty;
	}
	while (now() - begin < limit) {
		memset(sum, 0, sizeof(sum));
		for (k = 0; k < 1000; k++) {
			once(l, spent);
			for (i = 0; i < PHASES; i++)
				sum[i] += spent[i] - empty;
		}
		for (i = 0; i < PHASES; i++)
			best[i] = sum[i] < best[i] ? sum[i] : best[i];
	}
	printf("%-34s", l->name);
	for (i = 0; i < PHASES; i++) {
		t = best[i] * 1e6 / l->batch;
		total += t;
		printf(" %7.1f", t < 0 ? 0 : t);
	}
	printf(" %8.1f\n", total);
}

int main(int argc, char **argv)
{
	static const struct load load[] = {
		{ "one by one, reaped", 1, 1, false, false },
		{ "one by one, by command", 1, 1, true, false },
		{ "batches of 16, by command", 16, 1, true, false },
		{ "batches of 64, reaped", 64, 1, false, false },
		{ "batches of 64, by command", 64, 1, true, false },
		{ "64 of 8 channels, by command", 64, 8, true, false },
		{ "64 with deadlines, by command", 64, 1, true, true },
	};
	u32 i;

	if (argc > 1)
		limit = atof(argv[1]) * 1e-3;
	if (rlx_slots_init(&q, slot, heap, DEPTH, false))
		return 1;
	spin_lock(&q.lock);
	if (rlx_slots_attach(&q, 1))
		return 1;
	for (i = 0; i < LANES; i++)
		if (rlx_lane_open(&q, &lane[i], DEPTH / LANES, 1))
			return 1;
	spin_unlock(&q.lock);
	printf("%-34s %7s %7s %7s %7s %8s\n", "ns per request", "submit", "fetch",
	       "commit", "reap", "sum");
	for (i = 0; i < ARRAY_SIZE(load); i++)
		measure(&load[i]);
	return rlx_shim_warned != 0;
}
