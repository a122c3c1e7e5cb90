/* SPDX-License-Identifier: MIT */
/* How ranks share out states of optimizers (ZeRO-1), as steps and checkpoints see it. */
#ifndef RLX_TRAIN_ZERO_H
#define RLX_TRAIN_ZERO_H

#include <stdint.h>

/* In front of the name that a state has where it is whole. */
#define ZERO_PREFIX	"zero."

enum { ZERO_LEAST = 1024 };	/* elements; smaller ones are whole on all ranks */

/*
 * Elements that each of @ranks has of a tensor of @n, as they lie, the last ones' filled up with
 * zeros; 0: it is whole on all.
 */
int64_t zero_part(int64_t n, unsigned int ranks);

#endif
