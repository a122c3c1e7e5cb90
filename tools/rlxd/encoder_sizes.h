/* SPDX-License-Identifier: MIT */
/*
 * Sizes of the programs that an encoder of texts is compiled to, unless rlxd.conf has others: what
 * kernels are prebuilt for (selftests/gpu/listed.c) goes by them too.
 */
#ifndef RLXD_ENCODER_SIZES_H
#define RLXD_ENCODER_SIZES_H

#include <stdbool.h>
#include <stdint.h>

enum {
	/* Programs of so many sizes of a batch; each is for so many times the rows of the last. */
	ENCODER_SIZES	= 5,
	ENCODER_STEP	= 4,
	ENCODER_BATCH	= 64,	/* max_batch of a device with processors of its own */
};

/* Lengths of texts in tokens. */
#define ENCODER_BUCKETS	{ 16, 32, 64, 128, 256, 512 }

/*
 * Rows of a batch, the first being 1 and the last @most; how many there are. A host's time goes by
 * the rows that are there, whatever a program is for. A device with processors of its own
 * (@own_threads) runs fewer rows than it is for hardly faster than all: tiles and grids are chosen
 * for the whole, and few of its processors have work.
 */
static inline unsigned int encoder_sizes(int64_t most, bool own_threads,
					 int64_t rows[ENCODER_SIZES])
{
	int64_t each = most, least = own_threads ? ENCODER_STEP : most;
	unsigned int n = 1 + (most > 1), i;

	while (n < ENCODER_SIZES && each / ENCODER_STEP >= least) {
		each /= ENCODER_STEP;
		n++;
	}
	rows[0] = 1;
	for (i = n; --i; most /= ENCODER_STEP)
		rows[i] = most;
	return n;
}

#endif
