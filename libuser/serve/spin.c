// SPDX-License-Identifier: MIT
/* May spinning pay at all here? */
#include <unistd.h>

#include "serve/spin.h"

/*
 * The processors of the machine, not those we may run on: who is pinned to one is
 * pinned apart from his peer more often than not, and if not, it is learnt soon.
 */
void rlx_spin_init(struct rlx_spin *s, uint64_t opt, uint64_t max)
{
	*s = (struct rlx_spin){ .fixed = opt, .max = max };
	if (opt == RLX_SPIN_AUTO)
		s->alone = sysconf(_SC_NPROCESSORS_ONLN) < 2;
}
