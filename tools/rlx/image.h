/* SPDX-License-Identifier: MIT */
/* Images of 8 bits a channel: PNG and binary PNM, read whole. */
#ifndef RLX_TOOLS_IMAGE_H
#define RLX_TOOLS_IMAGE_H

#include <stdint.h>

#include "rlx/status.h"

struct image {
	uint32_t	 w, h, c;	/* c: 1 grey, 3 red, green, blue */
	uint8_t		*p;		/* [h][w][c]; rlx_free() */
};

/*
 * RLX_EPARSE, with the byte, for what is damaged; RLX_ENOSUP for interlaced ones, alpha, and
 * other depths; RLX_ERANGE over 2^28 pixels.
 */
enum rlx_status __rlx_must_check
image_read(const char *path, struct image *out, struct rlx_error *err);

#endif
