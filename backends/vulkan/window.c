// SPDX-License-Identifier: MIT
/*
 * Windows: arenas that the driver imports, so that kernels use their bytes in place. An arena
 * is imported in pieces, when something in it is bound; bytes that lie across two pieces get
 * one of their own. Why a driver does not take some memory is kept.
 */
#include <stdio.h>
#include <string.h>

#include "backends/vulkan/vk.h"
#include "base/alloc.h"
#include "base/log.h"
#include "rlx/arena.h"

enum { PIECE_BYTES = 1 << 30 };

struct vk_window {
	struct vk_window *next;
	struct rlx_arena *arena;
	char		 *base;
	uint64_t	  size;
	uint32_t	  refs;
	struct vk_piece	 *piece;
	uint32_t	  n, cap;
};

struct vk_window *vk_window_get(struct vk_device *d, struct rlx_arena *a)
{
	struct vk_window *w;

	pthread_mutex_lock(&d->lock);
	for (w = d->windows; w && w->arena != a; w = w->next)
		;
	if (w) {
		w->refs++;
	} else if ((w = rlx_calloc(1, sizeof(*w)))) {
		*w = (struct vk_window){ d->windows, rlx_arena_get(a), rlx_arena_base(a),
					 rlx_arena_size(a), 1 };
		d->windows = w;
	}
	pthread_mutex_unlock(&d->lock);
	return w;
}

bool vk_window_is_of(const struct vk_window *w, const struct rlx_arena *a)
{
	return w && w->arena == a;
}

/*
 * The range @p, grown to what the driver imports by; false if that is beyond the arena. Drivers
 * accept what is not aligned, and need not: it is checked here.
 */
static bool align_range(const struct vk_device *d, const struct vk_window *w, struct vk_piece *p,
			char why[VK_WHY])
{
	uint64_t by = d->is->host_align, end = p->from + p->bytes;

	if (!by || (uintptr_t)w->base % by) {
		snprintf(why, VK_WHY, "memory at %p is not aligned to %llu, which this "
			 "driver imports by", (void *)w->base, (unsigned long long)by);
		return false;
	}
	p->from -= p->from % by;
	end += (by - end % by) % by;
	if (end > w->size) {
		snprintf(why, VK_WHY, "the last %llu bytes are no whole %llu, which "
			 "this driver imports by", (unsigned long long)(w->size % by),
			 (unsigned long long)by);
		return false;
	}
	p->bytes = end - p->from;
	return true;
}

/*
 * The range of a piece that has @p's bytes: all of its part of the arena, or, where they cross
 * from one part to the next, those alone. False: neither can be imported.
 */
static bool choose_range(const struct vk_device *d, const struct vk_window *w, struct vk_piece *p,
			 char why[VK_WHY])
{
	uint64_t by = d->is->host_align ? d->is->host_align : 1, end = p->from + p->bytes;
	uint64_t part = d->is->most_buffer < PIECE_BYTES ? d->is->most_buffer : PIECE_BYTES;
	struct vk_piece all;

	part -= part % by;
	all.from = part ? p->from - p->from % part : 0;
	all.bytes = w->size - all.from < part ? w->size - all.from : part;
	all.bytes -= all.bytes % by;
	if (end <= all.from + all.bytes) {
		p->from = all.from;
		p->bytes = all.bytes;
	}
	return align_range(d, w, p, why);
}

/* The lock is held. */
static bool import(struct vk_device *d, struct vk_window *w, struct vk_piece *p, char why[VK_WHY])
{
	struct vk_piece want = *p;
	VkResult r;

	if (!choose_range(d, w, p, why))
		return false;
	if (!rlx_grow(&w->piece, &w->cap, w->n + 1, sizeof(*p))) {
		snprintf(why, VK_WHY, "out of memory");
		return false;
	}
	r = vk_piece_import(d, p, w->base + p->from);
	/* what is asked for */
	if (r && align_range(d, w, &want, why) && want.bytes < p->bytes) {
		*p = want;
		r = vk_piece_import(d, p, w->base + p->from);
	}
	if (r) {
		snprintf(why, VK_WHY, "the driver refused %llu bytes of it: %s",
			 (unsigned long long)p->bytes, vk_result_name(r));
		return false;
	}
	w->piece[w->n++] = *p;
	if (rlx_debug_on(RLX_DEBUG_MEM))
		rlx_log(RLX_LOG_DEBUG, "%s: bytes %llu .. %llu of an arena by host pointer",
			d->base.name, (unsigned long long)p->from,
			(unsigned long long)(p->from + p->bytes));
	return true;
}

struct vk_region vk_window_at(struct vk_device *d, struct vk_window *w, const void *p,
			      uint64_t bytes, char why[VK_WHY])
{
	struct vk_region at = { .at = 0 };
	uint64_t from = (uint64_t)((const char *)p - w->base);
	struct vk_piece want = { .from = from, .bytes = bytes ? bytes : 1 };
	uint32_t i;

	if (from > w->size || want.bytes > w->size - from) {
		snprintf(why, VK_WHY, "they reach beyond the arena");
		return at;
	}
	pthread_mutex_lock(&d->lock);
	for (i = 0; i < w->n; i++)
		if (from >= w->piece[i].from &&
		    from + want.bytes <= w->piece[i].from + w->piece[i].bytes)
			break;
	if (i < w->n || import(d, w, &want, why)) {
		at.buf = w->piece[i].buf;
		at.off = from - w->piece[i].from;
		at.at = w->piece[i].at + at.off;
	}
	pthread_mutex_unlock(&d->lock);
	return at;
}

void vk_window_put(struct vk_device *d, struct vk_window *w)
{
	struct vk_window **at;
	uint32_t i;

	if (!w)
		return;
	pthread_mutex_lock(&d->lock);
	if (--w->refs) {
		pthread_mutex_unlock(&d->lock);
		return;
	}
	for (at = &d->windows; *at != w; at = &(*at)->next)
		;
	*at = w->next;
	pthread_mutex_unlock(&d->lock);
	for (i = 0; i < w->n; i++)
		vk_piece_free(d, &w->piece[i]);
	rlx_arena_put(w->arena);
	rlx_free(w->piece);
	rlx_free(w);
}
