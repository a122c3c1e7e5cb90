// SPDX-License-Identifier: MIT
/* From plan steps to dispatches. */
#include <string.h>

#include "backends/common/conv_desc.h"
#include "backends/common/gemm.h"
#include "backends/vulkan/vk.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "ir/graph.h"
#include "kernels/conv.h"
#include "kernels/gemm.h"

enum { MOST_GROUPS = 65535 };	/* that every device can launch along x */

static struct vk_code *code_of(const struct rlx_lower *lo)
{
	return (struct vk_code *)lo->code;
}

static struct vk_device *device_of(const struct rlx_lower *lo)
{
	return vk_device_of(lo->code);
}

static rlx_lower_fn *lowering(unsigned int index)
{
	static rlx_lower_fn *const table[RLX_OP_COUNT] = {
#define LOWER(op) [RLX_OP_##op] = rlx_lower_##op,
#include "backends/common/lower.def"
#undef LOWER
#define LOWER(op) [RLX_OP_##op] = vk_lower_##op,
#include "backends/vulkan/lower.def"
#undef LOWER
	};

	return index < RLX_OP_COUNT ? table[index] : NULL;
}

/* Room for @need bytes at *@p, of which there are *@cap; what is new is zeroed. */
static bool reserve(unsigned char **p, uint64_t *cap, uint64_t need)
{
	uint64_t n = *cap ? *cap : 65536;
	unsigned char *q;

	while (n < need)
		n *= 2;
	if (n == *cap)
		return true;
	q = rlx_realloc(*p, n);
	if (!q)
		return false;
	memset(q + *cap, 0, n - *cap);
	*p = q;
	*cap = n;
	return true;
}

/* Status words have a place each. */
static void take_status(struct rlx_lower *lo, uint32_t *bad)
{
	struct vk_code *c = code_of(lo);
	uint32_t i;

	for (i = 0; i < lo->n_ref; i++)
		if (lo->ref[i].kind == RLX_REF_STATUS) {
			lo->ref[i].off = 4 * (uint64_t)c->n_bad++;
			*bad = c->n_bad;
		}
}

/* Threads that have several parts of the work take the turns of each. */
static bool ends_loops_early(const struct vk_physical *is, uint64_t groups, double turns)
{
	enum { BEFORE = 16 };		/* over dimensions, once */

	return (double)(groups / MOST_GROUPS + 1) * (turns + 1) + BEFORE > (double)is->most_turns;
}

enum rlx_status vk_call_kernel(struct rlx_lower *lo, const struct vk_kernel *k, uint64_t groups)
{
	struct vk_call *call;
	VkPipeline pipeline;
	enum rlx_status st;
	uint32_t bad = 0;

	if (!lo->status && ends_loops_early(device_of(lo)->is, groups, k->turns))
		return rlx_lower_unsupported(lo, "this driver ends loops before so many turns");
	if (lo->status || lo->trial || !groups)
		return lo->status;
	st = vk_pipeline_get(device_of(lo), k, &pipeline, lo->err);
	if (st)
		return lo->status = st;
	take_status(lo, &bad);
	call = rlx_lower_append(lo, false);
	if (!call)
		return lo->status;
	call->kind = RLX_CALL_KERNEL;
	call->bad = bad;
	call->groups = (uint32_t)(groups < MOST_GROUPS ? groups : MOST_GROUPS);
	call->pipeline = pipeline;
	return RLX_OK;
}

/* Of a GPU, or a guess; 0: a processor, which has one queue for all. */
static uint32_t units_of(const struct vk_physical *is)
{
	return is->props.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? 0 : is->units ? is->units : 64;
}

static enum rlx_status call_launch(struct rlx_lower *lo, vk_launch_fn *how)
{
	const struct vk_physical *is = device_of(lo)->is;
	struct vk_launch l = { .can = true, .subgroup = is->subgroup,
			       .most_threads = is->props.limits.maxComputeWorkGroupInvocations,
			       .units = units_of(is), .coopmat = is->has.coopmat,
			       .coopmat_bf16 = is->has.coopmat_bf16 };
	struct vk_kernel k;

	if (lo->status)
		return lo->status;
	how(lo->staged, &l);
	if (!l.can || !vk_kernel_find(l.name, &k))
		return rlx_lower_unsupported(lo, l.why ? l.why :
					     "the Vulkan kernel does not take this form");
	memcpy(k.spec, l.spec, sizeof(k.spec));
	k.n_spec = l.n_spec;
	k.turns = l.turns;
	return vk_call_kernel(lo, &k, l.groups);
}

