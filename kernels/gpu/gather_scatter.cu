// SPDX-License-Identifier: MIT
/*
 * Gathers and scatters: indices below 0 count from the end; those out of range set *bad, and are
 * told, never followed (gathers give zeros there, scatters leave out the update).
 *
 * Gathers: a thread a word, the widest of 16, 4, 2 or 1 bytes that rows and addresses allow
 * (gather_elements: an element). Traffic: each word read and written once, its index from caches
 * for all but the first of a row.
 *
 * Scatters give the same bits each time, also where updates meet, so they use no atomics on
 * results. scatter_elements: a thread takes all updates of a line along the axis, in order. Where
 * the last update wins and lines are long and few, a thread an update: a table in scratch, 4 bytes
 * for each place of the lines, learns by atomic maximum which is the last one, which then writes
 * (three launches). scatter_nd: a thread takes one element of every piece, all updates in order.
 * Of many updates (SCATTER_PLACES) blocks share out the places (RLX_K_SCATTER_TEAM): each reads
 * all indices, lists updates of its places in their order, and has the sum of one place in
 * registers until another's turn comes. So the longest chain is as long as the updates that meet
 * at one place, or in the places of one block, which lie apart. Traffic: indices once for each
 * block, mostly from the L2.
 * Limits: all types.
 */
#include "kernels/gpu/move.h"

#if defined(RLX_KERNEL_gather) || defined(RLX_KERNEL_gather_nd)
/* By words of W, the widest that pieces and addresses allow. */
template <class W> static DEV inline void gather_by(const struct rlx_k_gather &a,
						    const struct rlx_g_env &env)
{
	const W *table = RLX_G_PTR(const W, a.table);
	const void *idx = RLX_G_PTR(const void, a.idx);
	W *out = RLX_G_PTR(W, a.out);
	int32_t *bad = RLX_G_PTR(int32_t, a.bad);
	int64_t inner = a.inner / (int64_t)sizeof(W);
	int64_t n = live_rows(env, a.outer * a.n_idx) * inner, live = live_checked(env, a.live);

	for (int64_t i = line_first(); i < n; i += line_step()) {
		int64_t k, j, o = divide(divide(i, inner, &k), a.n_idx, &j);
		int64_t at = load_index(idx, j, a.idx_type);

		if (index_in(&at, a.rows, j < live ? bad : (int32_t *)0))
			out[i] = table[(o * a.rows + at) * inner + k];
		else
			out[i] = W{};
	}
}

template <class W> static DEV inline void gather_nd_by(const struct rlx_k_gather_nd &a,
						       const struct rlx_g_env &env)
{
	const W *data = RLX_G_PTR(const W, a.data);
	const void *idx = RLX_G_PTR(const void, a.idx);
	W *out = RLX_G_PTR(W, a.out);
	int32_t *bad = RLX_G_PTR(int32_t, a.bad);
	int64_t inner = a.inner / (int64_t)sizeof(W), live = live_checked(env, a.live);
	int64_t n = live_rows(env, a.batch * a.n) * inner;

	for (int64_t i = line_first(); i < n; i += line_step()) {
		int64_t k, j, piece = divide(i, inner, &k), at = divide(piece, a.n, &j);
		bool in = true;

		for (int d = 0; d < a.k; d++) {
			int64_t t = load_index(idx, piece * a.k + d, a.idx_type);

			in = index_in(&t, a.dim[d], piece < live ? bad : (int32_t *)0) && in;
			at = at * a.dim[d] + t;
		}
		if (in)
			out[i] = data[at * inner + k];
		else
			out[i] = W{};
	}
}

#define BY_WIDTH(fn, from, to)						\
	do {								\
		uint64_t low = (uint64_t)RLX_G_PTR(const void, from) |	\
			       (uint64_t)RLX_G_PTR(const void, to) |	\
			       (uint64_t)a.inner;			\
									\
		if (low % 16 == 0)					\
			fn<struct word16>(a, env);			\
		else if (low % 4 == 0)					\
			fn<uint32_t>(a, env);				\
		else if (low % 2 == 0)					\
			fn<uint16_t>(a, env);				\
		else							\
			fn<uint8_t>(a, env);				\
	} while (0)

RLX_G_KERNEL(gather, struct rlx_k_gather, 256)
{
	BY_WIDTH(gather_by, a.table, a.out);
}

RLX_G_KERNEL(gather_nd, struct rlx_k_gather_nd, 256)
{
	BY_WIDTH(gather_nd_by, a.data, a.out);
}

#elif defined(RLX_KERNEL_gather_elements)
typedef word<GATHER_SIZE>::type elem;

