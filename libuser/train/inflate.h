/* SPDX-License-Identifier: MIT */
/* DEFLATE (RFC 1951) and the header and trailer of gzip (RFC 1952) around it. */
#ifndef RLX_TRAIN_INFLATE_H
#define RLX_TRAIN_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inflate_result {
	const char	*error;		/* NULL: all was well */
	uint64_t	 in, out;	/* bytes read and written, also at an error */
};

/*
 * Decode @in to @out, of which there are exactly @room bytes. @partial: stop without an error
 * once @out is full, or the stream ends before; else both must end together.
 */
struct inflate_result inflate_raw(const uint8_t *in, uint64_t n, uint8_t *out, uint64_t room,
				  bool partial);
/* As inflate_raw() of all members of a gzip file; their crc is checked unless @partial. */
struct inflate_result inflate_gzip(const uint8_t *in, uint64_t n, uint8_t *out, uint64_t room,
				   bool partial);

/* CRC-32 of gzip and zip (ISO 3309). */
uint32_t inflate_crc32(uint32_t crc, const uint8_t *p, uint64_t n);

#endif
