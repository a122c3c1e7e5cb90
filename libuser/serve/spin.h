/* SPDX-License-Identifier: MIT */
/* How long to spin before sleeping, learnt from how long waits took. */
#ifndef RLX_SERVE_SPIN_H
#define RLX_SERVE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "serve/sock.h"

enum {
	RLX_SPIN_WAKE_NS = 50000,	/* about what waking a sleeper costs */
	RLX_SPIN_PROBE	= 64,		/* one in so many spins to learn anew */
	RLX_SPIN_BATCH	= 16,		/* looks between looks at the clock */
};

/* @mean: of what waits took, an average that forgets; 0 before the first. */
struct rlx_spin {
	uint64_t	fixed;		/* as opts say: AUTO, NEVER or ns */
	uint64_t	max;		/* learnt waits of less are spun through */
	uint64_t	mean;
	uint32_t	probe;
	bool		alone;		/* one processor: spinning keeps it */
};

void rlx_spin_init(struct rlx_spin *s, uint64_t opt, uint64_t max);

static inline uint64_t rlx_spin_for(struct rlx_spin *s)
{
	if (s->fixed == RLX_SPIN_NEVER || s->alone)
		return 0;
	if (s->fixed != RLX_SPIN_AUTO)
		return s->fixed;
	if (s->mean < s->max || ++s->probe % RLX_SPIN_PROBE == 0)
		return s->max;
	return 0;
}

static inline void rlx_spin_learn(struct rlx_spin *s, uint64_t took)
{
	if (took > 4 * s->max)	/* one long pause is not a habit */
		took = 4 * s->max;
	s->mean = (s->mean * 7 + took) / 8;
}

#endif
