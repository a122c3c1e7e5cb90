// SPDX-License-Identifier: MIT
/* PNG (RFC 2083, without interlacing) and PNM (P5, P6). */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/formats/file.h"
#include "tools/rlx/image.h"
#include "train/inflate.h"

enum { PIXELS_MAX = 1 << 28 };

struct reading {
	const char	*path;
	struct rlx_file	 f;
	struct image	*out;
	struct rlx_error *err;
	uint8_t		*packed;	/* all IDAT chunks, one behind the other */
	uint64_t	 n_packed;
	uint8_t		 palette[256][3];
	uint32_t	 colours;
	uint8_t		 kind;		/* PNG's colour type */
};

static enum rlx_status bad(const struct reading *r, uint64_t at, const char *what)
{
	return rlx_fail(r->err, RLX_EPARSE, "%s: byte %llu: %s", r->path, (unsigned long long)at,
			what);
}

static uint32_t big32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static enum rlx_status check_size(const struct reading *r, uint64_t at)
{
	const struct image *m = r->out;

	if (!m->w || !m->h)
		return bad(r, at, "an image without pixels");
	if ((uint64_t)m->w * m->h > PIXELS_MAX)
		return rlx_fail(r->err, RLX_ERANGE, "%s: %u x %u pixels", r->path, m->w, m->h);
	return RLX_OK;
}

static enum rlx_status take_head(struct reading *r, const uint8_t *p, uint32_t n, uint64_t at)
{
	if (n != 13)
		return bad(r, at, "its header has another length");
	r->out->w = big32(p);
	r->out->h = big32(p + 4);
	r->kind = p[9];
	if (p[8] != 8 || p[12] || (p[9] != 0 && p[9] != 2 && p[9] != 3))
		return rlx_fail(r->err, RLX_ENOSUP,
				"%s: byte %llu: depth %u, colour type %u, interlace "
				"%u: only 8 bits of grey, colour or palette, not interlaced",
				r->path, (unsigned long long)at, p[8], p[9], p[12]);
	r->out->c = p[9] ? 3 : 1;
	return check_size(r, at);
}

static enum rlx_status take_chunk(struct reading *r, const uint8_t *type, uint32_t n,
				  uint64_t at)
{
	const uint8_t *p = type + 4;

	if (inflate_crc32(0, type, n + 4ull) != big32(p + n))
		return bad(r, at, "a chunk's crc does not fit: it is damaged");
	if (!memcmp(type, "IHDR", 4))
		return take_head(r, p, n, at);
	if (!memcmp(type, "PLTE", 4) && n <= 768 && n % 3 == 0) {
		memcpy(r->palette, p, n);
		r->colours = n / 3;
	} else if (!memcmp(type, "IDAT", 4)) {
		memcpy(r->packed + r->n_packed, p, n);
		r->n_packed += n;
	} else if (!(type[0] & 32) && memcmp(type, "IEND", 4)) {
		return bad(r, at, "a chunk that matters and is not known");
	}
	return RLX_OK;
}

static enum rlx_status take_chunks(struct reading *r)
{
	uint64_t at = 8;
	enum rlx_status st = RLX_OK;

	r->packed = rlx_malloc(r->f.n);
	if (!r->packed)
		return rlx_fail(r->err, RLX_ENOMEM, "%s: no memory", r->path);
	while (!st) {
		uint32_t n;

		if (r->f.n - at < 12)
			return bad(r, at, "it ends without its last chunk");
		n = big32(r->f.p + at);
		if (n > r->f.n - at - 12)
			return bad(r, at, "a chunk that runs over the file's end");
		if (!r->out->w && memcmp(r->f.p + at + 4, "IHDR", 4))
			return bad(r, at, "it does not begin with its header");
		st = take_chunk(r, r->f.p + at + 4, n, at);
		if (!memcmp(r->f.p + at + 4, "IEND", 4))
			break;
		at += 12ull + n;
	}
	return st;
}

