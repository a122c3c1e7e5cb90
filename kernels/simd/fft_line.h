/* SPDX-License-Identifier: MIT */
/*
 * The modes of kernels/fft.h, in FT; included after fft_move.h. A transform back is one of
 * numbers whose re and im are swapped, swapped again.
 */
#ifndef RLX_SIMD_FFT_LINE_H
#define RLX_SIMD_FFT_LINE_H

/* What is done to a result before it is stored. */
struct fft_end {
	const FT	*w;		/* NULL: nothing; else re [n], im */
	int64_t		n;
	FT		scale;
	bool		swap_first, swap;
};

static void end_tile(cv *x, const struct fft_tile *t, const struct fft_end *end)
{
	if (end->swap_first)
		for (int64_t e = 0; e < t->ne; e++)
			x[e] = (cv){ x[e].im, x[e].re };
	if (end->w)
		times_table(x, t, end->w, end->n);
	if (end->swap)
		for (int64_t e = 0; e < t->ne; e++)
			x[e] = (cv){ x[e].im, x[e].re };
	if (end->scale != 1)
		for (int64_t e = 0; e < t->ne; e++)
			x[e] = (cv){ x[e].re * end->scale, x[e].im * end->scale };
}

/*
 * The transform of @x, or of @lines, by a core; @work is for what rlx_k_fft_vectors() has besides
 * x.
 */
static cv *run_core(const struct rlx_k_fft_core *c, cv *x, cv *work,
		    const struct fft_lines *lines)
{
	struct fft_tile in = { .ne = c->chirp_n, .nl = FW, .along_e = 1 };
	struct fft_tile all = { .ne = c->n, .nl = FW, .along_e = 1 };
	cv *y;

	if (!c->chirp_n)
		return transform(c, x, work, lines);
	times_table(x, &in, table(c->chirp), c->chirp_n);
	memcpy(work, x, (size_t)c->chirp_n * sizeof(*x));
	memset(work + c->chirp_n, 0, (size_t)(c->n - c->chirp_n) * sizeof(*x));
	y = transform(c, work, work + c->n, NULL);
	end_tile(y, &all, &(struct fft_end){ table(c->spectrum), c->n, 1, false, true });
	y = transform(c, y, y == work ? work + c->n : work, NULL);
	end_tile(y, &in, &(struct fft_end){ table(c->chirp), c->chirp_n, 1, true, false });
	return y;
}

/* Before two are added, so that no sum overflows that their mean does not */
RLX_INLINE cv cv_half(cv x)
{
	return (cv){ x.re * (FT)0.5, x.im * (FT)0.5 };
}

/* Of pairs' spectrum z[0 .. half), the real line's [0 .. half], in place. */
static void to_half(cv *z, const FT *w, int64_t half)
{
	z[half] = z[0];
	for (int64_t k = 0; 2 * k <= half; k++) {
		cv a = cv_half(z[k]), q = cv_half(z[half - k]), b = { q.re, -q.im };
		cv e = cv_add(a, b), o = cv_mul_i(cv_sub(a, b)), c;

		o = cv_mul(o, w[k] - (FV){ 0 }, w[half + 1 + k] - (FV){ 0 });
		c = cv_sub(e, o);
		z[k] = cv_add(e, o);
		z[half - k] = (cv){ c.re, -c.im };
	}
}

/* And back, as what a transform back wants: re and im swapped. */
static void from_half(cv *z, const FT *w, int64_t half)
{
	z[0].im = z[half].im = (FV){ 0 };
	for (int64_t k = 0; 2 * k <= half; k++) {
		cv a = cv_half(z[k]), q = cv_half(z[half - k]), b = { q.re, -q.im };
		cv e = cv_add(a, b), o = cv_sub(a, b), c;

		o = cv_mul(o, w[k] - (FV){ 0 }, -w[half + 1 + k] - (FV){ 0 });
		/* e + i o, and of half - k the conjugate of e - i o */
		c = (cv){ e.re + o.im, -(e.im - o.re) };
		z[k] = (cv){ e.im + o.re, e.re - o.im };
		z[half - k] = (cv){ c.im, c.re };
	}
}