RLX_G_KERNEL(gather_elements, struct rlx_k_gather_elements, 256)
{
	const elem *data = RLX_G_PTR(const elem, a.data);
	const void *idx = RLX_G_PTR(const void, a.idx);
	elem *out = RLX_G_PTR(elem, a.out);
	int32_t *bad = RLX_G_PTR(int32_t, a.bad);
	int64_t n = live_rows(env, a.dim[0]), live = live_checked(env, a.live);

	for (int d = 1; d < a.rank; d++)
		n *= a.dim[d];
	for (int64_t i = line_first(); i < n; i += line_step()) {
		int64_t at = i, from = 0, k = load_index(idx, i, a.idx_type);
		bool in = index_in(&k, a.axis_dim, i < live ? bad : (int32_t *)0);

		for (int d = a.rank - 1; d >= 0; d--) {
			int64_t j;

			at = divide(at, a.dim[d], &j);
			from += (d == a.axis ? k : j) * a.data_stride[d];
		}
		if (in)
			out[i] = data[from];
		else
			out[i] = elem{};
	}
}
#else
typedef rlx_t<SCATTER_TYPE> type;	/* of the elements */

static DEV inline void put(type::mem *p, type::mem with, int op)
{
	type::acc x = type::get(*p), y = type::get(with);

	switch (op) {
	case RLX_K_SCATTER_ADD:
		*p = type::put(x + y);
		break;
	case RLX_K_SCATTER_MUL:
		*p = type::put(x * y);
		break;
	case RLX_K_SCATTER_MAX:
		*p = type::put(x > y || x != x ? x : y);
		break;
	case RLX_K_SCATTER_MIN:
		*p = type::put(x < y || x != x ? x : y);
		break;
	default:
		*p = with;
	}
}

#ifdef RLX_KERNEL_scatter_elements
/* How the lines of updates along the axis lie: only updates of one line can collide. */
struct lines {
	int64_t	n, along, inner;
};

static DEV inline struct lines lines_of(const struct rlx_k_scatter_elements &a)
{
	struct lines l = { 1, a.dim[a.axis], 1 };

	for (int d = 0; d < a.rank; d++) {
		l.n *= d == a.axis ? 1 : a.dim[d];
		l.inner *= d > a.axis ? a.dim[d] : 1;
	}
	return l;
}

/* Where in the result line @i begins. */
static DEV inline int64_t line_to(const struct rlx_k_scatter_elements &a, int64_t i)
{
	int64_t to = 0, j;

	for (int d = a.rank - 1; d >= 0; d--) {
		if (d == a.axis)
			continue;
		i = divide(i, a.dim[d], &j);
		to += j * a.out_stride[d];
	}
	return to;
}

/*
 * A thread takes all of one line, in order. SCATTER_LAST: it takes one update, and the
 * last one for a place wins: a table of the places of all lines is cleared, then learns
 * which that is, then says who writes.
 */
RLX_G_KERNEL(scatter_elements, struct rlx_k_scatter_elements, 256)
{
	const struct lines l = lines_of(a);
	const type::mem *upd = RLX_G_PTR(const type::mem, a.upd);
	const void *idx = RLX_G_PTR(const void, a.idx);
	type::mem *out = RLX_G_PTR(type::mem, a.out);
	int32_t *bad = RLX_G_PTR(int32_t, a.bad);
	int64_t live = live_checked(env, a.live);
#if SCATTER_LAST
	uint32_t *last = (uint32_t *)env.scratch;

	if (env.pass == 0) {
		for (int64_t i = line_first(); i < l.n * a.axis_dim; i += line_step())
			last[i] = 0;
		return;
	}
	for (int64_t i = line_first(); i < l.n * l.along; i += line_step()) {
		int64_t low, j, o = divide(divide(i, l.inner, &low), l.along, &j);
		int64_t line = o * l.inner + low, k = load_index(idx, i, a.idx_type);
		uint32_t *at;

		if (i >= live || !index_in(&k, a.axis_dim, bad))
			continue;
		at = &last[line * a.axis_dim + k];
		if (env.pass == 1)
			atomic_max(at, (uint32_t)j + 1);
		else if (*at == (uint32_t)j + 1)
			out[line_to(a, line) + k * a.out_stride[a.axis]] = upd[i];
	}
#else

	for (int64_t i = line_first(); i < l.n; i += line_step()) {
		int64_t to = line_to(a, i), low;
		int64_t first = divide(i, l.inner, &low) * l.along * l.inner + low;

		for (int64_t j = 0; j < l.along; j++) {
			int64_t from = first + j * l.inner;
			int64_t k = load_index(idx, from, a.idx_type);

			if (from < live && index_in(&k, a.axis_dim, bad))
				put(&out[to + k * a.out_stride[a.axis]], upd[from], a.op);
		}
	}
#endif
}

#else
/* The piece of the result that tuple @i stands for; -1: none. */
static DEV inline int64_t place_of(const struct rlx_k_scatter_nd &a, const void *idx, int32_t *bad,
				   int64_t i)
{
	int64_t at = 0;
	bool in = true;

	for (int d = 0; d < a.k; d++) {
		int64_t t = load_index(idx, i * a.k + d, a.idx_type);

		in = index_in(&t, a.dim[d], bad) && in;
		at = at * a.dim[d] + t;
	}
	return in ? at : -1;
}