static int nearest(int a, int b, int c)
{
	int pa = abs(b - c), pb = abs(a - c), pc = abs(a + b - 2 * c);

	return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

/* Undo what each row begins with; @bpp: bytes a pixel. False: no such filter. */
static bool unfilter(uint8_t *rows, uint32_t h, uint64_t row, unsigned int bpp)
{
	uint64_t y, x;

	for (y = 0; y < h; y++) {
		uint8_t *p = rows + y * (row + 1) + 1, *up = y ? p - row - 1 : NULL;

		if (p[-1] > 4)
			return false;
		for (x = 0; x < row; x++) {
			int a = x >= bpp ? p[x - bpp] : 0, b = up ? up[x] : 0;
			int c = up && x >= bpp ? up[x - bpp] : 0;

			p[x] += (uint8_t)(p[-1] == 1 ? a :
					  p[-1] == 2 ? b :
					  p[-1] == 3 ? (a + b) / 2 :
					  p[-1] == 4 ? nearest(a, b, c) :
						       0);
		}
	}
	return true;
}

static enum rlx_status take_rows(struct reading *r, const uint8_t *rows)
{
	struct image *m = r->out;
	uint64_t row = (uint64_t)m->w * (r->kind == 2 ? 3 : 1), y, x;

	m->p = rlx_malloc((uint64_t)m->w * m->h * m->c);
	if (!m->p)
		return rlx_fail(r->err, RLX_ENOMEM, "%s: no memory", r->path);
	for (y = 0; y < m->h; y++) {
		const uint8_t *from = rows + y * (row + 1) + 1;
		uint8_t *to = m->p + y * m->w * m->c;

		for (x = 0; r->kind == 3 && x < m->w; x++) {
			if (from[x] >= r->colours)
				return bad(r, r->f.n, "a colour that the palette has not");
			memcpy(to + 3 * x, r->palette[from[x]], 3);
		}
		if (r->kind != 3)
			memcpy(to, from, row);
	}
	return RLX_OK;
}

static enum rlx_status read_png(struct reading *r)
{
	enum rlx_status st = take_chunks(r);
	struct inflate_result z;
	uint64_t row, room;
	uint8_t *rows;

	if (st)
		return st;
	row = (uint64_t)r->out->w * (r->kind == 2 ? 3 : 1);
	room = (row + 1) * r->out->h;
	if (r->n_packed < 6 || (r->packed[0] & 15) != 8)
		return bad(r, r->f.n, "no compressed data of a kind that is known");
	rows = rlx_malloc(room);
	if (!rows)
		return rlx_fail(r->err, RLX_ENOMEM, "%s: no memory", r->path);
	z = inflate_raw(r->packed + 2, r->n_packed - 2, rows, room, false);
	if (z.error)
		st = rlx_fail(r->err, RLX_EPARSE, "%s: its data, byte %llu: %s", r->path,
			      (unsigned long long)z.in, z.error);
	else if (!unfilter(rows, r->out->h, row, r->kind == 2 ? 3 : 1))
		st = bad(r, r->f.n, "a filter that is none");
	else
		st = take_rows(r, rows);
	rlx_free(rows);
	return st;
}

/* A number of a PNM header, behind blanks and comments; 0 if there is none. */
static uint32_t pnm_number(const struct reading *r, uint64_t *at)
{
	uint32_t v = 0;

	while (*at < r->f.n && (strchr(" \t\r\n", r->f.p[*at]) || r->f.p[*at] == '#')) {
		if (r->f.p[*at] == '#')
			while (*at < r->f.n && r->f.p[*at] != '\n')
				(*at)++;
		else
			(*at)++;
	}
	for (; *at < r->f.n && r->f.p[*at] >= '0' && r->f.p[*at] <= '9' && v < 1 << 26; (*at)++)
		v = v * 10 + r->f.p[*at] - '0';
	return v;
}

static enum rlx_status read_pnm(struct reading *r)
{
	struct image *m = r->out;
	enum rlx_status st;
	uint64_t at = 2, n;
	uint32_t most;

	m->c = r->f.p[1] == '6' ? 3 : 1;
	m->w = pnm_number(r, &at);
	m->h = pnm_number(r, &at);
	most = pnm_number(r, &at);
	st = check_size(r, at);
	if (!st && most != 255)
		st = rlx_fail(r->err, RLX_ENOSUP, "%s: byte %llu: values up to %u: only 255",
			      r->path, (unsigned long long)at, most);
	n = (uint64_t)m->w * m->h * m->c;
	at++;
	if (!st && (at > r->f.n || r->f.n - at < n))
		st = bad(r, r->f.n, "it ends before its last pixel");
	if (st)
		return st;
	m->p = rlx_memdup(r->f.p + at, n);
	return m->p ? RLX_OK : rlx_fail(r->err, RLX_ENOMEM, "%s: no memory", r->path);
}

enum rlx_status image_read(const char *path, struct image *out, struct rlx_error *err)
{
	struct reading r = { .path = path, .out = out, .err = err };
	enum rlx_status st = rlx_file_map(&r.f, path, err);

	*out = (struct image){ 0 };
	if (st)
		return st;
	if (r.f.n >= 8 && !memcmp(r.f.p, "\x89PNG\r\n\x1a\n", 8))
		st = read_png(&r);
	else if (r.f.n >= 2 && r.f.p[0] == 'P' && (r.f.p[1] == '5' || r.f.p[1] == '6'))
		st = read_pnm(&r);
	else
		st = bad(&r, 0, "neither PNG nor binary PNM");
	rlx_free(r.packed);
	rlx_file_unmap(&r.f);
	if (st) {
		rlx_free(out->p);
		out->p = NULL;
	}
	return st;
}
