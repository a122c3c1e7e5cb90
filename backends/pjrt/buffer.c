// SPDX-License-Identifier: MIT
/* The plugin's buffers, made of host memory and copied to it. */
#include "backends/pjrt/pjrt.h"

/* Of enum PJRT_Buffer_Type; 0: none */
static int type_of(enum rlx_dtype dt)
{
	switch (dt) {
	case RLX_BOOL: return 1;
	case RLX_I8: return 2;
	case RLX_I16: return 3;
	case RLX_I32: return 4;
	case RLX_I64: return 5;
	case RLX_U8: return 6;
	case RLX_U16: return 7;
	case RLX_U32: return 8;
	case RLX_U64: return 9;
	case RLX_F16: return 10;
	case RLX_F32: return 11;
	case RLX_F64: return 12;
	case RLX_BF16: return 13;
	case RLX_C64: return 14;
	case RLX_F8E5M2: return 16;
	case RLX_F8E4M3: return 17;
	default: return 0;
	}
}

static bool reads_in_place(const struct pjrt_plugin *p, struct pjrt_buffer *b, const void *data)
{
	const size_t end = offsetof(struct pjrt_api, fn) +
			   (PJRT_BUFFER_UNSAFE_POINTER + 1) * sizeof(p->api->fn[0]);
	struct pjrt_unsafe_pointer a = { .head = PJRT_HEAD(a, out), .buffer = b };

	return p->is_cpu && p->api->head.size >= end &&
	       p->api->fn[PJRT_BUFFER_UNSAFE_POINTER] &&
	       !pjrt_call(p, PJRT_BUFFER_UNSAFE_POINTER, &a, "asking for an address", NULL) &&
	       a.out == (uintptr_t)data;
}

enum rlx_status pjrt_import(const struct pjrt_plugin *p, const struct rlx_type *t,
			    const void *data, struct pjrt_buffer **out, bool *in_place,
			    struct rlx_error *err)
{
	static const max_align_t nothing;
	struct pjrt_from_host a = {
		.head = PJRT_HEAD(a, buffer), .client = p->client, .data = data ? data : &nothing,
		.type = type_of(t->dtype), .dims = t->dim, .n_dim = t->rank,
		.semantics = PJRT_ZERO_COPY, .device = p->hw,
	};
	enum rlx_status st = pjrt_call(p, PJRT_CLIENT_BUFFER_FROM_HOST, &a,
				       "taking host memory", NULL);

	if (st) {	/* not all can use it in place */
		a.semantics = PJRT_UNTIL_TRANSFERRED;
		st = pjrt_call(p, PJRT_CLIENT_BUFFER_FROM_HOST, &a, "taking host memory", err);
	}
	if (st)
		return st;
	*in_place = reads_in_place(p, a.buffer, a.data);
	/*
	 * What is in use in place is so until the buffer goes. Of a device that may use it so and
	 * does not tell, the memory is left alone as long; else until it is copied.
	 */
	if (*in_place || a.semantics == PJRT_ZERO_COPY)
		pjrt_destroy(p, PJRT_EVENT_DESTROY, a.done);
	else
		st = pjrt_await(p, a.done, "copying to the device", err);
	if (st)		/* nobody may find it, for it holds anything */
		pjrt_destroy(p, PJRT_BUFFER_DESTROY, a.buffer);
	else
		*out = a.buffer;
	return st;
}

enum rlx_status pjrt_export(const struct pjrt_plugin *p, struct pjrt_buffer *b,
			    const struct rlx_type *t, void *to, struct pjrt_event **out,
			    struct rlx_error *err)
{
	int64_t order[RLX_MAX_RANK];
	struct pjrt_layout rows = {
		.head = PJRT_HEAD(rows, type),
		.tiled = { .head = PJRT_HEAD(rows.tiled, n_tile), .minor_to_major = order,
			   .n = t->rank },
	};
	struct pjrt_to_host a = {
		.head = PJRT_HEAD(a, event), .buffer = b, .layout = &rows, .to = to,
		.size = (size_t)rlx_type_bytes(t),
	};
	enum rlx_status st;
	uint32_t d;

	for (d = 0; d < t->rank; d++)
		order[d] = t->rank - 1 - d;
	st = pjrt_call(p, PJRT_BUFFER_TO_HOST, &a, "copying from the device", err);
	*out = st ? NULL : a.event;
	return st;
}
