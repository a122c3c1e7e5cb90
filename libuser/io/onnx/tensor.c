// SPDX-License-Identifier: MIT
/*
 * Where a TensorProto's elements are. A file may keep them as raw bytes, in
 * another file, or as typed protobuf fields (one of five, integers as varints
 * whatever their width); readers of the model see one packed block of bytes.
 */
#include <string.h>

#include "base/alloc.h"
#include "io/onnx/desc.h"

#define M	(&onnx_msg_tensor)

static const struct dtype_row {
	const char	*name;
	uint8_t		 bits;
	uint8_t		 field;	/* number of the typed data field */
	uint8_t		 part;	/* bytes of one stored value; complex has 2 */
} dtype_rows[] = {
	[ONNX_FLOAT]	= { "float", 32, 4, 4 },
	[ONNX_UINT8]	= { "uint8", 8, 5, 1 },
	[ONNX_INT8]	= { "int8", 8, 5, 1 },
	[ONNX_UINT16]	= { "uint16", 16, 5, 2 },
	[ONNX_INT16]	= { "int16", 16, 5, 2 },
	[ONNX_INT32]	= { "int32", 32, 5, 4 },
	[ONNX_INT64]	= { "int64", 64, 7, 8 },
	[ONNX_STRING]	= { "string", 0, 6, 0 },
	[ONNX_BOOL]	= { "bool", 8, 5, 1 },
	[ONNX_FLOAT16]	= { "float16", 16, 5, 2 },
	[ONNX_DOUBLE]	= { "double", 64, 10, 8 },
	[ONNX_UINT32]	= { "uint32", 32, 11, 4 },
	[ONNX_UINT64]	= { "uint64", 64, 11, 8 },
	[ONNX_COMPLEX64] = { "complex64", 64, 4, 4 },
	[ONNX_COMPLEX128] = { "complex128", 128, 10, 8 },
	[ONNX_BFLOAT16]	= { "bfloat16", 16, 5, 2 },
	[ONNX_F8E4M3FN]	= { "float8e4m3fn", 8, 5, 1 },
	[ONNX_F8E4M3FNUZ] = { "float8e4m3fnuz", 8, 5, 1 },
	[ONNX_F8E5M2]	= { "float8e5m2", 8, 5, 1 },
	[ONNX_F8E5M2FNUZ] = { "float8e5m2fnuz", 8, 5, 1 },
	[ONNX_UINT4]	= { "uint4", 4, 5, 1 },
	[ONNX_INT4]	= { "int4", 4, 5, 1 },
	[ONNX_F4E2M1]	= { "float4e2m1", 4, 5, 1 },
	[ONNX_F8E8M0]	= { "float8e8m0", 8, 5, 1 },
	[ONNX_UINT2]	= { "uint2", 2, 5, 1 },
	[ONNX_INT2]	= { "int2", 2, 5, 1 },
};

static const struct dtype_row *row_of(int64_t dtype)
{
	if (dtype < 0 || dtype >= (int64_t)(sizeof(dtype_rows) /
					    sizeof(dtype_rows[0])) ||
	    !dtype_rows[dtype].name)
		return NULL;
	return &dtype_rows[dtype];
}

unsigned int onnx_dtype_bits(int64_t dtype)
{
	const struct dtype_row *r = row_of(dtype);

	return r ? r->bits : 0;
}

const char *onnx_dtype_name(int64_t dtype)
{
	const struct dtype_row *r = row_of(dtype);

	return r ? r->name : "?";
}

/* t->count and t->nbytes from dims and dtype. */
static enum rlx_status size_of(struct onnx_pb *pb, struct onnx_tensor *t,
			       const void *at)
{
	unsigned int bits = onnx_dtype_bits(t->dtype);
	uint64_t n = 1, nbits;
	size_t i;

	/* A zero dim makes the tensor empty however large the others are. */
	for (i = 0; i < t->ndims; i++) {
		if (t->dims[i] < 0)
			return pb_fail(pb, M, "dims", at, "tensor '%.*s': dim "
				       "%zu is %lld", ONNX_STR(t->name), i,
				       (long long)t->dims[i]);
		if (!t->dims[i])
			n = 0;
	}
	for (i = 0; n && i < t->ndims; i++)
		if (__builtin_mul_overflow(n, (uint64_t)t->dims[i], &n))
			return pb_fail(pb, M, "dims", at, "tensor '%.*s': more "
				       "than 2^64 elements", ONNX_STR(t->name));
	if (__builtin_mul_overflow(n, bits ? bits : 8, &nbits) ||
	    nbits > UINT64_MAX - 7)
		return pb_fail(pb, M, "dims", at, "tensor '%.*s': more than "
			       "2^64 bits", ONNX_STR(t->name));
	t->count = n;
	t->nbytes = bits ? (nbits + 7) / 8 : 0;
	return RLX_OK;
}

