// SPDX-License-Identifier: MIT
/*
 * What lies where in the loader's memory. A record begins at origin + a multiple of its
 * part's unit, so that a program finds it by one number: the unit is the stride where all
 * records follow one another, else the largest power of two that all their places share.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/gcd.h"
#include "train/loader.h"

enum { PAGE = 4096, WINDOW_AIM = 16 << 20 };

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* @n times @each more. False: that is more than any memory has, and may have wrapped. */
static bool grow(uint64_t *at, uint64_t n, uint64_t each)
{
	uint64_t bytes;

	return rlx_mul(n, each, &bytes) && rlx_add(*at, bytes, at) && *at <= INT64_MAX / 2;
}

uint64_t loader_span(const struct dataset_part *p, uint64_t offset, uint64_t bytes,
		     uint64_t *begin)
{
	*begin = offset - offset % p->align;
	return round_up(offset + bytes - *begin, p->align);
}

/* Bytes that all places of the part's records and fields are multiples of. */
static uint64_t common_unit(const struct rlx_loader *ld, unsigned int part)
{
	const struct dataset_part *p = &ld->d.part[part];
	uint64_t g = rlx_gcd(PAGE, p->stride);
	unsigned int i;

	if (ld->d.file && !ld->d.stream)
		g = rlx_gcd(g, ld->d.file->info.chunk_bytes);
	if (p->align > 1 && !(p->codec || (ld->layout == RLX_LAYOUT_RESIDENT)))
		g = rlx_gcd(g, rlx_gcd(p->base, p->align));
	for (i = 0; i < ld->d.fields; i++)
		if (ld->d.field[i].part == part && ld->d.field[i].offset)
			g = rlx_gcd(g, ld->d.field[i].offset);
	return g;
}

/* RESIDENT: the file's bytes, so shifted that what is decoded or read exactly is aligned. */
static void place_resident(struct rlx_loader *ld, unsigned int part)
{
	const struct dataset_part *p = &ld->d.part[part];
	struct loader_part *lp = &ld->part[part];
	uint64_t pad = 0;

	lp->lead = p->codec ? 0 : p->base - p->base % p->align;
	if (p->codec)		/* the decoder begins at byte 0: shift all of it */
		pad = round_up(p->base, 64) - p->base;
	lp->origin = p->base - lp->lead;
	lp->region = pad;	/* its begin is added by place_regions() */
	lp->region_bytes = round_up(pad + p->end - lp->lead + PAGE, PAGE);
	lp->unit = p->stride;
	lp->whole = true;
	if (ld->d.file && !ld->d.stream && p->stride &&
	    ld->d.file->info.chunk_bytes % p->stride) {
		lp->unit = common_unit(ld, part);
		lp->whole = false;
	} else if (p->stride != p->bytes) {	/* rows that overlap, or leave some out */
		lp->unit = common_unit(ld, part);
		lp->whole = false;
	}
}

static void place_chunks(struct rlx_loader *ld, unsigned int part)
{
	const struct dataset_part *p = &ld->d.part[part];
	struct loader_part *lp = &ld->part[part];
	uint64_t bytes = ld->d.file ? ld->d.file->info.chunk_bytes : ld->d.per_chunk * p->stride;

	lp->pitch = round_up(bytes + (p->align > 1 && !ld->d.file ? 2 * p->align : 0), PAGE);
	lp->region_bytes = 2 * ld->window_chunks * lp->pitch + PAGE;
	lp->unit = common_unit(ld, part);
	lp->whole = lp->unit == p->stride;
	if (ld->d.file && p->stride && lp->pitch % p->stride == 0) {
		lp->unit = p->stride;
		lp->whole = true;
	}
}

static bool place_rows(struct rlx_loader *ld, unsigned int part, uint64_t *at)
{
	const struct dataset_part *p = &ld->d.part[part];
	struct loader_part *lp = &ld->part[part];

	lp->unit = common_unit(ld, part);
	lp->fixed = p->stride && (p->align == 1 ||
				  (!(p->base % p->align) && !(p->stride % p->align)));
	lp->pitch = round_up(p->bytes + (lp->fixed ? 0 : 2 * p->align + lp->unit),
			     p->align > 1 ? p->align : 64);
	if (lp->pitch % lp->unit)
		lp->unit = rlx_gcd(lp->unit, lp->pitch);
	lp->data = *at;
	if (!grow(at, lp->pitch, ld->o.batch))
		return false;
	*at = round_up(*at + PAGE, PAGE);
	return true;
}

static enum rlx_status check_unit(const struct rlx_loader *ld, unsigned int part,
				  struct rlx_error *err)
{
	unsigned int i;