/* Half a spectrum's other half, its conjugate; read for a transform back, so re and im swapped. */
static void mirror(cv *x, int64_t n)
{
	x[0].re = (FV){ 0 };
	if (n % 2 == 0)
		x[n / 2].re = (FV){ 0 };
	for (int64_t k = 1; 2 * k < n; k++)
		x[n - k] = (cv){ -x[k].re, x[k].im };
}

/* For Bluestein: the other half is 0 and this one twice as large, of which re is wanted alone. */
static void double_half(cv *x, int64_t n)
{
	x[0].re = (FV){ 0 };
	for (int64_t k = 1; k < n; k++)
		x[k] = 2 * k < n ? cv_add(x[k], x[k]) : (cv){ { 0 }, { 0 } };
}

static struct fft_tile tile_of_lines(const struct rlx_k_fft *a, const struct rlx_k_fft_view *v,
				     const void *base, size_t unit, int64_t ne)
{
	int64_t lines = a->across_outer ? a->outer : a->inner;
	int64_t groups = rlx_k_fft_blocks(lines, FW), to = a->across_outer ? v->outer : v->inner;
	int64_t other = (int64_t)unit / groups, from = (int64_t)unit % groups * FW;

	return (struct fft_tile){
		.view = v, .ne = ne, .nl = lines - from < FW ? lines - from : FW,
		.p = (FT *)base + from * to + other * (a->across_outer ? v->inner : v->outer),
		.along_e = 1, .to_e = v->stride, .to_l = to,
	};
}

static void lanes(const struct rlx_k_fft *a, size_t unit, cv *buf)
{
	const int64_t n = a->n;
	const bool half = a->in.kind == RLX_K_FFT_HALF;
	struct fft_tile in = tile_of_lines(a, &a->in, a->x, unit, a->split == 2 ? n + 1 :
					   half ? n / 2 + 1 : n);
	struct fft_tile out = tile_of_lines(a, &a->out, a->y, unit, n);
	const bool back = a->inverse;
	cv *x = buf;

#if RLX_VB > 16
	if (short_lanes(a, &in, &out))
		return;
#endif
	load_tile(&in, x, back && a->split != 2);
	if (half && a->core[0].chirp_n)
		double_half(x, n);
	else if (half)
		mirror(x, n);
	if (a->split == 2)
		from_half(x, table(a->split_w), a->half);
	x = run_core(&a->core[0], x, buf + n + 1, NULL);
	end_tile(x, &out, &(struct fft_end){ NULL, 0, (FT)a->scale, false, back });
	if (a->split == 1) {
		to_half(x, table(a->split_w), a->half);
		out.ne = n + 1;
	}
	store_tile(&out, x);
}

/*
 * Have the cache fetch what the vector of columns behind those of @t lies in, but for what these
 * lie in as well: rows are too far apart for the processor to see what comes. GCC drops calls of
 * what does no more than this.
 */
RLX_INLINE void fetch_next(const struct fft_tile *t)
{
	const int64_t line = 64 / (int64_t)sizeof(FT), left = t->view->n - t->first - FW;
	const FT *last = t->p + 2 * FW * t->to_l - 1;

	for (int64_t e = 0; e < t->ne && e * t->along_e < left; e++, last += t->to_e)
		for (int64_t l = 0; l < FW * t->to_l; l += line)
			__builtin_prefetch(last - l, 0, 2);
}

/* Whether the tile is whole vectors of complex numbers, of which none is beyond its line's end. */
RLX_INLINE bool whole(const struct fft_tile *t)
{
	return t->nl == FW && t->to_l == 2 && t->view->part == 1 &&
	       t->first + (t->ne - 1) * t->along_e + (FW - 1) * t->along_l < t->view->n;
}

