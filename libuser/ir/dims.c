// SPDX-License-Identifier: MIT
/* Dimensions with names: the table of a graph, and their text. */
#include <string.h>

#include "base/alloc.h"
#include "ir/dims.h"

static int64_t out_of_memory(struct rlx_graph *g)
{
	rlx_fail(&g->err, RLX_ENOMEM, "graph '%s': out of memory for a dimension", g->name);
	return -1;
}

void rlx_dims_fini(struct rlx_dims *d)
{
	int k;

	if (!d)
		return;
	for (k = 0; k < RLX_DIM_SAMPLES; k++)
		rlx_free(d->type[k]);
	rlx_map_fini(&d->by);
	rlx_free(d->name);
	rlx_free(d->e);
	rlx_free(d);
}

/* The graph's table, made with the first name: what stands in it already is of fixed size. */
static struct rlx_dims *table_of(struct rlx_graph *g)
{
	struct rlx_dims *d = g->dims;
	uint32_t i;
	int k;

	if (d)
		return d;
	d = rlx_calloc(1, sizeof(*d));
	for (k = 0; d && k < RLX_DIM_SAMPLES; k++) {
		if (!rlx_grow(&d->type[k], &d->cap_type[k], g->n_val, sizeof(*d->type[k]))) {
			rlx_dims_fini(d);
			return NULL;
		}
		for (i = 0; i < g->n_val; i++)
			d->type[k][i] = g->val[i].type;
	}
	g->dims = d;
	return d;
}

uint32_t rlx_dim_find(const struct rlx_graph *g, const char *name)
{
	uint64_t at;

	return g->dims && rlx_map_get(&g->dims->by, name, strlen(name), &at) ? (uint32_t)at :
									       UINT32_MAX;
}

/* Append @e, found by @key from then on. */
static int64_t add(struct rlx_graph *g, const struct rlx_dim *e, const void *key, size_t n)
{
	struct rlx_dims *d = g->dims;

	if (d->n == RLX_DIM_MOST) {
		rlx_fail(&g->err, RLX_ERANGE, "graph '%s': over %d dimensions", g->name,
			 RLX_DIM_MOST);
		return -1;
	}
	if (!rlx_grow(&d->e, &d->cap, d->n + 1, sizeof(*d->e)) ||
	    !rlx_map_put(&d->by, key, n, d->n))
		return out_of_memory(g);
	d->e[d->n] = *e;
	return RLX_DIM_FIRST + d->n++;
}

/* Is a row of samples no constant, where it may be none, and no other name's? */
static bool is_telling(const struct rlx_dims *d, const struct rlx_dim *e, int64_t lo, int64_t hi)
{
	bool varies = lo == hi;
	uint32_t i;

	for (i = 1; i < RLX_DIM_SAMPLES; i++)
		varies |= e->sample[i] != e->sample[0];
	for (i = 0; varies && i < d->n_name; i++)
		varies = memcmp(d->e[d->name[i]].sample, e->sample, sizeof(e->sample));
	return varies;
}

/* Of the upper half of a range, so that kernels fit; up to 255 more than its minimum. */
static void draw_samples(const struct rlx_dims *d, struct rlx_dim *e)
{
	int64_t hi = e->b - e->a > 255 ? e->a + 255 : e->b, lo = hi - (hi - e->a) / 2;
	uint64_t seed = d->n_name;
	uint32_t i, turn;

	if (!lo && hi)
		lo = 1;
	if (lo == hi && hi > e->a)	/* of two sizes, both */
		lo = hi - 1;
	for (turn = 0; turn < 256; turn++) {
		for (i = 0; i < RLX_DIM_SAMPLES; i++) {
			seed = rlx_hash_bytes(&turn, sizeof(turn), seed + i);
			e->sample[i] = lo + (int64_t)(seed % (uint64_t)(hi - lo + 1));
		}
		if (is_telling(d, e, lo, hi))
			return;
	}
	/* more names than rows: then they are told apart by where they stand */
	for (i = 0; i < RLX_DIM_SAMPLES; i++)
		e->sample[i] = i ? lo : hi;
}

static bool is_name(const char *s)
{
	size_t i;

	for (i = 0; s[i] && i <= RLX_DIM_NAME_MAX; i++) {
		bool letter = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
			      s[i] == '_';

		if (!letter && !(i && s[i] >= '0' && s[i] <= '9'))
			return false;
	}
	return i && i <= RLX_DIM_NAME_MAX;
}

