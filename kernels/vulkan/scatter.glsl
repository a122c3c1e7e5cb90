// SPDX-License-Identifier: MIT
/* What an update does to what is there: enum rlx_k_scatter. */
const uint NONE = 0, ADD = 1, MUL = 2, MAX = 3, MIN = 4;

layout(constant_id = 1) const uint TYPE = 2;
layout(constant_id = 2) const uint SIZE = 4;
layout(constant_id = 3) const uint OP = 0;
layout(constant_id = 4) const uint IDX_TYPE = 7;

/* Element @at of @to by element @from of @upd */
void update(const in uint64_t to, const in uint64_t at, const in uint64_t upd,
	    const in uint64_t from)
{
	if (OP == NONE) {
		move(SIZE, to + at * SIZE, upd + from * SIZE);
	} else if (TYPE == F32) {
		const float x = f32_p(to + at * 4).v, y = f32_p(upd + from * 4).v;

		f32_p(to + at * 4).v = OP == ADD ? x + y : OP == MUL ? x * y :
				       OP == MAX ? max_nan(x, y) : min_nan(x, y);
	} else {
		const int64_t x = load_int(TYPE, to, at), y = load_int(TYPE, upd, from);
		const bool less = int_less(TYPE, x, y);

		store_int(TYPE, to, at, OP == ADD ? x + y : OP == MUL ? x * y :
			  less == (OP == MAX) ? y : x);
	}
}
