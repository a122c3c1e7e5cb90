// SPDX-License-Identifier: MIT
/* Conversions between KServe's JSON tensors and bytes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/rlxd/wire.h"

static const struct {
	const char	*name;
	enum rlx_dtype	 dtype;
	int64_t		 low, high;	/* of integers up to 32 bits */
} words[] = {
	{ "BOOL", RLX_BOOL, 0, 1 },
	{ "UINT8", RLX_U8, 0, UINT8_MAX },
	{ "UINT16", RLX_U16, 0, UINT16_MAX },
	{ "UINT32", RLX_U32, 0, UINT32_MAX },
	{ "UINT64", RLX_U64, 0, INT64_MAX },
	{ "INT8", RLX_I8, INT8_MIN, INT8_MAX },
	{ "INT16", RLX_I16, INT16_MIN, INT16_MAX },
	{ "INT32", RLX_I32, INT32_MIN, INT32_MAX },
	{ "INT64", RLX_I64, INT64_MIN, INT64_MAX },
	{ "FP16", RLX_F16, 0, 0 },
	{ "BF16", RLX_BF16, 0, 0 },
	{ "FP32", RLX_F32, 0, 0 },
	{ "FP64", RLX_F64, 0, 0 },
};

enum { N_WORDS = sizeof(words) / sizeof(words[0]) };

const char *wire_name(enum rlx_dtype dt)
{
	unsigned int i;

	for (i = 0; i < N_WORDS; i++)
		if (words[i].dtype == dt)
			return words[i].name;
	return NULL;
}

enum rlx_dtype wire_dtype(const char *name)
{
	unsigned int i;

	for (i = 0; i < N_WORDS; i++)
		if (!strcmp(words[i].name, name))
			return words[i].dtype;
	return RLX_NODTYPE;
}

/* One element; little-endian machines alone are built for. */
static bool put_element(const struct rlx_json *j, uint32_t node, unsigned int word,
			size_t size, void *to)
{
	enum rlx_dtype dt = words[word].dtype;
	uint64_t u;
	int64_t v;
	double d;
	float f;
	char *end;

	if (rlx_json_kind(j, node) == RLX_JSON_BOOL && dt == RLX_BOOL) {
		*(uint8_t *)to = j->node[node].truth;
		return true;
	}
	if (rlx_json_kind(j, node) != RLX_JSON_NUM)
		return false;
	if (dt == RLX_F32 || dt == RLX_F64) {
		if (!rlx_json_double(j, node, &d))
			return false;
		f = (float)d;
		memcpy(to, dt == RLX_F32 ? (void *)&f : (void *)&d, size);
		return dt == RLX_F64 ? isfinite(d) : isfinite(f);
	}
	if (dt == RLX_U64) {
		errno = 0;
		u = strtoull(rlx_json_text(j, node), &end, 10);
		memcpy(to, &u, sizeof(u));
		return !errno && !*end && *rlx_json_text(j, node) != '-';
	}
	if (!rlx_json_int(j, node, &v) || v < words[word].low || v > words[word].high)
		return false;
	memcpy(to, &v, size);
	return true;
}

/* Does an array hold no other one, but for empty ones? */
static bool is_flat(const struct rlx_json *j, uint32_t node)
{
	return j->node[node].end == node + 1 + rlx_json_len(j, node);
}

/* Is @node, of dimension @k, nested as the shape says? */
static bool is_nested(const struct rlx_json *j, uint32_t node, const struct rlx_type *type,
		      unsigned int k)
{
	struct rlx_json_iter it;

	if (k == type->rank || rlx_json_kind(j, node) != RLX_JSON_ARR ||
	    rlx_json_len(j, node) != type->dim[k])
		return false;
	if (k + 1 == type->rank)
		return is_flat(j, node);
	for (it = rlx_json_iter(j, node); rlx_json_next(&it); )
		if (!is_nested(j, it.val, type, k + 1))
			return false;
	return true;
}