/* A square of which not all rows, or columns, are there. */
static void twiddle_some(const cv *x, int64_t n, const FT *lane, const FT *w, cv *z, int64_t nl)
{
	FV re[FW], im[FW];

	for (int64_t i = 0; i < FW; i++) {
		cv c = { { 0 }, { 0 } };

		if (i < n)
			c = cv_times(cv_mul(x[i], F_LOADU(lane + 2 * i * FW),
					    F_LOADU(lane + (2 * i + 1) * FW)), w + 2 * i);
		re[i] = c.re;
		im[i] = c.im;
	}
	transpose_square(re);
	transpose_square(im);
	for (int64_t l = 0; l < nl; l++)
		z[l] = (cv){ re[l], im[l] };
}

/* Columns in @x by twiddle factors, of which @w are of this block, to blocks of rows in @z. */
static void twiddle_columns(const struct rlx_k_fft *a, const struct fft_tile *t, const cv *x,
			    const FT *w, cv *z)
{
	const int64_t n1 = rlx_k_fft_length(&a->core[0]), n2 = rlx_k_fft_length(&a->core[1]);
	const int64_t blocks = rlx_k_fft_blocks(n1, FW);
	const FT *lane = table(a->lane_w);

	z += t->first;
	for (int64_t i = 0; i < blocks; i++, z += n2) {
		const int64_t k = rlx_k_fft_first(a, n1, i, FW);
		cv v[FW];

		if (!IN_REGISTERS || t->nl < FW || k + FW > n1) {
			twiddle_some(x + k, n1 - k, lane + k * 2 * FW, w + 2 * k, z, t->nl);
			continue;
		}
		RLX_UNROLL
		for (int l = 0; l < FW; l++)
			v[l] = x[k + l];
		twiddle_block(v, lane + k * 2 * FW, w + 2 * k, z);
	}
}

/* A vector of columns: their transforms, turned, to @z in blocks of rows. */
static void columns(const struct rlx_k_fft *a, struct fft_tile t, bool swap, cv *z, cv *buf)
{
	const struct rlx_k_fft_core *core = &a->core[0];
	const int64_t n1 = rlx_k_fft_length(core), n2 = rlx_k_fft_length(&a->core[1]);
	const int64_t block = t.first / FW;
	const FT *w = table(a->block_w) + block * n1 * 2;
	struct fft_lines lines = { .swap = swap };
	cv *x = buf;

	t.first = rlx_k_fft_first(a, n2, block, FW);
	t.ne = n1;
	t.nl = n2 - t.first < FW ? n2 - t.first : FW;
	t.along_e = n2;
	t.along_l = 1;
	t.to_e = n2 * t.view->stride;
	t.to_l = t.view->stride;
	t.p += t.first * t.view->stride;
	if (!a->chirp_n && !core->chirp_n && of_lines(core->factor[0]) && whole(&t)) {
		lines.from = t.p;
		lines.from_e = t.to_e;
		if (rlx_k_fft_square(a, FW)) {
			squares(a, &lines, block, 1, z + t.first);
			return;
		}
	} else if (a->chirp_n) {
		load_chirped(a, &t, x);
	} else {
		load_tile(&t, x, swap);
	}
	if (t.view->stride <= 2)
		fetch_next(&t);
	x = run_core(core, x, x + n1, &lines);
	twiddle_columns(a, &t, x, w, z);
}

/* A vector of rows, of block @block: z is overwritten. */
static void rows(const struct rlx_k_fft *a, struct fft_tile t, int64_t block, cv *z, cv *buf)
{
	const struct rlx_k_fft_core *core = &a->core[1];
	const int64_t n1 = rlx_k_fft_length(&a->core[0]), n2 = rlx_k_fft_length(core);
	struct fft_lines lines = { .swap = a->inverse };
	cv *x;

	t.first = rlx_k_fft_first(a, n1, block, FW);
	t.ne = n2;
	t.nl = n1 - t.first < FW ? n1 - t.first : FW;
	t.along_e = n1;
	t.along_l = 1;
	t.to_e = n1 * t.view->stride;
	t.to_l = t.view->stride;
	t.p += t.first * t.view->stride;
	if (!core->chirp_n && core->n_factor &&
	    of_lines(core->factor[core->n_factor - 1]) && whole(&t)) {
		lines.to = t.p;
		lines.to_e = t.to_e;
	}
	x = run_core(core, z + block * n2, buf, &lines);
	if (lines.to)
		return;
	end_tile(x, &t, &(struct fft_end){ .scale = 1, .swap = a->inverse });
	store_tile(&t, x);
}