/* May @g be given more? Else an error sticks. */
static bool is_open(struct rlx_graph *g)
{
	if (!g || g->err.status)
		return false;
	if (g->finished)
		rlx_fail(&g->err, RLX_EINVAL, "graph '%s' is finished and takes no more "
			 "dimensions", g->name);
	return !g->err.status;
}

int64_t rlx_dim(struct rlx_graph *g, const char *name, int64_t min, int64_t max)
{
	struct rlx_dim e = { .kind = RLX_DIM_NAME, .parts = 1, .a = min, .b = max };
	struct rlx_dims *d;
	uint32_t at;
	int64_t x;

	if (!is_open(g))
		return -1;
	if (!name || !is_name(name)) {
		rlx_fail(&g->err, RLX_EINVAL, "dimension '%.40s': a name is up to %d letters, "
			 "digits and '_', no digit first", name ? name : "(null)",
			 RLX_DIM_NAME_MAX);
		return -1;
	}
	if (min < 0 || max < min) {
		rlx_fail(&g->err, RLX_ERANGE, "dimension '%s': sizes from %lld to %lld; from 0 "
			 "on, and not empty, is right", name, (long long)min, (long long)max);
		return -1;
	}
	d = table_of(g);
	at = rlx_dim_find(g, name);
	if (at != UINT32_MAX && d->e[at].a == min && d->e[at].b == max)
		return RLX_DIM_FIRST + at;
	if (at != UINT32_MAX) {
		rlx_fail(&g->err, RLX_EEXIST, "dimension '%s' is there, from %lld to %lld", name,
			 (long long)d->e[at].a, (long long)d->e[at].b);
		return -1;
	}
	if (d && d->n_name == RLX_DIM_NAMES_MOST) {
		rlx_fail(&g->err, RLX_ERANGE, "dimension '%s': graph '%s' has %d names, and takes "
			 "no more", name, g->name, RLX_DIM_NAMES_MOST);
		return -1;
	}
	e.name = d ? rlx_bump_str(&g->bump, name, strlen(name)) : NULL;
	if (!e.name || !rlx_grow(&d->name, &d->cap_name, d->n_name + 1, sizeof(*d->name)))
		return out_of_memory(g);
	draw_samples(d, &e);
	x = add(g, &e, name, strlen(name));
	if (x != -1)
		d->name[d->n_name++] = rlx_dim_place(x);
	return x;
}

static bool compute(enum rlx_dim_kind kind, int64_t a, int64_t b, int64_t *out)
{
	switch (kind) {
	case RLX_DIM_ADD:
		return !__builtin_add_overflow(a, b, out);
	case RLX_DIM_MUL:
		return !__builtin_mul_overflow(a, b, out);
	default:
		if (!b || (b == -1 && a == INT64_MIN))
			return false;
		*out = a / b - (a % b && (a < 0) != (b < 0));
		return true;
	}
}

bool rlx_dim_compute(enum rlx_dim_kind kind, int64_t a, int64_t b, int64_t *out)
{
	return compute(kind, a, b, out) && !rlx_is_dim(*out);
}

static uint32_t parts_of(const struct rlx_graph *g, int64_t x)
{
	return rlx_is_dim(x) ? g->dims->e[rlx_dim_place(x)].parts : 1;
}

static bool is_of(struct rlx_graph *g, int64_t x)
{
	if (!rlx_is_dim(x) || (g->dims && rlx_dim_place(x) < g->dims->n))
		return true;
	rlx_fail(&g->err, RLX_EINVAL, "%lld is no dimension of graph '%s': it is another graph's",
		 (long long)x, g->name);
	return false;
}

