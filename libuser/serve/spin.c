// SPDX-License-Identifier: MIT
/* May spinning pay at all here? */
#include <sched.h>

#include "serve/spin.h"

void rlx_spin_init(struct rlx_spin *s, uint64_t opt)
{
	cpu_set_t set;

	*s = (struct rlx_spin){ .fixed = opt };
	if (opt == RLX_SPIN_AUTO && !sched_getaffinity(0, sizeof(set), &set))
		s->alone = CPU_COUNT(&set) < 2;
}
