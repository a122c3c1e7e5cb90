// SPDX-License-Identifier: MIT
/* Fourier transforms: the tables of a plan, and a call for each axis. */
#include "backends/cpu/lower_fft_plan.h"

static void put(const struct cpu_fft *f, void *table, int64_t i, double x)
{
	if (f->f64)
		((double *)table)[i] = x;
	else
		((float *)table)[i] = (float)x;
}

/* e^(-2 pi i k / n) at numbers @re and @im of the table */
static void put_root(const struct cpu_fft *f, void *table, int64_t re, int64_t im, int64_t k,
		     int64_t n)
{
	double c, s;

	rlx_fft_root(k % n, n, &c, &s);
	put(f, table, re, c);
	put(f, table, im, -s);
}

/* Those of row @k, times the scale: of columns from @first on at vectors @at and @at + 1. */
static void put_lanes(const struct cpu_fft *f, const struct rlx_k_fft *a, void *table, int64_t at,
		      int64_t k, int64_t first)
{
	const int64_t n2 = rlx_k_fft_length(&a->core[1]), lanes = f->lanes;
	/* a short line's columns share a vector with those of others */
	const int64_t columns = n2 < lanes && lanes % n2 == 0 ? n2 : lanes;
	const double scale = a->chirp_n ? 1 : a->scale;
	double c, s;

	for (int64_t i = 0; i < lanes; i++) {
		rlx_fft_root(k * (first + i % columns) % a->n, a->n, &c, &s);
		put(f, table, at * lanes + i, c * scale);
		put(f, table, (at + 1) * lanes + i, -s * scale);
	}
}

static void *new_table(const struct cpu_fft *f, int64_t numbers, const void **field)
{
	void *p = rlx_lower_keep(f->lo, (size_t)numbers + 16, f->size);

	*field = p;
	return p;
}

/* Where a spectrum has number @k, and from re to im: in order, or as z of a line's parts is. */
struct spectrum {
	int64_t	all, n1, n2, lanes;	/* n1 0: in order */
	double	scale;
};

static void put_spectrum(const struct cpu_fft *f, void *table, const struct spectrum *s, int64_t k,
			 const double *b)
{
	const double by = s->scale / (double)s->all;
	int64_t at = k, part = s->all, k1;

	if (s->n1) {
		k1 = k % s->n1;
		part = s->lanes;
		at = (k1 / part * s->n2 + k / s->n1) * 2 * part + k1 % part;
	}
	put(f, table, at, b[0] * by);
	put(f, table, at + part, b[1] * by);
}

/* The chirp e^(-pi i k^2 / n), and the spectrum of its conjugate, by scale / all. */
static void chirp_tables(const struct cpu_fft *f, const struct rlx_fft_chirp *c,
			 const struct spectrum *s, const void **out_chirp,
			 const void **out_spectrum)
{
	const int64_t n = c->n, all = s->all;
	const int64_t numbers = s->n1 ? rlx_k_fft_blocks(s->n1, s->lanes) * s->lanes * s->n2 : all;
	double *b = rlx_calloc((size_t)all * 10, sizeof(*b)), re, im;
	void *chirp = new_table(f, 2 * n, out_chirp);
	void *spectrum = new_table(f, 2 * numbers, out_spectrum);
	int64_t k;

	if (!b)
		rlx_lower_out_of_memory(f->lo);
	for (k = 0; b && chirp && spectrum && k < n; k++) {
		rlx_fft_root((int64_t)((__int128)k * k % (2 * n)), 2 * n, &re, &im);
		put(f, chirp, k, re);
		put(f, chirp, n + k, -im);
		rlx_fft_chirp_put(c, k, all, b, re, im);
	}
	if (b && chirp && spectrum)
		rlx_fft_dft(b, all, false, b + 2 * all);
	for (k = 0; b && chirp && spectrum && k < all; k++)
		put_spectrum(f, spectrum, s, k, b + 2 * k);
	rlx_free(b);
}

/* @whole: its lines are those of the call */
static void core_table(const struct cpu_fft *f, struct rlx_k_fft_core *c, bool whole)
{
	const struct rlx_fft_chirp part = { c->chirp_n, c->chirp_n, c->chirp_n };
	int64_t m = c->n, count = 0, at = 0, p, i;
	double re, im;
	void *w;
	int k;

	for (k = 0; k < c->n_factor; k++) {
		m /= c->factor[k];
		count += rlx_k_fft_roots(c->factor[k], cpu_fft_vector_bytes(f)) +
			 2 * (c->factor[k] - 1) * m;
	}
	w = new_table(f, count, &c->w);
	m = c->n;
	if (c->chirp_n)
		chirp_tables(f, whole ? &f->chirp : &part,
			     &(struct spectrum){ .all = c->n, .scale = 1 }, &c->chirp,
			     &c->spectrum);
	for (k = 0; w && k < c->n_factor; k++) {
		const int64_t r = c->factor[k], row = r / 2;
		const int64_t roots = rlx_k_fft_roots((int)r, cpu_fft_vector_bytes(f)) / 2;
		const bool all = cpu_fft_odd_in_registers(f, r);

		for (i = 0; i < roots; i++) {
			rlx_fft_root(all ? i : (i / row + 1) * (i % row + 1) % r, r, &re, &im);
			put(f, w, at++, re);
			put(f, w, at++, im);
		}
		for (m /= r, p = 0; p < m; p++)
			for (i = 1; i < r; i++, at += 2)
				put_root(f, w, at, at + 1, p * i, m * r);
	}
}