static int64_t expression(struct rlx_graph *g, enum rlx_dim_kind kind, int64_t a, int64_t b)
{
	struct rlx_dim e = { .kind = kind, .a = a, .b = b };
	struct { int64_t kind, a, b; } key = { kind, a, b };
	uint64_t at;
	int64_t x;
	int k;

	if (!is_open(g) || !is_of(g, a) || !is_of(g, b))
		return -1;
	if (!rlx_is_dim(a) && !rlx_is_dim(b)) {
		if (rlx_dim_compute(kind, a, b, &x))
			return x;
		goto out_of_range;
	}
	if (rlx_map_get(&g->dims->by, &key, sizeof(key), &at))
		return RLX_DIM_FIRST + (int64_t)at;
	e.parts = parts_of(g, a) + parts_of(g, b);
	if (e.parts > RLX_DIM_PARTS) {
		rlx_fail(&g->err, RLX_ERANGE, "graph '%s': a size of over %d operands", g->name,
			 RLX_DIM_PARTS);
		return -1;
	}
	for (k = 0; k < RLX_DIM_SAMPLES; k++)
		if (!rlx_dim_compute(kind,
				     rlx_is_dim(a) ? g->dims->e[rlx_dim_place(a)].sample[k] : a,
				     rlx_is_dim(b) ? g->dims->e[rlx_dim_place(b)].sample[k] : b,
				     &e.sample[k]))
			goto out_of_range;
	return add(g, &e, &key, sizeof(key));
out_of_range:
	rlx_fail(&g->err, kind == RLX_DIM_DIV ? RLX_EINVAL : RLX_ERANGE, "graph '%s': a size %s",
		 g->name, kind == RLX_DIM_DIV ? "divided by 0" : "beyond 64 bits");
	return -1;
}

int64_t rlx_dim_add(struct rlx_graph *g, int64_t a, int64_t b)
{
	return expression(g, RLX_DIM_ADD, a, b);
}

int64_t rlx_dim_mul(struct rlx_graph *g, int64_t a, int64_t b)
{
	return expression(g, RLX_DIM_MUL, a, b);
}

int64_t rlx_dim_div(struct rlx_graph *g, int64_t a, int64_t b)
{
	return expression(g, RLX_DIM_DIV, a, b);
}

int64_t rlx_dim_of_value(struct rlx_graph *g, uint32_t value, uint32_t axis,
			 const int64_t *sample)
{
	struct rlx_dim e = { .kind = RLX_DIM_VALUE, .parts = 1, .a = value, .b = axis };
	struct { int64_t kind, a, b; } key = { RLX_DIM_VALUE, value, axis };

	memcpy(e.sample, sample, sizeof(e.sample));
	return add(g, &e, &key, sizeof(key));
}

unsigned int rlx_graph_dim_count(const struct rlx_graph *g)
{
	return g && g->dims ? g->dims->n_name : 0;
}

bool rlx_graph_dim_at(const struct rlx_graph *g, unsigned int i, struct rlx_dim_info *out)
{
	const struct rlx_dim *e;

	if (!out || i >= rlx_graph_dim_count(g))
		return false;
	e = &g->dims->e[g->dims->name[i]];
	*out = (struct rlx_dim_info){ e->name, e->a, e->b };
	return true;
}

int rlx_dim_print(const struct rlx_graph *g, int64_t x, char *buf, size_t size)
{
	static const char op[] = { [RLX_DIM_ADD] = '+', [RLX_DIM_MUL] = '*', [RLX_DIM_DIV] = '/' };
	char a[RLX_DIM_TEXT], b[RLX_DIM_TEXT];
	const struct rlx_dim *e;

	if (!rlx_is_dim(x) || !g->dims)
		return snprintf(buf, size, "%lld", (long long)x);
	if (rlx_dim_place(x) >= g->dims->n)
		return snprintf(buf, size, "?");
	e = &g->dims->e[rlx_dim_place(x)];
	if (e->kind == RLX_DIM_NAME)
		return snprintf(buf, size, "%s", e->name);
	if (e->kind == RLX_DIM_VALUE)
		return snprintf(buf, size, "%%%lld[%lld]", (long long)e->a, (long long)e->b);
	/* at most 16 operands, and so no deeper */
	rlx_dim_print(g, e->a, a, sizeof(a));
	rlx_dim_print(g, e->b, b, sizeof(b));
	return snprintf(buf, size, "(%s%c%s)", a, op[e->kind], b);
}

int rlx_graph_type_print(const struct rlx_graph *g, const struct rlx_type *t, char *buf,
			 size_t size)
{
	uint32_t i, rank = t->rank < RLX_MAX_RANK ? t->rank : RLX_MAX_RANK;
	char dim[RLX_DIM_TEXT];
	size_t n = 0;

#define OUT(...) n += (size_t)snprintf(n < size ? buf + n : NULL, \
				       n < size ? size - n : 0, __VA_ARGS__)
	OUT("%s[", rlx_dtype_name(t->dtype));
	for (i = 0; i < rank; i++) {
		rlx_dim_print(g, t->dim[i], dim, sizeof(dim));
		OUT("%s%s", i ? "," : "", dim);
	}
	OUT("]");
#undef OUT
	return (int)n;
}