static enum rlx_status wrong_size(struct onnx_pb *pb, struct onnx_tensor *t,
				  const char *field, const void *at,
				  uint64_t got)
{
	return pb_fail(pb, M, field, at, "tensor '%.*s' holds %llu bytes, its "
		       "dims and type (%s) ask for %llu", ONNX_STR(t->name),
		       (unsigned long long)got, onnx_dtype_name(t->dtype),
		       (unsigned long long)t->nbytes);
}

/* Decimal digits only; false if not a number that fits. */
static bool number(struct rlx_str s, uint64_t *out)
{
	uint64_t v = 0;
	size_t i;

	for (i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9' ||
		    __builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v))
			return false;
	}
	*out = v;
	return s.n > 0 && v <= INT64_MAX;
}

static enum rlx_status external(struct onnx_pb *pb, struct onnx_tensor *t,
				const void *at)
{
	struct rlx_str where = { 0 }, got;
	uint64_t offset = 0, length = 0;
	bool has_length = false, ok = true;
	enum rlx_status st;
	size_t i;

	for (i = 0; ok && i < t->nexternal; i++) {
		const struct onnx_kv *kv = &t->external[i];

		if (onnx_str_is(kv->key, "location")) {
			where = kv->value;
		} else if (onnx_str_is(kv->key, "offset")) {
			ok = number(kv->value, &offset);
		} else if (onnx_str_is(kv->key, "length")) {
			ok = number(kv->value, &length);
			has_length = true;
		}
	}
	if (!ok)
		return pb_fail(pb, M, "external_data", at, "tensor '%.*s': "
			       "offset or length is no number",
			       ONNX_STR(t->name));
	if (!where.n)
		return pb_fail(pb, M, "external_data", at,
			       "tensor '%.*s': no location",
			       ONNX_STR(t->name));
	st = onnx_file_external(pb, where, offset,
				has_length ? (int64_t)length : -1, &got);
	if (st)
		return st;
	if (got.n < t->nbytes || (has_length && got.n != t->nbytes))
		return wrong_size(pb, t, "external_data", at, got.n);
	t->data = t->nbytes ? got.p : NULL;
	return RLX_OK;
}

/* What the typed field holds, summed over its occurrences. */
struct typed {
	uint64_t	 values;
	uint32_t	 chunks;
	const uint8_t	*packed;	/* payload of the last packed chunk */
};

static enum rlx_status typed_scan(struct onnx_pb *pb, struct rlx_str body,
				  const struct dtype_row *r, struct typed *out)
{
	const uint8_t *p = (const uint8_t *)body.p, *end = p + body.n, *q;
	bool fixed = r->field == 4 || r->field == 10;
	struct pb_item it;
	enum rlx_status st;
	uint64_t v;

	while (p < end) {
		st = pb_next(pb, M, &p, end, &it);
		if (st)
			return st;
		if (it.num != r->field)
			continue;
		out->chunks++;
		out->packed = it.wire == PB_BYTES ? it.p : NULL;
		if (it.wire == PB_BYTES && fixed) {
			if (it.v % r->part)
				return pb_fail(pb, M, "data", it.tag,
					       "a broken last element");
			out->values += it.v / r->part;
		} else if (it.wire == PB_BYTES) {
			for (q = it.p; q < it.p + it.v; out->values++)
				if (!pb_varint(&q, it.p + it.v, &v))
					return pb_fail(pb, M, "data", q,
						       "malformed integer");
		} else if (it.wire == (!fixed ? PB_VARINT : r->part == 4 ?
				       PB_FIXED32 : PB_FIXED64)) {
			out->values++;
		} else {
			return pb_fail(pb, M, "data", it.tag,
				       "wire type %u does not fit field %u",
				       it.wire, it.num);
		}
	}
	return RLX_OK;
}