static enum rlx_status call(struct rlx_lower *lo, enum rlx_kernel_id id, uint64_t units,
			    double work, size_t scratch)
{
	vk_launch_fn *how = vk_launch_of(id);

	(void)work;
	(void)scratch;
	if (!how)
		return rlx_lower_unsupported(lo, "no Vulkan kernel for this");
	if (id == RLX_KERNEL_zero) {	/* it has no other way to know how much there is */
		memcpy(lo->staged + lo->n_staged, &units, sizeof(units));
		lo->n_staged += sizeof(units);
	}
	return call_launch(lo, how);
}

static enum rlx_status host_fallback(struct rlx_lower *lo, enum rlx_call_kind kind)
{
	struct vk_code *c = code_of(lo);
	struct vk_call *call;
	enum rlx_status st;
	uint64_t bytes;
	uint32_t i;

	if (lo->trial)
		return RLX_OK;
	if (kind == RLX_CALL_COPY)
		return rlx_lower_copy(lo);
	st = rlx_host_scratch(lo->plan, lo->st, &bytes, lo->err);
	if (st)
		return st;
	if (bytes > UINT64_MAX / 4)
		return rlx_lower_out_of_memory(lo);
	for (i = 0; i < lo->st->n_in; i++) {	/* it looks its inputs up when it runs */
		const struct rlx_place *in = &lo->plan->val[lo->st->in[i]].place;

		if (lo->st->in[i] && in->kind == RLX_PLACE_CONST)
			rlx_host_home(lo->code, in->index);
	}
	if (bytes > c->base.work_bytes)		/* until compile adds it all up */
		c->base.work_bytes = bytes;
	if (lo->st->n_in + lo->st->n_out > c->most_tensors)
		c->most_tensors = lo->st->n_in + lo->st->n_out;
	call = rlx_lower_append(lo, true);
	if (!call)
		return lo->status;
	call->kind = RLX_CALL_HOST;
	return RLX_OK;
}

static void undo(struct rlx_lower *lo)
{
	code_of(lo)->n_persistent = ((struct vk_lower *)lo)->persistent;
}

static void persistent(struct rlx_lower *lo, void *field, const void *p, size_t bytes)
{
	struct vk_code *c = code_of(lo);
	uint64_t at = rlx_align64(c->n_persistent);

	if (!reserve(&c->persistent, &c->cap_persistent, at + bytes)) {
		rlx_lower_out_of_memory(lo);
		return;
	}
	memcpy(c->persistent + at, p, bytes);
	c->n_persistent = at + bytes;
	rlx_lower_ref_add(lo, field, (struct rlx_ref){ .kind = RLX_REF_KEPT, .off = at });
}

/* ---- what has operands of its own ---- */

/* Doubles alone, or integers and bools in any mixture. */
static enum rlx_status gemm_plain(struct rlx_lower *lo, struct rlx_k_gemm *g)
{
	const enum rlx_dtype a = rlx_lower_in(lo, 0)->dtype, b = rlx_lower_in(lo, 1)->dtype;
	const enum rlx_dtype y = rlx_lower_out(lo, 0)->dtype;

	if (y == RLX_F64 ? a != y || b != y :
	    rlx_dtype_is_float(a) || rlx_dtype_is_float(b) || !rlx_dtype_is_int(y))
		return rlx_lower_unsupported(lo, "no Vulkan kernel multiplies these dtypes");
	if (rlx_gemm_bias(lo, g, RLX_F64))
		return lo->status;
	rlx_lower_ref_in(lo, &g->b, 1, 0);
	return rlx_lower_call(lo, y == RLX_F64 ? RLX_KERNEL_gemm_f64 : RLX_KERNEL_gemm_int, 0, 0,
			      0);
}

/* One kernel for every mixture of f32, bf16 and f16, which are multiplied as f32. */
static enum rlx_status gemm(struct rlx_lower *lo, struct rlx_k_gemm *g)
{
	const enum rlx_dtype a = rlx_lower_in(lo, 0)->dtype, b = rlx_lower_in(lo, 1)->dtype;
	const enum rlx_dtype y = rlx_lower_out(lo, 0)->dtype;

	if (g->compute)		/* weights are rounded once, activations for all who read them */
		return rlx_lower_unsupported(lo, "operands are rounded by a cast of their own");
	if (!rlx_lower_real(a) || !rlx_lower_real(b) || !rlx_lower_real(y))
		return gemm_plain(lo, g);
	if (rlx_gemm_bias(lo, g, RLX_F32))
		return lo->status;
	rlx_lower_ref_in(lo, &g->b, 1, 0);
	return rlx_lower_call(lo, RLX_KERNEL_gemm_f32, 0, 0, 0);
}

