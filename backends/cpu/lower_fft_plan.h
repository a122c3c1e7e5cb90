/* SPDX-License-Identifier: MIT */
/* How the CPU does a Fourier transform along one axis: its modes, lengths and radices, by costs. */
#ifndef RLX_CPU_LOWER_FFT_PLAN_H
#define RLX_CPU_LOWER_FFT_PLAN_H

#include "backends/common/fft_desc.h"
#include "backends/cpu/cpu.h"

/* An axis: @a has its views, and gets how it is done. */
struct cpu_fft {
	struct rlx_lower	*lo;
	struct rlx_k_fft	 a;
	bool			 f64;
	int			 bits;	/* of the largest even radix */
	int64_t			 lanes;
	size_t			 size;	/* of a number */
	size_t			 threads;	/* where bits may hang on them */
	struct rlx_fft_chirp	 chirp;	/* of the lines, if they are done by one */
};

/* The level has no registers for squares: all that is turned goes by memory. */
static inline bool cpu_fft_portable(const struct cpu_fft *f)
{
	return f->bits == 2;
}

static inline size_t cpu_fft_vector_bytes(const struct cpu_fft *f)
{
	return (size_t)f->lanes * f->size;
}

static inline bool cpu_fft_odd_in_registers(const struct cpu_fft *f, int64_t r)
{
	return rlx_k_fft_odd_in_registers((int)r, cpu_fft_vector_bytes(f));
}

/*
 * Sets mode, lengths and radices of f->a for lines of length f->chirp.n: by Cooley and Tukey's
 * passes or Bluestein's convolution, a vector of lines at a time or one, what costs least.
 */
void cpu_fft_plan(struct cpu_fft *f);
/* Do threads share lines of length @n that are done one at a time? */
bool cpu_fft_shares(const struct cpu_fft *f, int64_t n);
/* Is the last vector of such a line's columns, and rows, of some of those before it too? */
bool cpu_fft_overlaps(const struct cpu_fft *f, int64_t n);

#endif