/* Twiddle factors between columns and rows. */
static void matrix_tables(const struct cpu_fft *f, struct rlx_k_fft *a)
{
	const int64_t n1 = rlx_k_fft_length(&a->core[0]), lanes = f->lanes;
	const int64_t n2 = rlx_k_fft_length(&a->core[1]);
	const int64_t blocks = rlx_k_fft_blocks(n2, lanes);
	const bool all = !cpu_fft_portable(f) && a->n <= RLX_K_FFT_SQUARE_W && !a->chirp_n &&
			 rlx_k_fft_square(a, lanes) && n2 >= lanes;
	void *lane = new_table(f, n1 * lanes * 2, &a->lane_w);
	void *block = new_table(f, blocks * n1 * 2, &a->block_w);
	void *square = all ? new_table(f, blocks * n1 * lanes * 2, &a->square_w) : NULL;
	int64_t k, i;

	if (!lane || !block || (all && !square))
		return;
	for (k = 0; k < n1; k++) {
		put_lanes(f, a, lane, 2 * k, k, 0);
		for (i = 0; i < blocks; i++) {
			const int64_t first = rlx_k_fft_first(a, n2, i, lanes), at = i * n1 + k;

			put_root(f, block, 2 * at, 2 * at + 1, k * first, a->n);
			if (square)
				put_lanes(f, a, square, 2 * at, k, first);
		}
	}
}

static void tables(const struct cpu_fft *f, struct rlx_k_fft *a)
{
	int64_t k;
	void *w;

	core_table(f, &a->core[0], a->mode == RLX_K_FFT_LANES);
	if (a->mode == RLX_K_FFT_LINE) {
		core_table(f, &a->core[1], false);
		matrix_tables(f, a);
	}
	if (a->chirp_n)
		chirp_tables(f, &f->chirp, &(struct spectrum){ a->n, a->core[0].n, a->core[1].n,
			     f->lanes, a->scale }, &a->chirp, &a->spectrum);
	a->scale = a->mode == RLX_K_FFT_LINE ? 1 : a->scale;
	if (!a->split)
		return;
	w = new_table(f, 2 * (a->half + 1), &a->split_w);
	for (k = 0; w && k <= a->half; k++)
		put_root(f, w, k, a->half + 1 + k, k, 2 * a->half);
}

/* @at: x, y and z */
static enum rlx_status call(const struct cpu_fft *f, const struct rlx_k_fft *from, uint64_t units,
			    const struct rlx_fft_place at[3])
{
	struct rlx_k_fft *a = rlx_lower_args(f->lo, sizeof(*a));
	double work = (double)(from->outer * from->inner) * (double)from->n * 20;

	*a = *from;
	rlx_fft_refer(f->lo, &a->x, at[0]);
	rlx_fft_refer(f->lo, &a->y, at[1]);
	rlx_fft_refer(f->lo, &a->z, at[2]);
	return rlx_lower_call(f->lo, f->f64 ? RLX_KERNEL_fft_f64 : RLX_KERNEL_fft_f32, units, work,
			      rlx_k_fft_scratch(a, f->lanes, f->size));
}

static struct rlx_k_fft_view dense(int64_t n, int64_t inner)
{
	return (struct rlx_k_fft_view){ .n = n, .stride = 2, .part = 1, .outer = 2 * n * inner,
					.inner = 2 * n };
}

/* A step of the lines between two places, z the third; of mode @mode. */
static void shared_step(const struct cpu_fft *f, uint8_t mode, const struct rlx_fft_place at[3],
			const struct rlx_k_fft_view *in, const struct rlx_k_fft_view *out)
{
	struct rlx_k_fft a = f->a;

	a.mode = mode;
	a.in = *in;
	a.out = *out;
	call(f, &a, (uint64_t)(a.outer * a.inner * rlx_k_fft_pieces(&a, f->lanes)), at);
}