/* Elements [i, i + n) of a line, 0 beyond its end, as re and im. */
static void read_some(const FT *p, const struct rlx_k_fft_view *v, int64_t i, int64_t n, FT *re,
		      FT *im)
{
	for (int64_t k = 0; k < n; k += FW) {
		int64_t left = v->n - i - k < n - k ? v->n - i - k : n - k;
		struct fft_tile t = { .view = v, .p = (FT *)p + (i + k) * v->stride, .ne = 1,
				      .nl = left < FW ? left : FW, .first = i + k, .along_l = 1,
				      .to_l = v->stride };
		cv c = { { 0 }, { 0 } };

		if (left > 0)
			load_tile(&t, &c, false);
		F_STOREN(re + k, c.re, FW);
		F_STOREN(im + k, c.im, FW);
	}
}

/* What element k becomes, of it and its mirror in the spectrum of pairs, or in half of one. */
RLX_INLINE cv split_one(cv p, cv q, FV re, FV im, bool back)
{
	cv e, t;

	p = cv_half(p);
	q = cv_half((cv){ q.re, -q.im });
	e = cv_add(p, q);
	/* back: -i (p - q) by the conjugate, negated */
	t = cv_mul(cv_mul_i(cv_sub(p, q)), re, back ? -im : im);
	return back ? cv_sub(e, t) : cv_add(e, t);
}

/* From where to where a step between half a spectrum and the one of pairs goes. */
struct fft_split {
	const FT			*x;
	FT				*y;
	const struct rlx_k_fft_view	*in, *out;
};

/* Elements [k, end), at most RLX_K_FFT_CHUNK, wherever they are. */
static void split_some(const struct rlx_k_fft *a, const struct fft_split *s, int64_t k, int64_t end)
{
	const FT *w = table(a->split_w) + k, *wi = w + a->half + 1, *x = s->x;
	const struct rlx_k_fft_view *in = s->in, *out = s->out;
	const bool back = a->split == 2;
	const int64_t n = end - k, half = a->half;
	FT ar[RLX_K_FFT_CHUNK], ai[RLX_K_FFT_CHUNK];
	/* from half - k down: a vector before them is read */
	FT br[RLX_K_FFT_CHUNK + FW] = { 0 }, bi[RLX_K_FFT_CHUNK + FW] = { 0 };

	read_some(x, in, k, n, ar, ai);
	read_some(x, in, half - end + 1, n, br + FW, bi + FW);
	if (back && !k)		/* of the mean and of the middle */
		ai[0] = bi[FW + n - 1] = 0;
	if (!back && !k) {	/* element half is element 0 */
		br[FW + n - 1] = x[0];
		bi[FW + n - 1] = x[in->part];
	}
	if (!back && end > half) {
		ar[n - 1] = x[0];
		ai[n - 1] = x[in->part];
	}
	for (int64_t i = 0; i < n; i += FW) {
		FV qr = F_LOADU(br + n - i), qi = F_LOADU(bi + n - i);
		cv p = { F_LOADU(ar + i), F_LOADU(ai + i) };
		cv q = { __builtin_shufflevector(qr, qr, F_BACK),
			 __builtin_shufflevector(qi, qi, F_BACK) };
		struct fft_tile to = { .view = out, .p = s->y + (k + i) * out->stride, .ne = 1,
				       .nl = n - i < FW ? n - i : FW, .first = k + i,
				       .along_l = 1, .to_l = out->stride };

		p = split_one(p, q, F_LOADU(w + i), F_LOADU(wi + i), back);
		store_tile(&to, &p);
	}
}

static bool side_by_side_there(const struct rlx_k_fft_view *v, int64_t n)
{
	return v->stride == 2 && v->part == 1 && v->n >= n;
}

