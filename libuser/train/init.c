// SPDX-License-Identifier: MIT
/* First values of states: constants, or Philox by seed, name and place. */
#include <math.h>
#include <string.h>

#include "ops/philox.h"
#include "train/vars.h"

/* FNV-1a, 64 bits: of the name, so that a variable keeps its values when others come and go. */
static uint64_t name_hash(const char *s)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	return h;
}

/* Element @i: a block of four words has two numbers of 53 bits. */
static double draw(const struct rlx_fill *f, uint64_t seed, uint64_t stream, uint64_t i)
{
	uint32_t w[4];
	double u, v;

	if (f->kind == RLX_FILL_CONSTANT)
		return f->a;
	rlx_philox(seed, stream, i, w);
	u = rlx_philox_unit53(w[0], w[1]);
	if (f->kind == RLX_FILL_UNIFORM)
		return f->a + (f->b - f->a) * u;
	v = rlx_philox_unit53(w[2], w[3]);	/* Box and Muller; 1 - u is not 0 */
	return f->a * sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

static enum rlx_status fill(const struct var *e, const struct rlx_type *t, void *to, uint64_t seed,
			    struct rlx_error *err)
{
	uint64_t stream = name_hash(e->name), n = (uint64_t)rlx_type_count(t), i;

	if (e->fill.kind < RLX_FILL_CONSTANT || e->fill.kind > RLX_FILL_UNIFORM)
		return rlx_fail(err, RLX_EINVAL, "state '%s': fill %d is not one of enum "
				"rlx_fill_kind", e->name, e->fill.kind);
	for (i = 0; i < n; i++) {
		double x = draw(&e->fill, seed, stream, i);

		switch (t->dtype) {
		case RLX_F64: case RLX_F32: case RLX_F16: case RLX_BF16:
			float_store(t->dtype, to, (int64_t)i, x);
			break;
		case RLX_I64: ((int64_t *)to)[i] = (int64_t)x; break;
		case RLX_I32: ((int32_t *)to)[i] = (int32_t)x; break;
		default:
			return rlx_fail(err, RLX_ETYPE, "state '%s' is %s: f64, f32, f16, bf16, "
					"i64 and i32 are filled; write to rlx_states_buf()", e->name,
					rlx_dtype_name(t->dtype));
		}
	}
	return RLX_OK;
}

/* State @to begins as @from, whose dtype may be another. */
static void begin_as(struct rlx_states *s, unsigned int to, unsigned int from)
{
	const struct rlx_type *t = rlx_states_type(s, to), *f = rlx_states_type(s, from);
	const void *at = rlx_buf_ptr(rlx_states_buf(s, from));
	int64_t n = rlx_type_count(t), i;

	for (i = 0; i < n; i++)
		float_store(t->dtype, rlx_buf_ptr(rlx_states_buf(s, to)), i,
			    float_load(f->dtype, at, i));
}

enum rlx_status rlx_states_init(struct rlx_states *s, const struct rlx_vars *v, uint64_t seed,
				struct rlx_error *err)
{
	unsigned int i, n = rlx_states_count(s), pass;
	enum rlx_status st = RLX_OK;
	const struct var *e;
	int from;

	if (!s || !v)
		return rlx_fail(err, RLX_EINVAL, "init: no states, or no variables");
	for (i = 0; i < n; i++)
		if (!vars_find(v, rlx_states_name(s, i)))
			return rlx_fail(err, RLX_ENOENT, "init: state '%s' is no variable of this "
					"set", rlx_states_name(s, i));
	/* those that begin as others do when these have begun */
	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < n && !st; i++) {
			struct rlx_buf b = rlx_states_buf(s, i);

			e = vars_find(v, rlx_states_name(s, i));
			from = e->like ? rlx_states_find(s, e->like) : -1;
			if (!pass && !e->like)
				st = fill(e, rlx_states_type(s, i), rlx_buf_ptr(b), seed, err);
			else if (pass && from >= 0)
				begin_as(s, i, (unsigned int)from);
		}
	return st;
}
