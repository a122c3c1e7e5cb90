/* SPDX-License-Identifier: MIT */
/* What Fourier transforms are to any backend: a step for each axis, and where its lines are. */
#ifndef RLX_BACKENDS_FFT_DESC_H
#define RLX_BACKENDS_FFT_DESC_H

#include "backends/common/lower.h"
#include "kernels/fft.h"
#include "ops/fft_axis.h"

struct rlx_fft_step {
	int64_t		outer, inner;	/* lines */
	int64_t		d, n, out;	/* elements of x, of the transform, of y */
	bool		real_in, real_out;
	/* its result has the output's shape, and all behind it: they go there, in place */
	bool		to_output;
	uint64_t	elements;	/* of the result */
	double		scale;
};

/* Step @k of @g, whose .in is brought from the shape before it to the one behind it. */
static inline struct rlx_fft_step rlx_fft_next(struct op_fft *g, uint32_t k)
{
	const uint32_t ax = g->axis[k];
	const bool last = k + 1 == g->n_axis;
	struct rlx_fft_step s = {
		.outer = 1, .inner = 1, .d = g->in[ax], .n = g->n[k], .out = g->out[k],
		.real_in = g->real_in && !k, .real_out = g->real_out && last,
		.elements = 1, .scale = last ? g->scale : 1,
	};
	uint32_t i;

	g->in[ax] = s.out;
	for (i = 0; i < g->rank; i++) {
		s.outer *= i < ax ? g->in[i] : 1;
		s.inner *= i > ax ? g->in[i] : 1;
		s.elements = rlx_times(s.elements, (uint64_t)g->in[i]);
	}
	for (i = k + 1; i < g->n_axis && g->in[g->axis[i]] == g->out[i]; i++)
		;
	s.to_output = i == g->n_axis && (last || !g->real_out);
	return s;
}

/* Elements of a line of @d, of which @n count, with @inner lines side by side. */
static inline struct rlx_k_fft_view rlx_fft_view(uint8_t kind, int64_t d, int64_t n, int64_t inner)
{
	int64_t each = kind == RLX_K_FFT_COMPLEX || kind == RLX_K_FFT_HALF ? 2 : 1;

	return (struct rlx_k_fft_view){
		.kind = kind, .n = d < n ? d : n,
		.stride = kind == RLX_K_FFT_PAIRS ? 2 * inner : each * inner,
		.part = each == 2 ? 1 : kind == RLX_K_FFT_PAIRS ? inner : 0,
		.outer = each * inner * d, .inner = each,
	};
}

/* Bluestein's chirp for transforms of length n, of whose numbers the first n_in are not 0, and the
 * first n_out are wanted. */
struct rlx_fft_chirp {
	int64_t	n, n_in, n_out;
};

/*
 * That of @s by transforms of length @n: s->n, or half of it where real lines are pairs. Half a
 * spectrum is read as a whole one of which the conjugates are 0 and their partners twice as large,
 * for the real part of a result is all that is wanted there.
 */
static inline struct rlx_fft_chirp rlx_fft_chirp(const struct rlx_fft_step *s, int64_t n)
{
	const int64_t half = s->n / 2 + 1;
	struct rlx_fft_chirp c = { n, n, n };

	if (n == s->n) {
		c.n_in = s->real_out && half < s->d ? half : s->d < n ? s->d : n;
		c.n_out = s->real_in ? half : n;
	}
	c.n_in = c.n_in ? c.n_in : 1;
	return c;
}

/* The convolution is of this length at least: what it wraps meets results that are not wanted. */
static inline int64_t rlx_fft_chirp_least(const struct rlx_fft_chirp *c)
{
	const int64_t least = c->n_in + c->n_out - 1;

	return least > c->n ? least : c->n;	/* of a few that count, all n are there */
}

/* Number @k of the chirp's conjugate to where a convolution of length @all has it, re and im. */
static inline void rlx_fft_chirp_put(const struct rlx_fft_chirp *c, int64_t k, int64_t all,
				     double *b, double re, double im)
{
	if (k < c->n_out) {
		b[2 * k] = re;
		b[2 * k + 1] = im;
	}
	if (k && k < c->n_in) {
		b[2 * (all - k)] = re;
		b[2 * (all - k) + 1] = im;
	}
}

/* Where a step reads or writes. */
struct rlx_fft_place {
	enum { RLX_FFT_NOWHERE, RLX_FFT_INPUT, RLX_FFT_OUTPUT, RLX_FFT_TMP } at;
	uint32_t	tmp;
};

static inline void rlx_fft_refer(struct rlx_lower *lo, void *field, struct rlx_fft_place p)
{
	if (p.at == RLX_FFT_INPUT)
		rlx_lower_ref_in(lo, field, 0, 0);
	else if (p.at == RLX_FFT_OUTPUT)
		rlx_lower_ref_out(lo, field, 0, 0);
	else if (p.at == RLX_FFT_TMP)
		rlx_lower_ref_tmp(lo, field, p.tmp, 0);
}

/* A backend's own half: the calls of one step. */
typedef enum rlx_status rlx_fft_axis_fn(struct rlx_lower *lo, const struct rlx_fft_step *s,
					bool inverse, struct rlx_fft_place x,
					struct rlx_fft_place y);

/* All steps of the op; @size of a number between them. */
static inline enum rlx_status rlx_fft_steps(struct rlx_lower *lo, size_t size,
					    rlx_fft_axis_fn *one_axis)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_infer q = { .err = lo->err, .def = lo->st->def, .args = lo->args, .n_in = 1,
			       .in = &x };
	struct rlx_fft_place from = { RLX_FFT_INPUT, 0 }, to;
	struct op_fft g;
	uint32_t k;

	if (rlx_fft_axes(&q, &g))
		return lo->status = lo->err->status;
	for (k = 0; k < g.n_axis && rlx_type_count(rlx_lower_out(lo, 0)) && !lo->status; k++) {
		struct rlx_fft_step s = rlx_fft_next(&g, k);

		to = (struct rlx_fft_place){ RLX_FFT_OUTPUT, 0 };
		if (!s.to_output)
			to = (struct rlx_fft_place){ RLX_FFT_TMP, rlx_lower_tmp(lo,
						     rlx_times(s.elements, 2 * size)) };
		if (lo->status)
			break;
		one_axis(lo, &s, g.inverse, from, to);
		from = to;
	}
	return lo->status;
}

#endif