/* Elements half - FW + 1 to half: of pairs, element half is element 0. */
static void split_ends(const FT *x, int64_t half, bool back, FT ends[2 * FW])
{
	memcpy(ends, x + 2 * (half - FW + 1), (2 * FW - 2) * sizeof(FT));
	ends[2 * FW - 2] = x[back ? 2 * half : 0];
	ends[2 * FW - 1] = back ? 0 : x[1];
}

/*
 * Elements [k, end) of lines that lie side by side, a vector at a time. The last one begins before
 * @k where it would end beyond the line's end.
 */
static void split_vectors(const struct rlx_k_fft *a, const struct fft_split *s, int64_t k,
			  int64_t end)
{
	const int64_t half = a->half, last = half + (a->split == 1) - FW;
	const FT *w = table(a->split_w), *wi = w + half + 1, *x = s->x;
	const bool back = a->split == 2;
	FT ends[2 * FW];

	split_ends(x, half, back, ends);
	for (; k < end; k += FW) {
		const int64_t at = k < last ? k : last;
		const FT *q = at ? x + 2 * (half - at - FW + 1) : ends;
		cv p = cv_load(at + FW > half ? ends : x + 2 * at, false), c;

		if (back && !at)
			p.im[0] = 0;
		c = split_one(p, cv_load_back(q), F_LOADU(w + at), F_LOADU(wi + at), back);
		if (k + FW <= end) {
			cv_store(s->y + 2 * at, c, false);
		} else {
			FT y[2 * FW];

			cv_store(y, c, false);
			memcpy(s->y + 2 * k, y + 2 * (k - at), (size_t)(end - k) * 2 * sizeof(FT));
		}
	}
}

/*
 * All elements of such lines, of 2 FW or more: those of a vector and their mirrors at once. Vectors
 * that meet in the middle have the same elements.
 */
static void split_mirrored(const struct rlx_k_fft *a, const struct fft_split *s)
{
	const int64_t half = a->half;
	const FT *w = table(a->split_w), *wi = w + half + 1, *x = s->x;
	const bool back = a->split == 2;
	FT ends[2 * FW];

	split_ends(s->x, half, back, ends);
	for (int64_t k = 0; 2 * k <= half; k += FW) {
		const int64_t mirror = 2 * (half - k - FW + 1);
		cv p = cv_load(x + 2 * k, false), q, e, t, c, d;

		if (back && !k)
			p.im[0] = 0;
		q = cv_load_back(k ? x + mirror : ends);
		p = cv_half(p);
		q = cv_half((cv){ q.re, -q.im });
		/* as split_one(); of the mirror the conjugate sum, and difference negated */
		e = cv_add(p, q);
		t = cv_mul(cv_mul_i(cv_sub(p, q)), F_LOADU(w + k),
			   back ? -F_LOADU(wi + k) : F_LOADU(wi + k));
		c = cv_add(e, t);
		d = cv_sub(e, t);
		cv_store(s->y + 2 * k, back ? d : c, false);
		d = back ? c : d;
		d = (cv){ __builtin_shufflevector(d.re, d.re, F_BACK),
			  -__builtin_shufflevector(d.im, d.im, F_BACK) };
		cv_store(k || !back ? s->y + mirror : ends, d, false);
		if (back && !k)		/* element half is none */
			memcpy(s->y + mirror, ends, (2 * FW - 2) * sizeof(FT));
	}
}

/* Elements [k, end) of a spectrum's half from the one of pairs, or back. */
static void split(const struct rlx_k_fft *a, const struct fft_split *s, int64_t k, int64_t end)
{
	const int64_t half = a->half;

	if (half >= FW && side_by_side_there(s->in, half + (a->split == 2)) &&
	    side_by_side_there(s->out, half + (a->split == 1))) {
		if (!k && end >= half && half >= 2 * FW && a->n < RLX_K_FFT_SHARED)
			split_mirrored(a, s);
		else
			split_vectors(a, s, k, end);
		return;
	}
	for (; k < end; k += RLX_K_FFT_CHUNK)
		split_some(a, s, k, k + RLX_K_FFT_CHUNK < end ? k + RLX_K_FFT_CHUNK : end);
}