static enum rlx_status gemm_i8(struct rlx_lower *lo, struct rlx_k_gemm_i8 *q)
{
	(void)q;
	return rlx_lower_unsupported(lo, "no Vulkan kernel multiplies bytes");
}

static enum rlx_status conv_i8(struct rlx_lower *lo, struct rlx_k_conv_i8 *a)
{
	(void)a;
	return rlx_lower_unsupported(lo, "no Vulkan kernel convolves bytes");
}

static enum rlx_status recur(struct rlx_lower *lo, const struct rlx_recurrence *r)
{
	(void)r;
	return rlx_lower_unsupported(lo, "no Vulkan kernel for recurrences");
}

/* One dtype throughout; the bias may be wider than 16-bit floats are. */
static enum rlx_status conv(struct rlx_lower *lo, const struct rlx_conv *g)
{
	struct rlx_k_conv_nd *a = rlx_lower_args(lo, sizeof(*a));
	enum rlx_dtype dt = rlx_lower_out(lo, 0)->dtype;
	const struct rlx_type *bias = rlx_lower_in(lo, 2), *res = rlx_lower_in(lo, 3);

	if (g->block)
		return rlx_lower_unsupported(lo, "no blocked layout here");
	if (!rlx_lower_real(dt) || rlx_lower_in(lo, 0)->dtype != dt ||
	    rlx_lower_in(lo, 1)->dtype != dt || (res && res->dtype != dt) ||
	    (bias && !rlx_lower_real(bias->dtype)))
		return rlx_lower_unsupported(lo, "no Vulkan kernel convolves these dtypes");
	rlx_conv_plain(a, g);
	a->type = (uint8_t)dt;
	a->bias_type = (uint8_t)(bias ? bias->dtype : RLX_F32);
	rlx_conv_refs(lo, &a->x, &a->bias, &a->res, &a->y);
	rlx_lower_ref_in(lo, &a->w, 1, 0);
	return rlx_lower_call(lo, RLX_KERNEL_conv_nd, 0, 0, 0);
}

static const struct rlx_lower_ops ops = {
	.call = call, .host_fallback = host_fallback, .undo = undo, .persistent = persistent,
	.gemm = gemm, .gemm_i8 = gemm_i8, .conv = conv, .conv_i8 = conv_i8, .recur = recur,
	.has_16bit = true,
};

/* ---- compiling ---- */

static struct vk_lower *lower_new(struct rlx_code *code, struct rlx_error *err)
{
	struct vk_lower *vl = rlx_aligned(64, sizeof(*vl));

	if (!vl) {
		rlx_fail(err, RLX_ENOMEM, "%s: out of memory", code->dev->name);
		return NULL;
	}
	memset(vl, 0, sizeof(*vl));
	vl->base.ops = &ops;
	vl->base.code = code;
	vl->base.plan = code->plan;
	vl->base.err = err;
	vl->base.bump = &((struct vk_code *)code)->bump;
	vl->base.calls = &((struct vk_code *)code)->calls;
	vl->base.calls->size = sizeof(struct vk_call);
	return vl;
}

static enum rlx_status lower_step(struct vk_lower *vl, const struct rlx_plan_step *st,
				  uint32_t flags)
{
	vl->base.st = st;
	vl->persistent = code_of(&vl->base)->n_persistent;
	return rlx_lower_step(&vl->base, st->def ? lowering(st->def->index) : NULL, flags);
}

static enum rlx_status load_tables(struct vk_code *c, struct rlx_error *err)
{
	struct vk_device *d = vk_device_of(&c->base);
	enum rlx_status st;

	if (!c->n_persistent)
		return RLX_OK;
	st = vk_span_new(d, VK_LOCAL, c->n_persistent, &c->persistent_at, err);
	return st ? st : vk_upload(d, &c->persistent_at, c->persistent, c->n_persistent, err);
}

/* What calls read of constants is wanted on the device, once for all programs. */
static enum rlx_status need_constants(struct vk_code *c, struct rlx_error *err)
{
	const struct rlx_plan *p = c->base.plan;
	enum rlx_status st = RLX_OK;
	uint32_t i;

	for (i = 0; i < c->calls.n_ref && !st; i++) {
		const struct rlx_ref *r = &c->calls.ref[i];
		const struct rlx_place *at = &p->val[r->val].place;
		struct rlx_blob *b;

		if (r->kind != RLX_REF_VALUE || r->at == RLX_NO_FIELD ||
		    at->kind != RLX_PLACE_CONST || c->weight[at->index])
			continue;
		b = p->constant[at->index];
		st = vk_weight_get(vk_device_of(&c->base), rlx_host_home(&c->base, at->index),
				   rlx_blob_bytes(b), b, &c->weight[at->index], err);
	}
	return st ? st : vk_weights_load(vk_device_of(&c->base), c->weight, p->n_constant, err);
}

