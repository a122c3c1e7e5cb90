// SPDX-License-Identifier: MIT
/* Tensors whose elements do not lie densely. */
#include <string.h>

#include "base/strided.h"

enum { TILE = 16 };	/* elements: what lies side by side on either side fills cache lines */

/* One dimension of a copy: its size, and bytes from an index to the next on both sides. */
struct axis {
	int64_t	n, to, from;
};

bool rlx_strided_dense(const struct rlx_type *t, const int64_t *stride)
{
	int64_t step = 1;
	uint32_t i;

	if (!rlx_type_count(t))
		return true;
	for (i = t->rank; i-- > 0; step *= t->dim[i])
		if (t->dim[i] != 1 && stride[i] != step)
			return false;
	return true;
}

bool rlx_strided_reach(const struct rlx_type *t, const int64_t *stride, uint64_t *down,
		       uint64_t *up)
{
	int64_t lo = 0, hi = 0, far, size = (int64_t)rlx_dtype_size(t->dtype);
	uint32_t i;

	*down = *up = 0;
	if (!rlx_type_count(t))
		return true;
	for (i = 0; i < t->rank; i++) {
		if (t->dim[i] == 1)
			continue;
		if (__builtin_mul_overflow(t->dim[i] - 1, stride[i], &far) ||
		    __builtin_mul_overflow(far, size, &far) ||
		    (far < 0 ? __builtin_add_overflow(lo, far, &lo) :
		     __builtin_add_overflow(hi, far, &hi)))
			return false;
	}
	if (lo == INT64_MIN || __builtin_add_overflow(hi, size, &hi))
		return false;
	*down = (uint64_t)-lo;
	*up = (uint64_t)hi;
	return true;
}

static uint64_t magnitude(int64_t x)
{
	return x < 0 ? -(uint64_t)x : (uint64_t)x;
}

bool rlx_strided_apart(const struct rlx_type *t, const int64_t *stride)
{
	uint64_t reach = 0;	/* elements that the dimensions so far span, less one */
	uint32_t done = 0, i, k, next;

	if (!rlx_type_count(t))
		return true;
	for (k = 0; k < t->rank; k++) {
		next = t->rank;
		for (i = 0; i < t->rank; i++)
			if (!(done >> i & 1) && (next == t->rank ||
						 magnitude(stride[i]) < magnitude(stride[next])))
				next = i;
		done |= 1u << next;
		if (t->dim[next] == 1)
			continue;
		if (magnitude(stride[next]) <= reach)
			return false;
		reach += (uint64_t)(t->dim[next] - 1) * magnitude(stride[next]);
	}
	return true;
}

/* Dimensions of more than 1, neighbours joined where both sides walk them as one. */
static uint32_t collapse(const struct rlx_type *t, const int64_t *to, const int64_t *from,
			 struct axis *ax)
{
	int64_t size = (int64_t)rlx_dtype_size(t->dtype);
	uint32_t n = 0, i;

	for (i = 0; i < t->rank; i++) {
		struct axis a = { t->dim[i], to[i] * size, from[i] * size };

		if (a.n == 1)
			continue;
		if (n && ax[n - 1].to == a.n * a.to && ax[n - 1].from == a.n * a.from) {
			a.n *= ax[n - 1].n;
			n--;
		}
		ax[n++] = a;
	}
	return n;
}

static void copy_line(char *to, const char *from, const struct axis *x, int64_t n, size_t size)
{
	int64_t i;

	if (x->to == (int64_t)size && x->from == (int64_t)size) {
		memcpy(to, from, (size_t)n * size);
		return;
	}
#define LINE(bytes)							\
	case bytes:							\
		for (i = 0; i < n; i++)					\
			memcpy(to + i * x->to, from + i * x->from, bytes); \
		break
	switch (size) {
	LINE(1);
	LINE(2);
	LINE(4);
	LINE(8);
	}
#undef LINE
}

/* Two dimensions, neighbours on one side along @x, on the other along @y. */
static void copy_tiles(char *to, const char *from, const struct axis *x, const struct axis *y,
		       size_t size)
{
	int64_t wide = y->n < TILE ? TILE * TILE / y->n : TILE, i, j, k, n;

	for (j = 0; j < y->n; j += TILE)
		for (i = 0; i < x->n; i += wide) {
			n = x->n - i < wide ? x->n - i : wide;
			for (k = j; k < y->n && k < j + TILE; k++)
				copy_line(to + i * x->to + k * y->to,
					  from + i * x->from + k * y->from, x, n, size);
		}
}

/* Takes out of @ax, which has @n, the dimension whose neighbours lie closest: @to or @from. */
static struct axis closest(struct axis *ax, uint32_t *n, bool to)
{
	uint32_t i, best = 0;
	struct axis x;

	for (i = 1; i < *n; i++)
		if (to ? magnitude(ax[i].to) <= magnitude(ax[best].to) :
		    magnitude(ax[i].from) <= magnitude(ax[best].from))
			best = i;
	x = ax[best];
	memmove(ax + best, ax + best + 1, (--*n - best) * sizeof(*ax));
	return x;
}

void rlx_strided_copy(const struct rlx_type *t, void *to, const int64_t *to_stride,
		      const void *from, const int64_t *from_stride)
{
	struct axis ax[RLX_MAX_RANK], x = { 1, 0, 0 }, y = { 1, 0, 0 };
	size_t size = rlx_dtype_size(t->dtype);
	int64_t at[RLX_MAX_RANK] = { 0 };
	uint32_t n = collapse(t, to_stride, from_stride, ax), d;
	const char *f = from;
	char *p = to;

	if (!rlx_type_count(t))
		return;
	if (n)
		x = closest(ax, &n, true);
	if (n && magnitude(x.from) != size)
		y = closest(ax, &n, false);
	for (;;) {
		if (y.n > 1)
			copy_tiles(p, f, &x, &y, size);
		else
			copy_line(p, f, &x, x.n, size);
		for (d = n; d-- > 0; at[d] = 0) {
			p += ax[d].to;
			f += ax[d].from;
			if (++at[d] < ax[d].n)
				break;
			p -= ax[d].to * ax[d].n;
			f -= ax[d].from * ax[d].n;
		}
		if (d == UINT32_MAX)
			return;
	}
}
