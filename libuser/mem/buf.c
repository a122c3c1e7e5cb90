// SPDX-License-Identifier: MIT
/* Buffers: slices of an arena, and which slices are taken. */
#include <string.h>

#include "base/alloc.h"
#include "mem/arena.h"

enum { STEP = 64, ALIGN_MAX = 2 << 20 };

void rlx_space_fini(struct rlx_space *s)
{
	rlx_free(s->seg);
	s->seg = NULL;
	s->n = s->cap = 0;
}

/* Put @n empty slots at @at; the vector has room. */
static void shift(struct rlx_space *s, uint32_t at, uint32_t n)
{
	memmove(&s->seg[at + n], &s->seg[at], (s->n - at) * sizeof(*s->seg));
	s->n += n;
}

static void erase(struct rlx_space *s, uint32_t at)
{
	memmove(&s->seg[at], &s->seg[at + 1],
		(s->n - at - 1) * sizeof(*s->seg));
	s->n--;
}

/*
 * Use @len bytes after a gap of @gap in the free segment @i, splitting it into
 * up to three. Room for two more segments has been made.
 */
static void carve(struct rlx_space *s, uint32_t i, uint64_t gap, uint64_t len)
{
	struct rlx_seg whole = s->seg[i];
	uint64_t rest = whole.bytes - gap - len;

	if (gap) {
		shift(s, i, 1);
		s->seg[i].bytes = gap;
		i++;
	}
	if (rest) {
		shift(s, i, 1);
		s->seg[i + 1] = (struct rlx_seg){
			.offset = whole.offset + gap + len, .bytes = rest,
		};
	}
	s->seg[i] = (struct rlx_seg){
		.offset = whole.offset + gap, .bytes = len, .used = true,
	};
	s->buffers++;
	s->used += len;
}

/* First fit by address: long-lived buffers, taken first, stay together. */
static bool find(const struct rlx_arena *a, uint64_t len, uint64_t align,
		 uint32_t *out_i, uint64_t *out_gap)
{
	const struct rlx_space *s = &a->space;
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		const struct rlx_seg *g = &s->seg[i];
		uint64_t gap = -((uintptr_t)a->base + g->offset) & (align - 1);

		if (g->used || g->bytes < gap || g->bytes - gap < len)
			continue;
		*out_i = i;
		*out_gap = gap;
		return true;
	}
	return false;
}

static bool prepare(struct rlx_arena *a)
{
	struct rlx_space *s = &a->space;

	if (!rlx_grow(&s->seg, &s->cap, s->n + 3, sizeof(*s->seg)))
		return false;
	if (!s->n)
		s->seg[s->n++] = (struct rlx_seg){ .bytes = a->size };
	return true;
}

/* The largest free run, for the message. */
static uint64_t largest(const struct rlx_space *s)
{
	uint64_t best = 0;
	uint32_t i;

	for (i = 0; i < s->n; i++)
		if (!s->seg[i].used && s->seg[i].bytes > best)
			best = s->seg[i].bytes;
	return best;
}

enum rlx_status rlx_buf_new(struct rlx_arena *a, uint64_t bytes,
			    uint64_t align, struct rlx_buf *out,
			    struct rlx_error *err)
{
	uint64_t gap = 0, len, free_run;
	struct rlx_space *s;
	uint32_t i = 0;
	bool ok;