/* The view of complex numbers that lie side by side. */
static struct rlx_k_fft_view dense(int64_t n)
{
	return (struct rlx_k_fft_view){ .n = n, .stride = 2, .part = 1, .outer = 2 * n,
					.inner = 2 * n };
}

/* All of a spectrum of which x has half; for Bluestein as double_half(). */
static void unfold(const struct rlx_k_fft *a, const FT *x, FT *y, int64_t n)
{
	const struct rlx_k_fft_view *v = &a->in;

	for (int64_t k = 0; 2 * k <= n; k++) {
		bool real = !k || 2 * k == n;

		y[2 * k] = k < v->n ? x[k * v->stride] : 0;
		y[2 * k + 1] = k < v->n && !real ? x[k * v->stride + v->part] : 0;
		if (real)
			continue;
		y[2 * (n - k)] = a->chirp_n ? 0 : y[2 * k];
		y[2 * (n - k) + 1] = a->chirp_n ? 0 : -y[2 * k + 1];
		y[2 * k] *= 1 + !!a->chirp_n;
		y[2 * k + 1] *= 1 + !!a->chirp_n;
	}
}

/*
 * @own, what rows will write, is fetched on the way: they write few of its numbers at a time, far
 * from those before.
 */
static void all_columns(const struct rlx_k_fft *a, const struct fft_tile *t, struct fft_next own,
			cv *z, cv *buf)
{
	const int64_t n2 = rlx_k_fft_length(&a->core[1]);

	for (int64_t i = 0; i < n2; i += FW) {
		struct fft_tile one = *t;

		one.first = i;
		fetch_line(own, i / FW, rlx_k_fft_blocks(n2, FW));
		columns(a, one, a->inverse, z, buf);
	}
}

/* @next is fetched on the way, so much of it with each vector of rows. */
static void all_rows(const struct rlx_k_fft *a, const struct fft_tile *t, struct fft_next next,
		     cv *z, cv *buf)
{
	const int64_t blocks = rlx_k_fft_blocks(rlx_k_fft_length(&a->core[0]), FW);

	for (int64_t i = 0; i < blocks; i++) {
		fetch_line(next, i, blocks);
		rows(a, *t, i, z, buf);
	}
}

#if RLX_VB > 16
/* The rows of squares @z, to a line. */
static void square_rows(const struct rlx_k_fft_core *rows, cv *z, FT *line, bool swap)
{
	const struct fft_lines to = { .to = line, .to_e = 2 * FW, .swap = swap };

	if (of_lines(rows->factor[rows->n_factor - 1])) {
		transform(rows, z, z + rows->n, &to);
		return;
	}
	z = transform(rows, z, z + rows->n, NULL);
	for (int64_t i = 0; i < rows->n; i++)
		cv_store(line + i * 2 * FW, z[i], swap);
}

/* By rlx_k_fft_by_squares(). */
static void square_lines(const struct rlx_k_fft *a, size_t begin, size_t end, cv *z)
{
	const int64_t n2 = a->core[1].n, half = a->half, last = n2 % FW;
	const struct rlx_k_fft_view pairs = dense(half);
	struct fft_lines lines = { .from_e = 2 * n2, .swap = a->inverse };
	FT *tmp = (FT *)(z + 3 * n2);

	for (; begin < end; begin++) {
		const FT *x = line_at(a->x, a, &a->in, (int64_t)begin);
		FT *y = (FT *)line_at(a->y, a, &a->out, (int64_t)begin);

		if (a->split == 2)
			split(a, &(struct fft_split){ x, tmp, &a->in, &pairs }, 0, half);
		lines.from = a->split == 2 ? tmp : x;
		squares(a, &lines, 0, n2 / FW, z);
		lines.from += 2 * (n2 - FW);
		if (last)	/* some columns again */
			squares(a, &lines, n2 / FW, 1, z + n2 - FW);
		square_rows(&a->core[1], z, a->split == 1 ? tmp : y, a->inverse);
		if (a->split == 1)
			split(a, &(struct fft_split){ tmp, y, &pairs, &a->out }, 0, half + 1);
	}
}
#endif