/* Constants and tables stay where they are. */
static bool is_fixed(void *ctx, const struct rlx_ref *r, const struct rlx_place *at, uint64_t *out)
{
	const struct vk_code *c = ctx;

	if (r->kind == RLX_REF_KEPT)
		*out = c->persistent_at.at + r->off;
	else if (r->kind == RLX_REF_VALUE && at->kind == RLX_PLACE_CONST)
		*out = vk_weight_at(c->weight[at->index]) + r->off;
	else
		return false;
	return true;
}

/* All calls are there: places, constants, tables, the image. */
static enum rlx_status finish_code(struct vk_code *c, struct rlx_error *err)
{
	struct rlx_plan *p = c->base.plan;
	const bool discrete = vk_device_of(&c->base)->discrete;
	uint64_t host = c->base.work_bytes, bytes = 0;
	uint32_t i;
	enum rlx_status st = rlx_calls_place(&c->calls, p, NULL, err);

	if (!st)
		st = need_constants(c, err);
	if (!st)
		st = load_tables(c, err);
	if (!st)
		st = vk_find_crossing(c, err);
	if (st)
		return st;
	vk_find_dependences(c);
	if (!discrete || c->base.host)	/* there it is a mirror for steps of the host's */
		c->host_at = rlx_align64(p->work_bytes);
	c->base.work_bytes = rlx_align64(c->host_at + host);
	for (i = 0; i < p->n_io[RLX_IO_INPUT]; i++)
		bytes += c->io[i].used ? rlx_plan_bytes(p, p->io[RLX_IO_INPUT][i].val) : 0;
	for (i = 0; i < p->n_io[RLX_IO_OUTPUT]; i++)
		if (c->io[rlx_slot_of(p, RLX_IO_OUTPUT, i)].used &&
		    !p->io[RLX_IO_OUTPUT][i].donated)
			bytes += rlx_plan_bytes(p, p->io[RLX_IO_OUTPUT][i].val);
	c->base.device_bytes = discrete ? p->work_bytes + bytes : 0;
	return rlx_calls_emit(&c->calls, p, is_fixed, c, err);
}

enum rlx_status vk_compile(struct rlx_code *code, uint32_t flags, struct rlx_error *err)
{
	struct vk_code *c = (struct vk_code *)code;
	enum rlx_status st = vk_alive(vk_device_of(code), err);
	uint64_t t0 = rlx_now();
	struct vk_lower *vl;
	uint32_t i;

	if (st)
		return st;
	vl = lower_new(code, err);
	c->weight = rlx_calloc(code->plan->n_constant + 1, sizeof(*c->weight));
	c->most_tensors = 2;
	if (!vl || !c->weight)
		st = rlx_fail(err, RLX_ENOMEM, "%s: out of memory", code->dev->name);
	for (i = 0; !st && i < code->plan->n_step; i++)
		st = lower_step(vl, &code->plan->step[i], flags);
	if (!st)
		st = finish_code(c, err);
	code->pack_ns = rlx_now() - t0;
	for (i = 0; i < code->plan->n_constant && !st; i++)
		if (c->weight[i])
			code->packed_bytes += rlx_blob_bytes(code->plan->constant[i]);
	rlx_free(vl);
	if (st)
		vk_release(code);
	return st;
}

void vk_release(struct rlx_code *code)
{
	struct vk_code *c = (struct vk_code *)code;
	struct vk_device *d = vk_device_of(code);
	uint32_t i;

	for (i = 0; c->weight && i < code->plan->n_constant; i++)
		vk_weight_put(d, c->weight[i]);
	vk_span_free(d, &c->persistent_at);
	rlx_calls_fini(&c->calls);
	rlx_bump_fini(&c->bump);
	rlx_free(c->weight);
	rlx_free(c->persistent);
	rlx_free(c->io);
	rlx_free(c->transfer);
	c->io = NULL;
	c->transfer = NULL;
	c->weight = NULL;
	c->persistent = NULL;
}

bool vk_supports(const struct rlx_device *dev, const struct rlx_infer *q, struct rlx_error *why)
{
	struct rlx_plan none = { 0 };
	struct vk_code code = { .base.dev = (struct rlx_device *)dev, .base.plan = &none };
	struct vk_lower *vl = lower_new(&code.base, why);
	bool yes = true;

	if (vl)
		yes = rlx_lower_try(&vl->base, lowering(q->def->index), q, true, why);
	rlx_free(vl);
	rlx_free(code.persistent);
	rlx_calls_fini(&code.calls);
	rlx_bump_fini(&code.bump);
	return yes;
}
