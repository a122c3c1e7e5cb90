// SPDX-License-Identifier: MIT
/* Plan steps by reference evaluation. */
#include <string.h>

#include "backends/common/extent.h"
#include "backends/common/host.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "ir/eval.h"
#include "ir/graph.h"

const void *rlx_host_contents(struct rlx_code *code, struct rlx_blob *b)
{
	if (code->gather)
		code->gather->read(code->gather, b);
	code->lacks |= b->absent;
	return b->data;
}

const void *rlx_host_const(const struct rlx_code *code, uint32_t i)
{
	if (code->home && code->home[i])
		return code->home[i];
	return rlx_blob_data(code->plan->constant[i]);
}

const void *rlx_host_home(struct rlx_code *code, uint32_t i)
{
	struct rlx_blob *b = code->plan->constant[i];
	static const int64_t none[4];
	enum rlx_took took;
	void *p;

	if (code->home && !code->home[i] && b->source) {
		took = rlx_store_take(code->store, b, "raw", none, b->bytes, &p);
		if (took == RLX_TOOK_NEW) {
			memcpy(p, b->data, b->bytes);
			rlx_store_ready(code->store, p);
		}
		if (took != RLX_TOOK_NONE)
			code->home[i] = p;
	}
	rlx_host_contents(code, b);
	return rlx_host_const(code, i);
}

void *rlx_host_ptr(const struct rlx_exec *exec, uint32_t v)
{
	const struct rlx_plan *p = exec->code->plan;
	const struct rlx_place *at = &p->val[v].place;
	char *base = NULL;

	switch (v ? at->kind : RLX_PLACE_NONE) {
	case RLX_PLACE_CONST:
		base = (char *)(uintptr_t)rlx_host_const(exec->code, at->index);
		break;
	case RLX_PLACE_INPUT:
		base = exec->ptr[RLX_IO_INPUT][at->index];
		break;
	case RLX_PLACE_PARAM:
		base = exec->ptr[RLX_IO_PARAM][at->index];
		break;
	case RLX_PLACE_OUTPUT:
		base = exec->ptr[RLX_IO_OUTPUT][at->index];
		break;
	case RLX_PLACE_WORK:
		base = exec->work;
		break;
	default:
		break;
	}
	return base ? base + at->offset : NULL;
}

enum rlx_status rlx_host_scratch(const struct rlx_plan *p,
				 const struct rlx_plan_step *st,
				 uint64_t *out_bytes, struct rlx_error *err)
{
	const struct rlx_type **types;
	struct rlx_infer q = { .def = st->def, .args = st->args, .n_in = st->n_in };
	uint32_t i;

	*out_bytes = 0;
	if (!st->def || !st->def->impl->eval)
		return RLX_OK;
	types = rlx_malloc((st->n_in + 1) * sizeof(*types));
	if (!types)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", st->def->name);
	for (i = 0; i < st->n_in; i++)
		types[i] = st->in[i] ? &p->val[st->in[i]].type : NULL;
	q.in = types;
	q.n_out = st->n_out;
	for (i = 0; i < st->n_out; i++)
		q.out[i] = p->val[st->out[i]].type;
	*out_bytes = rlx_op_scratch(&q);
	rlx_free(types);
	return RLX_OK;
}

static void fill(const struct rlx_exec *exec, const uint32_t *v, uint32_t n,
		 struct rlx_tensor *t)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		t[i] = v[i] ? (struct rlx_tensor){
			exec->code->plan->val[v[i]].type, rlx_host_ptr(exec, v[i]),
		} : (struct rlx_tensor){ 0 };
}

enum rlx_status rlx_host_step(const struct rlx_exec *exec, const uint8_t *leads,
			      const struct rlx_plan_step *st, void *scratch,
			      struct rlx_tensor *tensors)
{
	struct rlx_tensor *in = tensors, *out = tensors + st->n_in;
	struct rlx_eval q = {
		.err = exec->err, .def = st->def, .args = st->args,
		.n_in = st->n_in, .n_out = st->n_out, .in = in, .out = out,
		.scratch = scratch, .collective = exec->collective,
	};

	fill(exec, st->in, st->n_in, in);
	fill(exec, st->out, st->n_out, out);
	rlx_extent_cut(exec, leads, st, in, out);
	if (!st->def) {
		memcpy(out[0].data, in[0].data, (size_t)rlx_type_bytes(&in[0].type));
		return RLX_OK;
	}
	return rlx_host_ended(exec, st, rlx_op_eval(&q));
}

uint64_t rlx_host_step_time(const struct rlx_exec *exec, uint32_t step, uint64_t from)
{
	uint64_t at = rlx_now();

	exec->step_ns[step] += at - from;
	return at;
}
