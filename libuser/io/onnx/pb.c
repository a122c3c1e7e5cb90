// SPDX-License-Identifier: MIT
/*
 * Protobuf messages into structs. Each message is walked twice, once to count
 * and check and once to store, so arrays are allocated once at their size and
 * the time is linear in the input. Memory is linear too: the smallest field is
 * two bytes and the largest struct a few hundred.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "io/onnx/pb.h"

enum rlx_status pb_fail(struct onnx_pb *pb, const struct pb_msg *m,
			const char *field, const void *at, const char *fmt, ...)
{
	unsigned long long off = (const uint8_t *)at - pb->base;
	char what[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return rlx_fail(pb->err, RLX_EPARSE, "%s: byte %llu, %s%s%s: %s",
			pb->file, off, m->name, field ? "." : "",
			field ? field : "", what);
}

enum rlx_status pb_nomem(struct onnx_pb *pb)
{
	return rlx_fail(pb->err, RLX_ENOMEM, "%s: out of memory", pb->file);
}

bool pb_varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
	const uint8_t *s = *p;
	unsigned int shift = 0;
	uint64_t v = 0;

	for (; s < end && shift < 64; shift += 7) {
		uint8_t b = *s++;

		/* The tenth byte holds one bit. */
		if (shift == 63 && b > 1)
			return false;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80)) {
			*p = s;
			*out = v;
			return true;
		}
	}
	return false;
}

static bool fixed(const uint8_t **p, const uint8_t *end, size_t n, uint64_t *v)
{
	if ((size_t)(end - *p) < n)
		return false;
	*v = 0;
	memcpy(v, *p, n);
	*p += n;
	return true;
}

enum rlx_status pb_next(struct onnx_pb *pb, const struct pb_msg *m,
			const uint8_t **p, const uint8_t *end,
			struct pb_item *it)
{
	uint64_t key;
	bool ok;

	it->tag = *p;
	it->p = NULL;
	if (!pb_varint(p, end, &key) || key >> 35 || key >> 3 == 0)
		return pb_fail(pb, m, NULL, it->tag, "malformed field key");
	it->num = (uint32_t)(key >> 3);
	it->wire = key & 7;
	switch (it->wire) {
	case PB_VARINT:
		ok = pb_varint(p, end, &it->v);
		break;
	case PB_FIXED64:
		ok = fixed(p, end, 8, &it->v);
		break;
	case PB_FIXED32:
		ok = fixed(p, end, 4, &it->v);
		break;
	case PB_BYTES:
		ok = pb_varint(p, end, &it->v);
		if (ok && it->v > (uint64_t)(end - *p))
			return pb_fail(pb, m, NULL, it->tag, "field %u has "
				       "length %llu but only %zu bytes are left",
				       it->num, (unsigned long long)it->v,
				       (size_t)(end - *p));
		it->p = *p;
		if (ok)
			*p += it->v;
		break;
	default:
		return pb_fail(pb, m, NULL, it->tag, "field %u has wire type "
			       "%u, which is none", it->num, it->wire);
	}
	if (!ok)
		return pb_fail(pb, m, NULL, it->tag, "field %u is cut short",
			       it->num);
	return RLX_OK;
}

static const struct pb_field *find(const struct pb_msg *m, uint32_t num)
{
	uint32_t i;

	for (i = 0; i < m->nfield; i++)
		if (m->field[i].num == num)
			return &m->field[i];
	return NULL;
}

/* How many values of @f the item holds, checking that it can hold them. */
static enum rlx_status count_item(struct onnx_pb *pb, const struct pb_msg *m,
				  const struct pb_field *f,
				  const struct pb_item *it, size_t *n)
{
	const uint8_t *p, *end;
	uint64_t v;

	*n = 1;
	switch (f->kind) {
	case PB_STR:
	case PB_MSG:
		if (it->wire == PB_BYTES)
			return RLX_OK;
		break;
	case PB_F32:
		if (it->wire == PB_FIXED32)
			return RLX_OK;
		if (it->wire != PB_BYTES || !f->rep)
			break;
		if (it->v % 4)
			return pb_fail(pb, m, f->name, it->tag,
				       "%llu bytes are no whole number of "
				       "floats", (unsigned long long)it->v);
		*n = it->v / 4;
		return RLX_OK;
	default:
		if (it->wire == PB_VARINT)
			return RLX_OK;
		if (it->wire != PB_BYTES || !f->rep)
			break;
		p = it->p;
		end = p + it->v;
		for (*n = 0; p < end; ++*n)
			if (!pb_varint(&p, end, &v))
				return pb_fail(pb, m, f->name, p,
					       "malformed integer");
		return RLX_OK;
	}
	return pb_fail(pb, m, f->name, it->tag,
		       "wire type %u does not fit this field", it->wire);
}

