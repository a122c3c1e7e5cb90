// SPDX-License-Identifier: MIT
/* State-space recurrences. */
#include <math.h>

#include "backends/common/ssm_desc.h"
#include "backends/gpu/gpu.h"

/* Bytes of what is prepared of chunks at a time: they come back from the L2 while they are few. */
enum { MOST_WORK = 128 << 20 };

enum rlx_status gpu_lower_linear_scan(struct rlx_lower *lo)
{
	rlx_linear_scan_args(lo);
	return rlx_lower_call(lo, RLX_KERNEL_linear_scan, 0, 0, 0);
}

enum rlx_status gpu_lower_selective_scan(struct rlx_lower *lo)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);

	if (!x->dim[0] || !x->dim[2])
		return lo->status;
	rlx_selective_scan_args(lo);
	return rlx_lower_call(lo, RLX_KERNEL_selective_scan, 0, 0, 0);
}

/* Staged arguments of the gated delta rule, but for what a call of some chunks adds. */
static struct rlx_k_gated_delta *gated_delta_args(struct rlx_lower *lo)
{
	const struct rlx_op_gated_delta_net *o = lo->args;
	const struct rlx_type *q = rlx_lower_in(lo, 0), *v = rlx_lower_in(lo, 2);
	struct rlx_k_gated_delta *a = rlx_lower_args(lo, sizeof(*a));
	const void *in[] = { &a->q, &a->k, &a->v, &a->g, &a->beta, &a->state };

	a->batch = q->dim[0];
	a->steps = q->dim[1];
	a->hk = q->dim[2];
	a->dk = q->dim[3];
	a->hv = v->dim[2];
	a->dv = v->dim[3];
	a->scale = o->scale ? o->scale : 1 / sqrt((double)a->dk);
	a->type = (uint8_t)q->dtype;
	for (uint32_t k = 0; k < 6; k++)
		if (rlx_lower_in(lo, k))
			rlx_lower_ref_in(lo, (void *)in[k], k, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_ref_out(lo, &a->last, 1, 0);
	return a;
}

/* Some chunks at a time, so that what is prepared of them takes MOST_WORK bytes or so. */
static enum rlx_status by_chunks(struct rlx_lower *lo, const struct rlx_k_gated_delta *all)
{
	const int64_t chunks = (all->steps + RLX_K_DELTA_CHUNK - 1) / RLX_K_DELTA_CHUNK;
	const int64_t lines = all->batch * all->hv, keys = rlx_k_gated_delta_keys(all);
	const size_t item = rlx_k_gated_delta_item(keys, all->dv) * (size_t)lines;
	int64_t each = (int64_t)(MOST_WORK / item), first;
	uint32_t work, carry = 0;

	each = each < 1 ? 1 : each < chunks ? each : chunks;
	work = rlx_lower_tmp(lo, item * (uint64_t)each);
	if (each < chunks)
		carry = rlx_lower_tmp(lo, (uint64_t)(lines * all->dk * all->dv) * sizeof(float));
	for (first = 0; first < chunks && !lo->status; first += each)
		for (int walk = 0; walk < 2 && !lo->status; walk++) {
			struct rlx_k_gated_delta *a = gated_delta_args(lo);

			a->first = first;
			a->count = chunks - first < each ? chunks - first : each;
			rlx_lower_ref_tmp(lo, &a->work, work, 0);
			if (carry)
				rlx_lower_ref_tmp(lo, &a->carry, carry, 0);
			gpu_call_kernel(lo, walk ? rlx_g_gated_delta_chunks_launch :
					rlx_g_gated_delta_prepare_launch, 0);
		}
	return lo->status;
}

/* Does the device do both launches of some chunks? */
static bool does_chunks(struct rlx_lower *lo, struct rlx_k_gated_delta a)
{
	struct rlx_g_launch l = gpu_launch_of(lo, 0), m = l;

	a.count = 1;
	rlx_g_gated_delta_prepare_launch(&a, &l);
	rlx_g_gated_delta_chunks_launch(&a, &m);
	return l.can && m.can;
}

enum rlx_status gpu_lower_gated_delta_net(struct rlx_lower *lo)
{
	struct rlx_k_gated_delta *a = gated_delta_args(lo), all;

	gpu_apply_relocations(lo);
	all = *a;
	if (does_chunks(lo, all))
		return by_chunks(lo, &all);
	return gpu_call_kernel(lo, rlx_g_gated_delta_net_launch, 0);
}
