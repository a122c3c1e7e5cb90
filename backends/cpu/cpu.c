// SPDX-License-Identifier: MIT
/* The CPU backend's vtable: device, target and what it can. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/proc.h"
#include "kernels/conv.h"

rlx_lower_fn *cpu_lowering(unsigned int index)
{
	static rlx_lower_fn *const table[RLX_OP_COUNT] = {
#define LOWER(op) [RLX_OP_##op] = rlx_lower_##op,
#include "backends/common/lower.def"
#undef LOWER
#define LOWER(op) [RLX_OP_##op] = cpu_lower_##op,
#include "backends/cpu/lower.def"
#undef LOWER
	};

	return index < RLX_OP_COUNT ? table[index] : NULL;
}

static void cpu_model_name(char *buf, size_t size)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256], *p;

	snprintf(buf, size, "CPU");
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "model name", 10))
			continue;
		p = strchr(line, ':');
		line[strcspn(line, "\n")] = 0;
		if (p && p[1])
			snprintf(buf, size, "%s", p + 2);
		break;
	}
	if (f)
		fclose(f);
}

static unsigned int cpu_probe(struct rlx_dev_info *info, unsigned int first, unsigned int max)
{
	if (!first && max) {
		*info = (struct rlx_dev_info){ .backend = "cpu" };
		cpu_model_name(info->name, sizeof(info->name));
		snprintf(info->isa, sizeof(info->isa), "%s",
			 cpu_isa_name(cpu_isa_detect()));
		info->threads = rlx_cpu_allowed();
	}
	return 1;
}

static void run_team(void *pool, void (*fn)(void *ctx, uint64_t begin, uint64_t end,
					    unsigned int worker), void *ctx, uint64_t units)
{
	rlx_pool_run(pool, fn, ctx, units, 1);
}

static enum rlx_status cpu_open(struct rlx_device *dev, struct rlx_error *err)
{
	struct cpu_device *d = (struct cpu_device *)dev;
	enum rlx_status st = rlx_pool_new(dev->threads, &d->pool, err);

	if (st)
		return st;
	dev->threads = rlx_pool_size(d->pool);
	d->team = (struct rlx_k_team){ .run = run_team, .pool = d->pool };
	d->isa = cpu_isa_detect();
	return RLX_OK;
}

static void cpu_close(struct rlx_device *dev)
{
	rlx_pool_free(((struct cpu_device *)dev)->pool);
}

static void cpu_target(const struct rlx_device *dev, struct rlx_target *t)
{
	const struct cpu_device *d = (const struct cpu_device *)dev;

	t->fuse = true;
	t->widen = true;
	t->bf16 = d->isa >= RLX_ISA_V4X;
	t->attention16 = d->isa >= RLX_ISA_V4_AMX ? 32 : 0;
	t->f16 = true;	/* by widening; weights keep two bytes */
	t->channels = (int)rlx_conv_block(d->isa);
	/*
	 * What one block of a kernel holds is few. Short rows of pairs cost up to half as much
	 * again as two steps within a cache, and less once memory counts.
	 */
	t->repeats = (struct rlx_repeats){
		.few = 1024, .row = 128, .run = 16, .large = 8 << 20, .piece = 512, .whole = 16 };
}

const struct rlx_backend rlx_backend_cpu = {
	.abi = RLX_BACKEND_ABI,
	.name = "cpu",
	.bodies = true,
	.plan_files = true,
	.strict_bits = true,
	.device_size = sizeof(struct cpu_device),
	.code_size = sizeof(struct cpu_code),
	.exec_size = sizeof(struct cpu_exec),
	.probe = cpu_probe, .open = cpu_open, .close = cpu_close,
	.target = cpu_target, .supports = cpu_supports,
	.compile = cpu_compile, .release = cpu_release,
	.init = cpu_init, .fini = cpu_fini, .bind = cpu_bind,
	.submit = cpu_submit,
};