static void store_ints(const struct pb_item *it, int64_t *dst)
{
	const uint8_t *p = it->p, *end;
	uint64_t v;

	if (it->wire == PB_VARINT) {
		*dst = (int64_t)it->v;
		return;
	}
	end = p + it->v;
	while (p < end && pb_varint(&p, end, &v))
		*dst++ = (int64_t)v;
}

/* @dst points to the value, or to the next free element of the array. */
static enum rlx_status store_item(struct onnx_pb *pb, const struct pb_field *f,
				  const struct pb_item *it, void *dst,
				  unsigned int depth)
{
	struct rlx_str s = { (const char *)it->p, (size_t)it->v };
	uint32_t bits = (uint32_t)it->v;
	void *sub;

	switch (f->kind) {
	case PB_STR:
		memcpy(dst, &s, sizeof(s));
		return RLX_OK;
	case PB_F32:
		if (it->wire == PB_BYTES)
			memcpy(dst, it->p, it->v);
		else
			memcpy(dst, &bits, 4);
		return RLX_OK;
	case PB_MSG:
		if (f->rep)
			return pb_parse(pb, f->sub, s, dst, depth + 1);
		sub = rlx_bump_new(pb->arena, 1, f->sub->size);
		if (!sub)
			return pb_nomem(pb);
		memcpy(dst, &sub, sizeof(sub));
		return pb_parse(pb, f->sub, s, sub, depth + 1);
	default:
		store_ints(it, dst);
		return RLX_OK;
	}
}

static size_t elem_size(const struct pb_field *f)
{
	switch (f->kind) {
	case PB_STR:
		return sizeof(struct rlx_str);
	case PB_F32:
		return sizeof(float);
	case PB_MSG:
		return f->sub->size;
	default:
		return sizeof(int64_t);
	}
}

/* Pass 1: check every field, count the values of each row. */
static enum rlx_status count_fields(struct onnx_pb *pb, const struct pb_msg *m,
				    struct rlx_str body, size_t *count,
				    uint64_t *has)
{
	const uint8_t *p = (const uint8_t *)body.p, *end = p + body.n;
	const struct pb_field *f;
	struct pb_item it;
	enum rlx_status st;
	size_t n;

	while (p < end) {
		st = pb_next(pb, m, &p, end, &it);
		if (st)
			return st;
		f = find(m, it.num);
		if (!f)
			continue;
		st = count_item(pb, m, f, &it, &n);
		if (st)
			return st;
		if (f->kind == PB_MSG && !f->rep && count[f - m->field])
			return pb_fail(pb, m, f->name, it.tag,
				       "appears twice");
		count[f - m->field] += n;
		*has |= 1ull << f->num;
	}
	return RLX_OK;
}

enum rlx_status pb_parse(struct onnx_pb *pb, const struct pb_msg *m,
			 struct rlx_str body, void *out, unsigned int depth)
{
	const uint8_t *p = (const uint8_t *)body.p, *end = p + body.n;
	unsigned char *dst[PB_MAX_FIELDS], *to = out;
	size_t count[PB_MAX_FIELDS] = { 0 }, n;
	const struct pb_field *f;
	struct pb_item it;
	enum rlx_status st;
	uint32_t i;

	if (depth > PB_MAX_DEPTH)
		return pb_fail(pb, m, NULL, p, "messages nest more than %d "
			       "deep", PB_MAX_DEPTH);
	st = count_fields(pb, m, body, count, out);
	if (st)
		return st;
	for (i = 0; i < m->nfield; i++) {
		f = &m->field[i];
		dst[i] = to + f->off;
		if (!f->rep || !count[i])
			continue;
		dst[i] = rlx_bump_new(pb->arena, count[i], elem_size(f));
		if (!dst[i])
			return pb_nomem(pb);
		memcpy(to + f->off, &dst[i], sizeof(dst[i]));
		memcpy(to + f->off_n, &count[i], sizeof(count[i]));
	}
	while (p < end) {
		st = pb_next(pb, m, &p, end, &it);
		if (st)
			return st;
		f = find(m, it.num);
		if (!f)
			continue;
		i = (uint32_t)(f - m->field);
		st = store_item(pb, f, &it, dst[i], depth);
		if (st)
			return st;
		if (!f->rep)
			continue;
		/* Checked in the first pass, so it cannot fail here. */
		st = count_item(pb, m, f, &it, &n);
		if (st)
			return st;
		dst[i] += n * elem_size(f);
	}
	return m->finish ? m->finish(pb, out, body) : RLX_OK;
}