static void line(const struct rlx_k_fft *a, size_t unit, cv *z)
{
	const int64_t n = a->chirp_n ? a->chirp_n : a->n, half = a->half;
	const int64_t c0 = rlx_k_fft_vectors(&a->core[0]), c1 = rlx_k_fft_vectors(&a->core[1]);
	cv *buf = z + rlx_k_fft_z(a, FW) / FW;
	FT *tmp = (FT *)(buf + (c0 > c1 ? c0 : c1));
	const struct rlx_k_fft_view pairs = dense(n);
	struct fft_tile in = { .view = &a->in,
			       .p = (FT *)line_at(a->x, a, &a->in, (int64_t)unit) };
	struct fft_tile out = { .view = &a->out,
				.p = (FT *)line_at(a->y, a, &a->out, (int64_t)unit) };
	struct fft_tile ends = { .view = &pairs, .p = tmp };
	const struct fft_next next = next_line(a, unit);
	struct fft_next own = line_of(&a->out, out.p);

	if (a->split == 2)
		split(a, &(struct fft_split){ in.p, tmp, &a->in, &pairs }, 0, half);
	if (a->in.kind == RLX_K_FFT_HALF)
		unfold(a, in.p, tmp, n);
	if (a->outer * a->inner <= FEW_LINES || a->chirp_n || a->split == 1)
		own.bytes = 0;
	all_columns(a, a->split == 2 || a->in.kind == RLX_K_FFT_HALF ? &ends : &in, own, z, buf);
	if (a->chirp_n)
		convolved(a, a->split == 1 ? ends : out, next, z, buf);
	else
		all_rows(a, a->split == 1 ? &ends : &out, next, z, buf);
	if (a->split == 1)
		split(a, &(struct fft_split){ tmp, out.p, &pairs, &a->out }, 0, half + 1);
}

/* A step of lines that threads share: a vector of columns or rows, or a piece of a split. */
static void step(const struct rlx_k_fft *a, size_t unit, cv *buf)
{
	const int64_t piece = rlx_k_fft_pieces(a, FW);
	const int64_t at = (int64_t)unit / piece, part = (int64_t)unit % piece;
	cv *z = (cv *)a->z + at * rlx_k_fft_z(a, FW) / FW;
	struct fft_tile in = { .view = &a->in, .p = (FT *)line_at(a->x, a, &a->in, at) };
	struct fft_tile out = { .view = &a->out, .p = (FT *)line_at(a->y, a, &a->out, at) };
	const int64_t k = part * RLX_K_FFT_CHUNK, left = a->half + (a->split == 1) - k;

	in.first = out.first = part * FW;
	if (a->mode == RLX_K_FFT_COLUMNS)
		columns(a, in, a->inverse, z, buf);
	else if (a->mode == RLX_K_FFT_THROUGH)
		convolve(a, part, z, buf);
	else if (a->mode == RLX_K_FFT_BACK)
		columns_back(a, out, z, buf);
	else if (a->mode == RLX_K_FFT_ROWS)
		rows(a, out, part, z, buf);
	else if (left > 0)
		split(a, &(struct fft_split){ in.p, out.p, &a->in, &a->out }, k,
		      k + (left < RLX_K_FFT_CHUNK ? left : RLX_K_FFT_CHUNK));
}

static void units(const struct rlx_k_fft *a, size_t begin, size_t end, void *scratch)
{
#if RLX_VB > 16
	if (rlx_k_fft_by_squares(a, FW)) {
		square_lines(a, begin, end, scratch);
		return;
	}
	if (a->mode == RLX_K_FFT_LINE && rlx_k_fft_shares(a, FW)) {
		short_lines(a, begin, end);
		return;
	}
#endif
	for (; begin < end; begin++)
		if (a->mode == RLX_K_FFT_LANES)
			lanes(a, begin, scratch);
		else if (a->mode == RLX_K_FFT_LINE)
			line(a, begin, scratch);
		else
			step(a, begin, scratch);
}

#endif
