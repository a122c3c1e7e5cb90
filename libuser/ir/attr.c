// SPDX-License-Identifier: MIT
/* Attributes that were not given: what marks them, and what they then are. */
#include <float.h>
#include <string.h>

#include "ir/graph.h"

/* Zero of its kind: no pointer, no elements. */
static bool is_zero(const struct rlx_field *f, const void *p)
{
	static const unsigned char none[8];

	switch (f->kind) {
	case RLX_K_i32:
	case RLX_K_f32:
	case RLX_K_dtype:
		return !memcmp(p, none, 4);
	case RLX_K_i64:
	case RLX_K_f64:
		return !memcmp(p, none, 8);
	case RLX_K_bool:
		return !*(const bool *)p;
	case RLX_K_ints:
	case RLX_K_floats:
		return !((const struct rlx_ints *)p)->n;
	case RLX_K_type:
		return !((const struct rlx_type *)p)->dtype;
	default:
		return !*(void *const *)p;
	}
}

/* Numbers have a mark of their own; of the other kinds zero is no value to give. */
static bool is_unset(const struct rlx_field *f, const void *p)
{
	switch (f->kind) {
	case RLX_K_i32: return *(const int32_t *)p == RLX_UNSET_i32;
	case RLX_K_i64: return *(const int64_t *)p == RLX_UNSET_i64;
	case RLX_K_f32: return *(const float *)p == RLX_UNSET_f32;
	case RLX_K_f64: return *(const double *)p == RLX_UNSET_f64;
	default: return is_zero(f, p);
	}
}

static bool is_number(const struct rlx_field *f)
{
	return f->kind == RLX_K_i32 || f->kind == RLX_K_i64 || f->kind == RLX_K_f32 ||
	       f->kind == RLX_K_f64;
}

static void set(const struct rlx_field *f, void *p, double v)
{
	switch (f->kind) {
	case RLX_K_i32: *(int32_t *)p = (int32_t)v; break;
	case RLX_K_i64: *(int64_t *)p = (int64_t)v; break;
	case RLX_K_f32: *(float *)p = (float)v; break;
	case RLX_K_f64: *(double *)p = v; break;
	}
}

static void unset(const struct rlx_field *f, void *p)
{
	switch (f->kind) {
	case RLX_K_i32: *(int32_t *)p = RLX_UNSET_i32; break;
	case RLX_K_i64: *(int64_t *)p = RLX_UNSET_i64; break;
	case RLX_K_f32: *(float *)p = RLX_UNSET_f32; break;
	case RLX_K_f64: *(double *)p = RLX_UNSET_f64; break;
	}
}

void rlx_args_init(const struct rlx_op_def *def, void *args)
{
	uint32_t i;

	for (i = 0; i < def->n_field; i++)
		if (def->field[i].role == RLX_FIELD_ATTR &&
		    def->field[i].absent >= RLX_ABSENT_DEF)
			unset(&def->field[i], rlx_field_ptr(&def->field[i], args));
}

enum rlx_status rlx_args_resolve(const struct rlx_op_def *def, void *args,
				 struct rlx_error *err)
{
	uint32_t i;

	for (i = 0; i < def->n_field; i++) {
		const struct rlx_field *f = &def->field[i];
		void *p = rlx_field_ptr(f, args);

		if (f->role != RLX_FIELD_ATTR || f->absent == RLX_ABSENT_ZERO)
			continue;
		if (f->absent == RLX_ABSENT_NZ ? !is_zero(f, p) : !is_unset(f, p))
			continue;
		if (f->absent == RLX_ABSENT_REQ)
			return rlx_fail(err, RLX_EINVAL,
					"%s: attribute '%s' is missing; write %s = %s",
					def->name, f->name, f->name, f->hint);
		set(f, p, (double)f->def);
	}
	return RLX_OK;
}

bool rlx_attr_is_default(const struct rlx_field *f, const void *value)
{
	double was = 0;

	switch (f->absent) {
	case RLX_ABSENT_ZERO:
		return is_zero(f, value);
	case RLX_ABSENT_REQ:
		return !is_number(f) && is_zero(f, value);
	default:
		set(f, &was, (double)f->def);
		return !memcmp(&was, value, f->kind == RLX_K_i32 || f->kind == RLX_K_f32 ? 4 : 8);
	}
}
