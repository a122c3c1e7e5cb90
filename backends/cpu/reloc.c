// SPDX-License-Identifier: MIT
/* Relocations in order of the slots whose addresses they take: a bind visits its own alone. */
#include "backends/cpu/cpu.h"
#include "base/alloc.h"

static uint32_t slot_of(const struct rlx_plan *p, const struct rlx_ref *r)
{
	if (r->kind == RLX_REF_PLACE && r->place.kind == RLX_PLACE_INPUT)
		return cpu_slot(p, RLX_IO_INPUT, r->place.index);
	if (r->kind == RLX_REF_PLACE && r->place.kind == RLX_PLACE_PARAM)
		return cpu_slot(p, RLX_IO_PARAM, r->place.index);
	if (r->kind == RLX_REF_PLACE && r->place.kind == RLX_PLACE_OUTPUT)
		return cpu_slot(p, RLX_IO_OUTPUT, r->place.index);
	return cpu_own_slot(p);
}

enum rlx_status cpu_sort_relocs(struct cpu_code *c, struct rlx_error *err)
{
	const struct rlx_plan *p = c->base.plan;
	uint32_t n = cpu_own_slot(p) + 1, i;
	struct rlx_ref *sorted = rlx_calloc((size_t)c->n_reloc + 1, sizeof(*sorted));
	uint32_t *at = rlx_calloc((size_t)n + 2, sizeof(*at));

	if (!sorted || !at) {
		rlx_free(sorted);
		rlx_free(at);
		return rlx_fail(err, RLX_ENOMEM, "cpu: out of memory");
	}
	/* where the next one of slot s goes is at[s + 1], which ends where s + 1 begins */
	for (i = 0; i < c->n_reloc; i++)
		at[slot_of(p, &c->reloc[i]) + 2]++;
	for (i = 2; i < n + 2; i++)
		at[i] += at[i - 1];
	for (i = 0; i < c->n_reloc; i++)
		sorted[at[slot_of(p, &c->reloc[i]) + 1]++] = c->reloc[i];
	rlx_free(c->reloc);
	c->reloc = sorted;
	c->cap_reloc = c->n_reloc + 1;
	c->slot_at = at;
	return RLX_OK;
}