#if SCATTER_PLACES
/* THREADS look at PER tuples each at a time; DEPTH updates are under way. */
enum { THREADS = 256, PER = 4, DEPTH = 8, WARPS = THREADS / WARP };

/* Updates of a block's places, in their order. */
struct listed {
	uint64_t	mine[PER * WARPS];	/* a bit a lane */
	int64_t		tuple[PER * THREADS], place[PER * THREADS];
};

/* Of tuples from @base on those whose place is @team's; how many. */
static DEV inline int list_tuples(struct listed *l, const int64_t (&at)[PER], int64_t base,
				  int64_t team, int64_t teams)
{
	int lane = lane_id(), warp = warp_id(), n = 0;

#pragma unroll
	for (int c = 0; c < PER; c++) {
		uint64_t bits = warp_ballot(at[c] >= 0 && RLX_K_SCATTER_TEAM(at[c], teams) == team);

		if (lane == 0)
			l->mine[c * WARPS + warp] = bits;
	}
	__syncthreads();
	for (int w = 0; w < PER * WARPS; w++) {
		uint64_t bits = l->mine[w];
		int c = w / WARPS;

		if (w % WARPS == warp && bits >> lane & 1) {
			int to = n + count_bits(bits & (((uint64_t)1 << lane) - 1));

			l->tuple[to] = base + c * THREADS + (int)threadIdx.x;
#pragma unroll
			for (int e = 0; e < PER; e++)
				if (e == c)
					l->place[to] = at[e];
		}
		n += count_bits(bits);
	}
	__syncthreads();
	return n;
}

/* One element of a piece, of the place whose turn it is. */
struct running {
	type::mem	*out;		/* that element of place 0 */
	int64_t		inner, place;	/* -1: none */
	type::mem	sum;
};

static DEV inline void add_listed(const struct rlx_k_scatter_nd &a, struct running *r,
				  const struct listed &l, int n, const type::mem *upd)
{
	for (int m = 0; m < n; m += DEPTH) {
		type::mem v[DEPTH];

#pragma unroll
		for (int d = 0; d < DEPTH; d++)
			v[d] = upd[l.tuple[m + d < n ? m + d : m] * a.inner];
#pragma unroll
		for (int d = 0; d < DEPTH; d++) {
			if (m + d >= n)
				continue;
			if (l.place[m + d] != r->place) {
				if (r->place >= 0)
					r->out[r->place * r->inner] = r->sum;
				r->place = l.place[m + d];
				r->sum = r->out[r->place * r->inner];
			}
			put(&r->sum, v[d], a.op);
		}
	}
}

RLX_G_KERNEL(scatter_nd, struct rlx_k_scatter_nd, 256)
{
	SHARED(struct listed, l, [1]);
	const type::mem *upd = RLX_G_PTR(const type::mem, a.upd);
	const void *idx = RLX_G_PTR(const void, a.idx);
	int32_t *bad = RLX_G_PTR(int32_t, a.bad);
	int64_t live = live_checked(env, a.live), chunks = (a.inner + THREADS - 1) / THREADS;
	int64_t teams = gridDim.x / chunks, team = blockIdx.x / chunks;
	int64_t e = blockIdx.x % chunks * THREADS + threadIdx.x;
	struct running r = { RLX_G_PTR(type::mem, a.out) + e, a.inner, -1, {} };

	for (int64_t base = 0; base < live; base += PER * THREADS) {
		int64_t at[PER];
		int n;

#pragma unroll
		for (int c = 0; c < PER; c++) {
			int64_t i = base + c * THREADS + threadIdx.x;

			at[c] = i < live ? place_of(a, idx, bad, i) : -1;
		}
		n = list_tuples(l, at, base, team, teams);
		if (e < a.inner)
			add_listed(a, &r, *l, n, upd + e);
		__syncthreads();
	}
	if (r.place >= 0)
		r.out[r.place * r.inner] = r.sum;
}
#else
/* A thread takes one element of every piece, in order: the same bits each time. */
RLX_G_KERNEL(scatter_nd, struct rlx_k_scatter_nd, 256)
{
	const type::mem *upd = RLX_G_PTR(const type::mem, a.upd);
	const void *idx = RLX_G_PTR(const void, a.idx);
	type::mem *out = RLX_G_PTR(type::mem, a.out);
	int32_t *bad = RLX_G_PTR(int32_t, a.bad);
	int64_t live = live_checked(env, a.live);

	for (int64_t e = line_first(); e < a.inner; e += line_step())
		for (int64_t i = 0; i < live; i++) {
			int64_t at = place_of(a, idx, bad, i);

			if (at >= 0)
				put(&out[at * a.inner + e], upd[i * a.inner + e], a.op);
		}
}
#endif
#endif
#endif
