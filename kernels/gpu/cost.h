/* SPDX-License-Identifier: MIT */
/*
 * How long a launch takes: a chip as numbers, a launch as terms, one function from both to
 * nanoseconds, and the choice among kernels that can do the same, which the least time wins.
 *
 * Blocks run in rounds over the multiprocessors. Of one, with R blocks resident at a time:
 *
 *	block(r) = begin_ns + max(steps * step_ns, u(r) flops / rate, r l2_bytes / sm_l2_bw) +
 *		   r end_ns
 *	u(r)	 = ceil(r threads / 128) 128 / threads	(of the scheduler that has the most warps)
 *	T_sm	 = floor(blocks / (SMs R)) block(R) + block(ceil(rest / SMs))
 *	T_dram	 = dram_bytes / min(dram_bw, A sm_dram_bw, A r in_flight / dram_ns)   (Little's law;
 *		   A multiprocessors have blocks, r each)
 *	T_l2	 = blocks * l2_bytes / l2_bw
 *	T	 = start_ns + (n_launches - 1) pdl_ns + dram_ns + once_ns + alone_bytes / dram_bw +
 *		   max(T_sm, T_dram, T_l2) + (the other two) / 8
 *
 * An eighth of what is hidden is seen: where memory is the bound, fewer steps still are better.
 * What a chip's numbers are is said where they are (backends/gpu/chips.def): they are what good
 * kernels reach, not what data sheets promise.
 */
#ifndef RLX_G_COST_H
#define RLX_G_COST_H

#include <stdbool.h>
#include <stdint.h>

/* Kinds of arithmetic, each with a rate of its own: MMA by the type of operands, and FMA. */
#define RLX_G_RATES(RATE)						\
	RATE(mma_f16) RATE(mma_tf32) RATE(mma_f8) RATE(mma_i8) RATE(fma_f32) RATE(fma_f64)

enum rlx_g_rate {
#define RLX_G_RATE(name)	RLX_G_RATE_##name,
	RLX_G_RATES(RLX_G_RATE)
#undef RLX_G_RATE
	RLX_G_RATE_COUNT
};

/* Times in ns and bandwidths in bytes a ns, by name: calibration measures them. */
#define RLX_G_CHIP_TIMES(TIME)						\
	TIME(start_ns) TIME(pdl_ns) TIME(event_ns) TIME(dram_ns) TIME(l2_ns) \
	TIME(dram_bw) TIME(l2_bw) TIME(sm_dram_bw) TIME(sm_l2_bw)

/**
 * struct rlx_g_chip - a chip, as launches are planned for it
 * @name: as its driver says it
 * @source: where the numbers come from, for people
 * @sms: multiprocessors
 * @smem_sm, @threads_sm: bytes of shared memory and threads of one
 * @l2_bytes: of the second-level cache
 * @start_ns: a launch behind another of its stream; @pdl_ns: that begins before the one ahead has
 *	ended (programmatic dependent launch); @event_ns: behind one of another stream, beyond that
 * @dram_ns, @l2_ns: latencies of a read
 * @dram_bw, @l2_bw: of all; @sm_dram_bw, @sm_l2_bw: most of one multiprocessor
 * @rate: operations of a multiprocessor in a ns, by enum rlx_g_rate
 */
struct rlx_g_chip {
	char		name[64];
	const char	*source;
	uint32_t	sms, smem_sm, threads_sm;
	uint64_t	l2_bytes;
#define RLX_G_TIME(name)	double name;
	RLX_G_CHIP_TIMES(RLX_G_TIME)
#undef RLX_G_TIME
	double		rate[RLX_G_RATE_COUNT];
};

/**
 * struct rlx_g_cost - what a launch does
 * @blocks: that have work
 * @flops: operations of a block, at @part of the chip's @rate (0: all of it)
 * @l2_bytes: that a block reads
 * @steps, @step_ns: one after the other of a block, and what the chip's latencies make of each
 * @begin_ns: of a block, before its steps; @end_ns: behind them, when it keeps others from theirs
 * @once_ns: of a launch, beside the others: what the last block does alone
 * @alone_bytes: that launches of their own move, ahead of it or behind
 * @dram_bytes: of all blocks, that come from memory or go there
 * @in_flight: bytes that a block keeps under way; 0: as many as it takes
 * @resident: blocks of a multiprocessor at a time; 0: as shared memory and threads let
 */
struct rlx_g_cost {
	double		blocks, flops, part, l2_bytes, steps, step_ns, begin_ns, end_ns;
	double		once_ns, alone_bytes, dram_bytes, in_flight;
	uint32_t	resident;
	enum rlx_g_rate	rate;
};

struct rlx_g_launch;

/**
 * struct rlx_g_option - a kernel that may be the one for some arguments
 * @variant: enum rlx_g_variant
 * @why_not: NULL: it can do @args; else why it cannot, for people. Pure. NULL for the function: it
 *	can do any.
 * @plan: its launch in the @i-th of its ways (tiles, splits), from 0 on; false: there is none
 * @cost: of that launch, into what is zero but for .blocks
 */
struct rlx_g_option {
	int		variant;
	const char	*(*why_not)(const void *args, const struct rlx_g_launch *l);
	bool		(*plan)(const void *args, unsigned int i, struct rlx_g_launch *l);
	void		(*cost)(const void *args, const struct rlx_g_launch *l,
				struct rlx_g_cost *out);
};

/* Options that take one kind of arguments, and those as a line of text: a problem's name. */
struct rlx_g_family {
	const char			*name;
	const struct rlx_g_option	*option;
	unsigned int			n_option;
	void				(*describe)(const void *args, char *buf, size_t size);
};

/* backends/gpu/cost.c: ns of @t, which @l launches. */
double rlx_g_cost_ns(const struct rlx_g_launch *l, const struct rlx_g_cost *t);
/* What of that every launch takes, whatever it does. */
double rlx_g_least_ns(const struct rlx_g_launch *l);

/*
 * Of the options of @f that can do @args the launch that takes the least time, into @l; none:
 * l->can stays false. One listed later must gain a twentieth, and 50 ns: what the model says
 * of less is chance.
 */
void rlx_g_choose(const struct rlx_g_family *f, const void *args, struct rlx_g_launch *l);

#endif