	if (!ld->d.part[part].stride)
		return ld->o.decode ? RLX_OK :
		       rlx_fail(err, RLX_EINVAL, "%s: records of differing length need a decode "
				"function", ld->d.part[part].path);
	for (i = 0; i < ld->d.fields; i++) {
		const struct dataset_field *f = &ld->d.field[i];
		uint64_t size = rlx_dtype_size(f->field.type.dtype);

		if (f->part == part && (ld->part[part].unit % size || ld->part[part].origin % size))
			return rlx_fail(
				err, RLX_ENOSUP,
				"%s: field \"%s\": its elements do not lie on "
				"their alignment; rlx data convert makes a file where they do",
				ld->d.part[part].path, f->field.name);
	}
	return RLX_OK;
}

/* Where numbers of rows and dense fields go, behind the data of ROWS. */
static bool place_slots(struct rlx_loader *ld, uint64_t at)
{
	unsigned int i;
	bool ok = true;

	ld->guarded = ld->layout == RLX_LAYOUT_ROWS ? at : 0;
	for (i = 0; i < ld->d.parts; i++) {
		ld->part[i].rows = at;
		at += rlx_align64(8ull * ld->o.batch);
	}
	for (i = 0; i < ld->fields && ld->dense && ok; i++) {
		ld->dense_at[i] = at;
		ok = grow(&at, (uint64_t)rlx_type_bytes(&ld->public_field[i].type), ld->o.batch);
		at = rlx_align64(at);
	}
	ld->slot_bytes = round_up(at, PAGE);
	return ok;
}

static void choose_window(struct rlx_loader *ld)
{
	uint64_t bytes = 0, least = ld->d.per_chunk, c, first, n, aim = ld->o.window;
	unsigned int p;

	for (p = 0; p < ld->d.parts; p++)
		bytes += ld->d.file ? ld->d.file->info.chunk_bytes :
			 ld->d.per_chunk * ld->d.part[p].stride;
	if (!aim)
		aim = bytes < WINDOW_AIM ? WINDOW_AIM / (bytes ? bytes : 1) : 1;
	if (!least)
		for (least = UINT64_MAX, c = 0; c < ld->d.chunks; c++) {
			dataset_chunk_records(&ld->d, c, &first, &n);
			least = n < least ? n : least;
		}
	/* no batch may need three windows, also where one chunk is short */
	if (aim < ld->o.batch / least + 2)
		aim = ld->o.batch / least + 2;
	ld->window_chunks = aim < ld->d.chunks ? aim : ld->d.chunks;
	ld->windows = (ld->d.chunks + ld->window_chunks - 1) / ld->window_chunks;
}

static void count_pieces(struct rlx_loader *ld)
{
	unsigned int p;

	for (p = 0; p < ld->d.parts; p++) {
		uint64_t n = ld->layout == RLX_LAYOUT_RESIDENT ? ld->part[p].region_bytes :
			     ld->part[p].pitch;

		ld->part[p].pieces = (uint32_t)(n / READER_PIECE + 1);
	}
}

enum rlx_status loader_place(struct rlx_loader *ld, struct rlx_error *err)
{
	struct rlx_arena_opts ao = { .name = "loader" };
	uint64_t at = 0, in_slot = 0;
	enum rlx_status st = RLX_OK;
	bool fits = true;
	unsigned int p;

	if (ld->layout == RLX_LAYOUT_CHUNKS)
		choose_window(ld);
	for (p = 0; p < ld->d.parts && !st && fits; p++) {
		if (ld->layout == RLX_LAYOUT_RESIDENT)
			place_resident(ld, p);
		else if (ld->layout == RLX_LAYOUT_CHUNKS)
			place_chunks(ld, p);
		else
			fits = place_rows(ld, p, &in_slot);
		ld->part[p].region += at;
		fits = fits && grow(&at, 1, ld->part[p].region_bytes);
		st = check_unit(ld, p, err);
	}
	if (st)
		return st;
	ld->slots_at = at;
	if (!fits || !place_slots(ld, in_slot) || !grow(&at, ld->o.depth, ld->slot_bytes))
		return rlx_fail(err, RLX_ERANGE, "%s: batches of %u take more bytes than there "
				"are addresses", ld->d.part[0].path, ld->o.batch);
	count_pieces(ld);
	ao.size = at;
	ld->info.bytes_arena = ao.size;
	if (ld->o.arena)
		ld->arena = rlx_arena_get(ld->o.arena);
	else
		st = rlx_arena_new(&ao, &ld->arena, err);
	if (!st)
		st = rlx_buf_new(ld->arena, ao.size, PAGE, &ld->memory, err);
	if (!st)
		ld->base = rlx_buf_ptr(ld->memory);
	return st;
}
