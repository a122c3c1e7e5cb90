/* SPDX-License-Identifier: MIT */
/* UTF-8, one code point at a time. */
#ifndef RLX_BASE_UTF8_H
#define RLX_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/*
 * Decode one code point from [p, end), p < end. Returns its bytes (1..4), or 0
 * if malformed: overlong, a surrogate, above 0x10FFFF, cut short.
 */
unsigned int rlx_utf8_get_slow(const uint8_t *p, const uint8_t *end,
			       uint32_t *out_cp);

static inline unsigned int rlx_utf8_get(const uint8_t *p, const uint8_t *end,
					uint32_t *out_cp)
{
	if (*p < 0x80) {
		*out_cp = *p;
		return 1;
	}
	return rlx_utf8_get_slow(p, end, out_cp);
}

/* As above for text known to be valid. */
static inline unsigned int rlx_utf8_next(const uint8_t *p, uint32_t *out_cp)
{
	if (p[0] < 0x80) {
		*out_cp = p[0];
		return 1;
	}
	if (p[0] < 0xe0) {
		*out_cp = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
		return 2;
	}
	if (p[0] < 0xf0) {
		*out_cp = (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 |
			  (p[2] & 0x3fu);
		return 3;
	}
	*out_cp = (p[0] & 7u) << 18 | (p[1] & 0x3fu) << 12 |
		  (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
	return 4;
}

/* Bytes of the code point that begins at valid @p. */
static inline unsigned int rlx_utf8_len(uint8_t b)
{
	return b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

/* Write @cp (a valid scalar value) to @p, 4 bytes of room; returns its bytes. */
unsigned int rlx_utf8_put(uint8_t *p, uint32_t cp);

/* Offset of the first malformed byte, @n if there is none. */
size_t rlx_utf8_check(const uint8_t *p, size_t n);

#endif
