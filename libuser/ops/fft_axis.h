/* SPDX-License-Identifier: MIT */
/*
 * Along which axes a Fourier transform runs, and how long: for its shape, its evaluation, its
 * gradient and the kernels of backends, which must all do the same.
 */
#ifndef RLX_OPS_FFT_AXIS_H
#define RLX_OPS_FFT_AXIS_H

#include "ir/opdef.h"

enum op_fft_kind { OP_FFT, OP_RFFT, OP_IRFFT };

/* What the three ops are given. */
struct op_fft_args {
	struct rlx_ints	axes, n;
	int32_t		norm;		/* enum rlx_fft_norm */
	bool		inverse;
	uint8_t		kind;
};

/* One axis after the other, in the order in which they are done. */
struct op_fft {
	uint32_t	rank;			/* without the dimension of re and im */
	int64_t		in[RLX_MAX_RANK];	/* of elements, before the first */
	uint32_t	n_axis;
	uint32_t	axis[RLX_MAX_RANK];
	int64_t		n[RLX_MAX_RANK];	/* length of each transform */
	int64_t		out[RLX_MAX_RANK];	/* elements along axis[i] behind it */
	bool		real_in, real_out;	/* of the first step, of the last */
	bool		inverse;
	double		scale;			/* of all of them */
};

struct op_fft_args op_fft_args(const struct rlx_op_def *def, const void *args);
/* RLX_ERANGE, RLX_ESHAPE, RLX_EINVAL with a message in @q->err; reads input 0 of @q. */
enum rlx_status rlx_fft_axes(struct rlx_infer *q, struct op_fft *out);
/*
 * The transform of n complex numbers at @x (re, im), in place, sums in double by the prime
 * factors of n: n (p1 + p2 + ...) steps. @work: 4 n complex numbers.
 */
void rlx_fft_dft(double *x, int64_t n, bool inverse, double *work);
/* cos and sin of 2 pi k / n, rounded once */
void rlx_fft_root(int64_t k, int64_t n, double *re, double *im);

#endif