bool wire_from_json(const struct rlx_json *j, uint32_t node, const struct rlx_type *type,
		    void *to, char why[160])
{
	int64_t want = rlx_type_count(type), n = 0;
	size_t size = rlx_dtype_size(type->dtype);
	unsigned int w = 0;
	bool nested;
	uint32_t i;

	while (w < N_WORDS && words[w].dtype != type->dtype)
		w++;
	if (w == N_WORDS || type->dtype == RLX_F16 || type->dtype == RLX_BF16) {
		snprintf(why, 160, "this datatype has no form in JSON; send it as binary data");
		return false;
	}
	if (rlx_json_kind(j, node) != RLX_JSON_ARR) {
		snprintf(why, 160, "'data' is no array");
		return false;
	}
	nested = is_nested(j, node, type, 0);
	if (!nested && !is_flat(j, node)) {
		snprintf(why, 160, "'data' is nested otherwise than its shape; nest it as the "
			 "shape says, or give all elements in one array");
		return false;
	}
	/* Nodes stand in the order of the elements, in whichever arrays. */
	for (i = node + 1; i < j->node[node].end; i++) {
		if (nested && rlx_json_kind(j, i) == RLX_JSON_ARR)
			continue;
		if (n == want || !put_element(j, i, w, size, (char *)to + (size_t)n * size)) {
			snprintf(why, 160, n == want ? "'data' has more than the shape's %lld "
				 "elements" : "element %lld of 'data' is no %s%s", (long long)n,
				 words[w].high ? "" : "finite ", words[w].name);
			return false;
		}
		n++;
	}
	if (n != want)
		snprintf(why, 160, "'data' has %lld elements, the shape %lld", (long long)n,
			 (long long)want);
	return n == want;
}

static int64_t get_int(enum rlx_dtype dt, const void *p)
{
	int64_t v = 0;

	switch (dt) {
	case RLX_I64: memcpy(&v, p, 8); return v;
	case RLX_I32: { int32_t x; memcpy(&x, p, 4); return x; }
	case RLX_I16: { int16_t x; memcpy(&x, p, 2); return x; }
	case RLX_I8: return *(const int8_t *)p;
	case RLX_U32: { uint32_t x; memcpy(&x, p, 4); return x; }
	case RLX_U16: { uint16_t x; memcpy(&x, p, 2); return x; }
	default: return *(const uint8_t *)p;
	}
}

void wire_shape(struct obuf *o, const int64_t *dim, unsigned int rank)
{
	unsigned int k;

	obuf_str(o, "[");
	for (k = 0; k < rank; k++) {
		obuf_str(o, k ? "," : "");
		obuf_int(o, dim[k]);
	}
	obuf_str(o, "]");
}

bool wire_to_json(struct obuf *o, const struct rlx_type *type, const void *data)
{
	int64_t n = rlx_type_count(type), i;
	size_t size = rlx_dtype_size(type->dtype);
	const char *p = data;
	uint64_t u;
	double d;
	float f;

	if (!wire_name(type->dtype) || type->dtype == RLX_F16 || type->dtype == RLX_BF16)
		return false;
	obuf_str(o, "[");
	for (i = 0; i < n; i++, p += size) {
		if (i)
			obuf_str(o, ",");
		switch (type->dtype) {
		case RLX_F32:
			memcpy(&f, p, sizeof(f));
			obuf_float(o, f);
			break;
		case RLX_F64:
			memcpy(&d, p, sizeof(d));
			obuf_double(o, d);
			break;
		case RLX_U64:
			memcpy(&u, p, sizeof(u));
			obuf_u64(o, u);
			break;
		case RLX_BOOL:
			obuf_str(o, *p ? "true" : "false");
			break;
		default:
			obuf_int(o, get_int(type->dtype, p));
		}
	}
	obuf_str(o, "]");
	return true;
}