	if (!out)
		return rlx_fail(err, RLX_EINVAL, "buffer: out is NULL");
	*out = (struct rlx_buf){ .arena = a };
	if (!a)
		return rlx_fail(err, RLX_EINVAL, "buffer: no arena");
	align = align ? align : STEP;
	if (align & (align - 1) || align > ALIGN_MAX)
		return rlx_fail(err, RLX_EINVAL,
				"buffer alignment %llu: a power of two up to "
				"2 MiB is", (unsigned long long)align);
	if (!bytes)
		return RLX_OK;
	align = align < STEP ? STEP : align;
	if (bytes > a->size)
		return rlx_fail(err, RLX_ENOMEM,
				"buffer of %llu bytes in an arena of %llu",
				(unsigned long long)bytes,
				(unsigned long long)a->size);
	/* The last buffer may end where the arena ends, not on a step. */
	len = (bytes + STEP - 1) & ~(uint64_t)(STEP - 1);
	s = &a->space;
	pthread_mutex_lock(&s->lock);
	ok = prepare(a);
	if (ok && !find(a, len, align, &i, &gap)) {
		len = bytes;
		ok = find(a, len, align, &i, &gap) &&
		     s->seg[i].offset + gap + len == a->size;
	}
	if (ok) {
		carve(s, i, gap, len);
		*out = (struct rlx_buf){ a, s->seg[i + !!gap].offset, bytes };
	}
	free_run = ok ? 0 : largest(s);
	pthread_mutex_unlock(&s->lock);
	if (ok)
		return RLX_OK;
	return rlx_fail(err, RLX_ENOMEM,
			"buffer of %llu bytes aligned to %llu: the largest gap "
			"in this arena of %llu is %llu",
			(unsigned long long)bytes, (unsigned long long)align,
			(unsigned long long)a->size,
			(unsigned long long)free_run);
}

/* The used segment that starts at @offset, by bisection; n if none. */
static uint32_t look(const struct rlx_space *s, uint64_t offset)
{
	uint32_t lo = 0, hi = s->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (s->seg[mid].offset < offset)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < s->n && s->seg[lo].offset == offset && s->seg[lo].used ?
	       lo : s->n;
}

enum rlx_status rlx_buf_free(struct rlx_buf buf, struct rlx_error *err)
{
	struct rlx_space *s;
	bool ok = false;
	uint32_t i;

	if (!buf.arena || !buf.bytes)
		return RLX_OK;
	s = &buf.arena->space;
	pthread_mutex_lock(&s->lock);
	i = look(s, buf.offset);
	if (i < s->n && buf.bytes <= s->seg[i].bytes &&
	    s->seg[i].bytes - buf.bytes < STEP) {
		ok = true;
		s->buffers--;
		s->used -= s->seg[i].bytes;
		s->seg[i].used = false;
		if (i + 1 < s->n && !s->seg[i + 1].used) {
			s->seg[i].bytes += s->seg[i + 1].bytes;
			erase(s, i + 1);
		}
		if (i && !s->seg[i - 1].used) {
			s->seg[i - 1].bytes += s->seg[i].bytes;
			erase(s, i);
		}
	}
	pthread_mutex_unlock(&s->lock);
	if (ok)
		return RLX_OK;
	return rlx_fail(err, RLX_ENOENT,
			"no live buffer of %llu bytes at offset %llu: freed "
			"before, or a part of one",
			(unsigned long long)buf.bytes,
			(unsigned long long)buf.offset);
}

struct rlx_buf rlx_buf_whole(struct rlx_arena *a)
{
	return (struct rlx_buf){ a, 0, a ? a->size : 0 };
}

static bool inside(struct rlx_buf b)
{
	return b.arena && b.offset <= b.arena->size &&
	       b.bytes <= b.arena->size - b.offset;
}

enum rlx_status rlx_buf_slice(struct rlx_buf buf, uint64_t offset,
			      uint64_t bytes, struct rlx_buf *out,
			      struct rlx_error *err)
{
	if (!out || !buf.arena)
		return rlx_fail(err, RLX_EINVAL,
				"slice: the buffer has no arena, or out is NULL");
	if (!inside(buf))
		return rlx_fail(err, RLX_ERANGE,
				"slice: buffer [%llu, +%llu) is outside its "
				"arena of %llu bytes",
				(unsigned long long)buf.offset,
				(unsigned long long)buf.bytes,
				(unsigned long long)buf.arena->size);
	if (offset > buf.bytes || bytes > buf.bytes - offset)
		return rlx_fail(err, RLX_ERANGE,
				"slice [%llu, +%llu) is outside a buffer of "
				"%llu bytes", (unsigned long long)offset,
				(unsigned long long)bytes,
				(unsigned long long)buf.bytes);
	*out = (struct rlx_buf){ buf.arena, buf.offset + offset, bytes };
	return RLX_OK;
}

void *rlx_buf_ptr(struct rlx_buf buf)
{
	return inside(buf) ? buf.arena->base + buf.offset : NULL;
}