static bool in_range(int64_t dtype, uint64_t v)
{
	int64_t s = (int64_t)v;

	switch (dtype) {
	case ONNX_INT8:
		return s >= INT8_MIN && s <= INT8_MAX;
	case ONNX_INT16:
		return s >= INT16_MIN && s <= INT16_MAX;
	case ONNX_INT32:
		return s >= INT32_MIN && s <= INT32_MAX;
	case ONNX_UINT32:
		return v <= UINT32_MAX;
	case ONNX_UINT16:
	case ONNX_FLOAT16:
	case ONNX_BFLOAT16:
		return v <= UINT16_MAX;
	case ONNX_BOOL:
		return v <= 1;
	case ONNX_INT64:
	case ONNX_UINT64:
		return true;
	case ONNX_INT4:
	case ONNX_INT2:
		return s >= INT8_MIN && s <= UINT8_MAX;
	default:
		return v <= UINT8_MAX;
	}
}

/* Append the item's values at @dst; returns the new end, NULL if one is off. */
static uint8_t *typed_copy(const struct pb_item *it, const struct dtype_row *r,
			   int64_t dtype, uint8_t *dst)
{
	const uint8_t *q = it->p, *end;
	uint64_t v = it->v;

	if (it->wire != PB_BYTES) {
		if (it->wire == PB_VARINT && !in_range(dtype, v))
			return NULL;
		memcpy(dst, &v, r->part);
		return dst + r->part;
	}
	if (r->field == 4 || r->field == 10) {
		memcpy(dst, q, v);
		return dst + v;
	}
	end = q + v;
	while (q < end && pb_varint(&q, end, &v)) {
		if (!in_range(dtype, v))
			return NULL;
		memcpy(dst, &v, r->part);
		dst += r->part;
	}
	return dst;
}

static enum rlx_status typed(struct onnx_pb *pb, struct onnx_tensor *t,
			     struct rlx_str body)
{
	const uint8_t *p = (const uint8_t *)body.p, *end = p + body.n;
	const struct dtype_row *r = row_of(t->dtype);
	struct typed ty = { 0 };
	struct pb_item it;
	enum rlx_status st;
	uint8_t *dst;

	st = typed_scan(pb, body, r, &ty);
	if (st)
		return st;
	/* Bounded: there is at least one input byte for each value. */
	if (ty.values * r->part != t->nbytes)
		return wrong_size(pb, t, "data", p, ty.values * r->part);
	if (!t->nbytes)
		return RLX_OK;
	if (ty.chunks == 1 && ty.packed && (r->field == 4 || r->field == 10)) {
		t->data = ty.packed;
		return RLX_OK;
	}
	dst = rlx_bump_new(pb->arena, t->nbytes, 1);
	if (!dst)
		return pb_nomem(pb);
	t->data = dst;
	while (p < end) {
		st = pb_next(pb, M, &p, end, &it);
		if (st)
			return st;
		if (it.num != r->field)
			continue;
		dst = typed_copy(&it, r, t->dtype, dst);
		if (!dst)
			return pb_fail(pb, M, "data", it.tag, "tensor '%.*s': "
				       "a value is outside %s",
				       ONNX_STR(t->name), r->name);
	}
	return RLX_OK;
}

#define HAS_RAW		(1u << 9)

enum rlx_status onnx_tensor_finish(struct onnx_pb *pb, void *msg,
				   struct rlx_str body)
{
	struct onnx_tensor *t = msg;
	enum rlx_status st;

	if (!row_of(t->dtype))
		return pb_fail(pb, M, "data_type", body.p, "tensor '%.*s' has "
			       "element type %lld, which is none",
			       ONNX_STR(t->name), (long long)t->dtype);
	st = size_of(pb, t, body.p);
	if (st)
		return st;
	if (t->dtype == ONNX_STRING) {
		if (t->nstrings != t->count)
			return pb_fail(pb, M, "string_data", body.p, "tensor "
				       "'%.*s' holds %zu strings, its dims ask "
				       "for %llu", ONNX_STR(t->name),
				       t->nstrings,
				       (unsigned long long)t->count);
		return RLX_OK;
	}
	if (t->location == 1)
		return external(pb, t, body.p);
	if (!(t->has & HAS_RAW))
		return typed(pb, t, body);
	if (t->raw.n != t->nbytes)
		return wrong_size(pb, t, "raw_data", body.p, t->raw.n);
	t->data = t->nbytes ? t->raw.p : NULL;
	return RLX_OK;
}