/* Few long lines: threads share each. */
static void shared_line(const struct cpu_fft *f, struct rlx_fft_place x, struct rlx_fft_place y)
{
	const struct rlx_k_fft *a = &f->a;
	const uint64_t bytes = rlx_times((uint64_t)(a->outer * a->inner), 2 * f->size);
	const int64_t n = a->chirp_n ? a->chirp_n : a->n;
	const struct rlx_fft_place z = { RLX_FFT_TMP, rlx_lower_tmp(f->lo, rlx_times(bytes,
						(uint64_t)rlx_k_fft_z(a, f->lanes))) };
	struct rlx_fft_place t = { RLX_FFT_TMP, 0 };
	struct rlx_k_fft_view ends = dense(a->half + 1, a->inner), in = a->in, out = a->out;
	struct rlx_fft_place to_t[] = { x, t, z }, from_t[] = { t, y, z };

	if (a->split)
		t.tmp = rlx_lower_tmp(f->lo, rlx_times(bytes,
				      (uint64_t)(a->half + 1)));
	to_t[1] = from_t[0] = t;
	ends.n = n;
	if (a->split == 2) {
		shared_step(f, RLX_K_FFT_SPLIT, to_t, &in, &ends);
		to_t[0] = t;
		in = ends;
	}
	if (a->split == 1) {
		from_t[1] = t;
		out = ends;
	}
	shared_step(f, RLX_K_FFT_COLUMNS, to_t, &in, &in);
	if (a->chirp_n)
		shared_step(f, RLX_K_FFT_THROUGH, to_t, &in, &in);
	shared_step(f, a->chirp_n ? RLX_K_FFT_BACK : RLX_K_FFT_ROWS, from_t, &out, &out);
	from_t[1] = y;
	if (a->split == 1)
		shared_step(f, RLX_K_FFT_SPLIT, from_t, &ends, &a->out);
}

/*
 * The views of a step from @d to @out elements by a transform of length @n. Lines that are cut or
 * padded at an odd place are no pairs.
 */
static void set_views(struct rlx_k_fft *a, int64_t d, int64_t n, int64_t out, bool real_in,
		      bool real_out)
{
	bool pairs = n % 2 == 0 && n > 2 && !(real_in && d % 2 && d < n);

	a->half = 0;
	if ((real_in || real_out) && pairs) {
		a->split = real_in ? 1 : 2;
		a->half = n / 2;
	}
	if (real_in)
		a->in = rlx_fft_view(pairs ? RLX_K_FFT_PAIRS : RLX_K_FFT_REAL, d, n, a->inner);
	else
		a->in = rlx_fft_view(real_out && !pairs ? RLX_K_FFT_HALF : RLX_K_FFT_COMPLEX, d,
			     real_out ? n / 2 + 1 : n, a->inner);
	a->out = rlx_fft_view(!real_out ? RLX_K_FFT_COMPLEX : pairs ? RLX_K_FFT_PAIRS :
			      RLX_K_FFT_REAL, out, out, a->inner);
	if (a->in.kind == RLX_K_FFT_PAIRS)
		a->in.n = (a->in.n + 1) / 2;
	if (a->out.kind == RLX_K_FFT_PAIRS)
		a->out.n /= 2;
}

static enum rlx_status one_axis(struct rlx_lower *lo, const struct rlx_fft_step *s, bool inverse,
				struct rlx_fft_place x, struct rlx_fft_place y)
{
	const enum rlx_dtype dt = rlx_lower_in(lo, 0)->dtype;
	const enum rlx_isa isa = cpu_isa(lo);
	const size_t bytes = rlx_isa_vector_bytes(isa);
	struct cpu_fft f = {
		.lo = lo, .f64 = dt == RLX_F64,
		.bits = rlx_k_fft_bits(bytes),
		.size = dt == RLX_F64 ? 8 : 4,
		.threads = lo->strict ? SIZE_MAX : cpu_device_of(lo)->base.threads,
		.a = { .outer = s->outer, .inner = s->inner, .inverse = inverse,
		       .scale = s->scale },
	};
	struct rlx_k_fft *a = &f.a;
	int64_t of;
	bool shared;

	f.lanes = bytes / (int64_t)f.size;
	/* where a vector of them fits, those that lie side by side */
	a->across_outer = s->outer > s->inner && s->inner < f.lanes;
	set_views(a, s->d, s->n, s->out, s->real_in, s->real_out);
	if (a->split == 2)	/* of pairs there are half as many */
		a->scale *= 2;
	of = a->half ? a->half : s->n;
	f.chirp = rlx_fft_chirp(s, of);
	cpu_fft_plan(&f);
	shared = a->mode == RLX_K_FFT_LINE && cpu_fft_shares(&f, a->n);
	a->overlap = cpu_fft_overlaps(&f, a->n) && !a->chirp_n;
	if (!((struct cpu_lower *)lo)->dry)
		tables(&f, a);
	if (shared)
		shared_line(&f, x, y);
	else
		call(&f, a, (uint64_t)(a->mode == RLX_K_FFT_LANES ?
		     rlx_k_fft_groups(a, f.lanes) : a->outer * a->inner),
		     (struct rlx_fft_place[]){ x, y, { RLX_FFT_NOWHERE, 0 } });
	return lo->status;
}

enum rlx_status cpu_lower_fft(struct rlx_lower *lo)
{
	const enum rlx_dtype dt = rlx_lower_in(lo, 0)->dtype;

	if (dt != RLX_C64 && dt != RLX_F64 && dt != RLX_F32)
		return rlx_lower_unsupported(lo, "no kernel for this dtype");
	return rlx_fft_steps(lo, dt == RLX_F64 ? 8 : 4, one_axis);
}

enum rlx_status cpu_lower_rfft(struct rlx_lower *lo)
{
	return cpu_lower_fft(lo);
}

enum rlx_status cpu_lower_irfft(struct rlx_lower *lo)
{
	return cpu_lower_fft(lo);
}
