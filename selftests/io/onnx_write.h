/* SPDX-License-Identifier: MIT */
/* Writes ONNX files for tests, byte by byte. */
#ifndef RLX_SELFTESTS_ONNX_WRITE_H
#define RLX_SELFTESTS_ONNX_WRITE_H

#include <string.h>

#include "io/onnx/proto.h"
#include "selftests/lib/rlx_test.h"

/*
 * An exact heap copy, so that ASan sees the first byte too far. It stays
 * reachable: files refer to it.
 */
static inline void *keep_copy(const void *p, size_t n)
{
	static void *kept[256];
	static unsigned int used;

	CHECK(used < 256);
	kept[used] = malloc(n ? n : 1);
	CHECK(kept[used]);
	if (p)
		memcpy(kept[used], p, n);
	return kept[used++];
}

/* A protobuf writer just large enough for the tests. */
struct out {
	uint8_t	b[1 << 16];
	size_t	n;
};

static inline void byte(struct out *o, unsigned int v)
{
	CHECK(o->n < sizeof(o->b));
	o->b[o->n++] = (uint8_t)v;
}

static inline void varint(struct out *o, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		byte(o, (unsigned int)(v & 0x7f) | 0x80);
	byte(o, (unsigned int)v);
}

static inline void raw(struct out *o, const void *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		byte(o, ((const uint8_t *)p)[i]);
}

static inline void put_int(struct out *o, unsigned int field, uint64_t v)
{
	varint(o, field << 3 | 0);
	varint(o, v);
}

static inline void put_f32(struct out *o, unsigned int field, float v)
{
	varint(o, field << 3 | 5);
	raw(o, &v, 4);
}

static inline void put_bytes(struct out *o, unsigned int field, const void *p,
		      size_t n)
{
	varint(o, field << 3 | 2);
	varint(o, n);
	raw(o, p, n);
}

static inline void put_str(struct out *o, unsigned int field, const char *s)
{
	put_bytes(o, field, s, strlen(s));
}

static inline void put_msg(struct out *o, unsigned int field, const struct out *m)
{
	put_bytes(o, field, m->b, m->n);
}

static inline void tensor_head(struct out *o, const char *name, int dtype, int64_t n)
{
	put_str(o, 8, name);
	put_int(o, 2, (uint64_t)dtype);
	put_int(o, 1, (uint64_t)n);
}

/* A tensor of @n 64-bit integers, of one dim, or a scalar for n = 0. */
static inline void put_i64_tensor(struct out *o, unsigned int field,
				  const char *name, const int64_t *v, size_t n)
{
	struct out t = { .n = 0 };
	size_t i;

	put_str(&t, 8, name);
	put_int(&t, 2, ONNX_INT64);
	if (n)
		put_int(&t, 1, n);
	for (i = 0; i < (n ? n : 1); i++)
		put_int(&t, 7, (uint64_t)v[i]);
	put_msg(o, field, &t);
}

/* An input or output (@field 11, 12) of type @dtype and @rank dims. */
static inline void put_info(struct out *g, unsigned int field, const char *name,
			    int dtype, const int64_t *dim, size_t rank)
{
	struct out v = { .n = 0 }, ty = { .n = 0 }, tt = { .n = 0 };
	struct out sh = { .n = 0 }, d = { .n = 0 };
	size_t i;

	for (i = 0; i < rank; i++) {
		d.n = 0;
		if (dim[i] < 0)
			put_str(&d, 2, "n");
		else
			put_int(&d, 1, (uint64_t)dim[i]);
		put_msg(&sh, 1, &d);
	}
	put_int(&tt, 1, (uint64_t)dtype);
	put_msg(&tt, 2, &sh);
	put_msg(&ty, 1, &tt);
	put_str(&v, 1, name);
	put_msg(&v, 2, &ty);
	put_msg(g, field, &v);
}

/* "Add a b > c" as a node; "_" is an absent input. */
static inline void node_of(struct out *n, const char *text)
{
	char buf[256], *word, *save;
	unsigned int field = 1;

	snprintf(buf, sizeof(buf), "%s", text);
	n->n = 0;
	word = strtok_r(buf, " ", &save);
	put_str(n, 4, word);
	while ((word = strtok_r(NULL, " ", &save))) {
		if (!strcmp(word, ">"))
			field = 2;
		else
			put_str(n, field, strcmp(word, "_") ? word : "");
	}
}

static inline void put_node(struct out *g, const char *text)
{
	struct out n;

	node_of(&n, text);
	put_msg(g, 1, &n);
}

static inline void put_attr_i(struct out *n, const char *name, int64_t v)
{
	struct out a = { .n = 0 };

	put_str(&a, 1, name);
	put_int(&a, 3, (uint64_t)v);
	put_int(&a, 20, ONNX_ATTR_INT);
	put_msg(n, 5, &a);
}

static inline void put_attr_graph(struct out *n, const char *name,
				  const struct out *g)
{
	struct out a = { .n = 0 };

	put_str(&a, 1, name);
	put_msg(&a, 6, g);
	put_int(&a, 20, ONNX_ATTR_GRAPH);
	put_msg(n, 5, &a);
}

/* A model of @g with one opset import. */
static inline void model_of(struct out *o, const struct out *g, int64_t opset)
{
	struct out v = { .n = 0 };

	o->n = 0;
	put_int(o, 1, 8);
	put_int(&v, 2, (uint64_t)opset);
	put_msg(o, 8, &v);
	put_msg(o, 7, g);
}

#endif
