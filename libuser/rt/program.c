// SPDX-License-Identifier: MIT
/* Looking into a program: names, types, figures, the dispatch report. */
#include <string.h>

#include "base/alloc.h"
#include "ir/graph.h"
#include "rt/rt.h"

bool rlx_program_entry(const struct rlx_program *p, enum rlx_io *io, unsigned int *i)
{
	enum rlx_io list = *io == RLX_IO_STATE ? RLX_IO_INPUT : *io;
	unsigned int k, n = 0;

	if (!p || (unsigned int)*io > RLX_IO_STATE)
		return false;
	for (k = 0; k < p->plan->n_io[list]; k++)
		if (rlx_io_of(list, p->plan->io[list][k].state) == *io && n++ == *i) {
			*io = list;
			*i = k;
			return true;
		}
	return false;
}

unsigned int rlx_program_io_count(const struct rlx_program *p, enum rlx_io io)
{
	enum rlx_io list = io == RLX_IO_STATE ? RLX_IO_INPUT : io;
	unsigned int k, n = 0;

	if (!p || (unsigned int)io > RLX_IO_STATE)
		return 0;
	if (!p->plan->n_state)
		return io == RLX_IO_STATE ? 0 : p->plan->n_io[io];
	for (k = 0; k < p->plan->n_io[list]; k++)
		n += rlx_io_of(list, p->plan->io[list][k].state) == io;
	return n;
}

const char *rlx_program_io_name(const struct rlx_program *p, enum rlx_io io,
				unsigned int i)
{
	return rlx_program_entry(p, &io, &i) ? p->plan->io[io][i].name : NULL;
}

const struct rlx_type *rlx_program_io_type(const struct rlx_program *p,
					   enum rlx_io io, unsigned int i)
{
	return rlx_program_entry(p, &io, &i) ? &p->plan->val[p->plan->io[io][i].val].type : NULL;
}

int rlx_program_io_find(const struct rlx_program *p, enum rlx_io io, const char *name)
{
	enum rlx_io list = io == RLX_IO_STATE ? RLX_IO_INPUT : io;
	unsigned int k;
	int n = 0;

	for (k = 0; name && p && (unsigned int)io <= RLX_IO_STATE && k < p->plan->n_io[list]; k++) {
		if (rlx_io_of(list, p->plan->io[list][k].state) != io)
			continue;
		if (!strcmp(p->plan->io[list][k].name, name))
			return n;
		n++;
	}
	return -1;
}

void rlx_program_info(const struct rlx_program *p, struct rlx_program_info *out)
{
	if (out)
		*out = p ? p->info : (struct rlx_program_info){ .device = "", .isa = "" };
}

const struct rlx_graph *rlx_program_graph(const struct rlx_program *p)
{
	return p ? p->g : NULL;
}

enum rlx_status rlx_program_print(const struct rlx_program *p, FILE *f)
{
	return p && f ? rlx_plan_print(p->plan, f) : RLX_EINVAL;
}

enum rlx_status rlx_program_place(const struct rlx_program *p, rlx_value v,
				  struct rlx_value_place *out)
{
	struct rlx_value_place t;

	if (!p || !out || out->size < sizeof(out->size))
		return RLX_EINVAL;
	if (!v.id || v.id >= p->plan->n_val)
		return RLX_ERANGE;
	t = rlx_plan_told(p->plan, v.id);
	t.size = out->size;
	memcpy(out, &t, t.size < sizeof(t) ? t.size : sizeof(t));
	return RLX_OK;
}

enum rlx_status rlx_program_step(const struct rlx_program *p, unsigned int i,
				 struct rlx_program_step *out)
{
	struct rlx_program_step t;

	if (!p || !out || out->size < sizeof(out->size))
		return RLX_EINVAL;
	if (i >= p->plan->n_step)
		return RLX_ERANGE;
	t = rlx_plan_told_step(p->plan, i);
	t.size = out->size;
	memcpy(out, &t, t.size < sizeof(t) ? t.size : sizeof(t));
	return RLX_OK;
}

enum rlx_status rlx_program_svg(const struct rlx_program *p, FILE *f)
{
	return p && f ? rlx_plan_svg(p->plan, f) : RLX_EINVAL;
}

static void count_ops(const struct rlx_code *c, unsigned int *count)
{
	uint32_t i;

	for (i = 0; i < c->plan->n_step; i++)
		if (c->plan->step[i].def)
			count[c->plan->step[i].def->index]++;
	for (i = 0; i < c->n_body; i++)
		count_ops(c->body[i].code, count);
}

enum rlx_status rlx_program_report(const struct rlx_program *p, FILE *f)
{
	unsigned int *count, i;

	if (!p || !f)
		return RLX_EINVAL;
	count = rlx_calloc(RLX_OP_COUNT, sizeof(*count));
	if (!count)
		return RLX_ENOMEM;
	count_ops(p->code, count);
	fprintf(f, "# %s %s, %u threads: %u nodes -> %u steps, %u native, %u on the host\n",
		p->info.device, p->info.isa, p->info.threads, p->info.nodes,
		p->info.steps, p->info.native, p->info.host);
	for (i = 0; i < RLX_OP_COUNT; i++)
		if (count[i])
			fprintf(f, "%6u  %s\n", count[i], rlx_op_defs[i]->name);
	if (p->plan->n_state)
		fprintf(f, "# %u states, %u of them copied to at the end of a run: they are read "
			"after or by what replaces them\n", p->plan->n_state, p->plan->n_copied);
	if (p->fused && *p->fused)
		fprintf(f, "%s", p->fused);
	rlx_free(count);
	return ferror(f) ? RLX_EIO : RLX_OK;
}
