// SPDX-License-Identifier: MIT
/*
 * Pointwise code that is read where it runs, for hosts that have no compiler (prebuilt kernels):
 * an interpreter of what pointwise.c else writes as a kernel.
 *
 * Algorithm: a thread an element: loads, then each op of the list in turn by a switch, then
 * stores; all threads of a warp take the same branches, as the list is the same for all.
 * Values are 64 bits in an array of the thread, which, as it is indexed, lies in local memory: an
 * op costs loads and stores there and two or more switches, tens of instructions instead of one.
 * Traffic: inputs and outputs once, as in compiled code (fusion stays); local memory in caches.
 * Limits: 96 ops, 64 values, 24 constants, 14 inputs, 4 outputs; more need a compiler. All types;
 * ops and casts are the functions of pointwise.h that compiled steps call too.
 */
#include "kernels/gpu/dialect.h"
#include "kernels/gpu/pointwise_interp.h"

static DEV inline uint64_t bits_of(F x) { return f32_bits(x.v); }
static DEV inline uint64_t bits_of(int64_t x) { return (uint64_t)x; }
static DEV inline uint64_t bits_of(uint64_t x) { return x; }

static DEV inline uint64_t bits_of(double x)
{
	uint64_t u;

	memcpy(&u, &x, 8);
	return u;
}

static DEV inline double double_of(uint64_t u)
{
	double x;

	memcpy(&x, &u, 8);
	return x;
}

#define EACH_TYPE(X)							\
	X(RLX_F64) X(RLX_F32) X(RLX_F16) X(RLX_BF16) X(RLX_F8E4M3) \
	X(RLX_F8E5M2) X(RLX_I64) X(RLX_I32) X(RLX_I16) X(RLX_I8) \
	X(RLX_U64) X(RLX_U32) X(RLX_U16) X(RLX_U8) X(RLX_BOOL)

/* What a value of a dtype is in the kernel. */
enum { CLASS_FLOAT, CLASS_DOUBLE, CLASS_INT, CLASS_UINT };

static DEV inline int class_of(int type)
{
	switch (type) {
	case RLX_F64: return CLASS_DOUBLE;
	case RLX_F32: case RLX_F16: case RLX_BF16: case RLX_F8E4M3: case RLX_F8E5M2:
		return CLASS_FLOAT;
	case RLX_U64: return CLASS_UINT;
	default: return CLASS_INT;
	}
}

template <class X> static DEV inline uint64_t cast_to(X x, int to)
{
	switch (to) {
#define X(T) case T: return bits_of(ew_cast_to<T>::of(x));
	EACH_TYPE(X)
#undef X
	}
	return 0;
}

static DEV_OUTLINE uint64_t cast(uint64_t v, int from, int to)
{
	switch (class_of(from)) {
	case CLASS_FLOAT: return cast_to(F(bits_f32((uint32_t)v)), to);
	case CLASS_DOUBLE: return cast_to(double_of(v), to);
	case CLASS_UINT: return cast_to(v, to);
	default: return cast_to((int64_t)v, to);
	}
}

template <class T> static DEV inline uint64_t real_op(int op, T a, T b, T c)
{
	switch (op) {
#define EW1(n, ...) case RLX_G_ANY_##n: return bits_of(ewf_##n<T>(a));
#define EW2(n, ...) case RLX_G_ANY_##n: return bits_of(ewf_##n<T>(a, b));
#define EW3(n, ...) case RLX_G_ANY_##n: return bits_of(ewf_##n<T>(a, b, c));
#include "ops/elementwise.def"
#undef EW1
#undef EW2
#undef EW3
	}
	return 0;
}

static DEV inline uint64_t int_op(int op, int64_t a, int64_t b, int64_t c)
{
	switch (op) {
#define EW(n) case RLX_G_ANY_##n: return bits_of(ewi_##n(a, b, c));
#define EW1(n, ...) EW(n)
#define EW2(n, ...) EW(n)
#define EW3(n, ...) EW(n)
#include "ops/elementwise.def"
#undef EW
	}
	return 0;
}

static DEV inline uint64_t uint_op(int op, uint64_t a, uint64_t b, uint64_t c)
{
	switch (op) {
#define EW(n) case RLX_G_ANY_##n: return bits_of(ewu_##n(a, b, c));
#include "ops/elementwise.def"
#undef EW
#undef EW1
#undef EW2
#undef EW3
	}
	return 0;
}

static DEV inline uint64_t one_op(const struct rlx_g_any_op &o, const uint64_t *v)
{
	uint64_t x[3] = {};

	if (o.op == RLX_G_ANY_CAST)
		return cast(v[o.in[0]], o.type[0], o.to);
	for (int k = 0; k < o.n; k++)
		x[k] = cast(v[o.in[k]], o.type[k], o.of);
	switch (class_of(o.of)) {
	case CLASS_FLOAT:
		x[0] = real_op(o.op, F(bits_f32((uint32_t)x[0])), F(bits_f32((uint32_t)x[1])),
			       F(bits_f32((uint32_t)x[2])));
		break;
	case CLASS_DOUBLE:
		x[0] = real_op(o.op, double_of(x[0]), double_of(x[1]), double_of(x[2]));
		break;
	case CLASS_UINT:
		x[0] = uint_op(o.op, x[0], x[1], x[2]);
		break;
	default:
		x[0] = int_op(o.op, (int64_t)x[0], (int64_t)x[1], (int64_t)x[2]);
	}
	return cast(x[0], o.of, o.to);
}

static DEV inline uint64_t load(const void *p, int64_t i, int type)
{
	switch (type) {
#define X(T) case T: return bits_of(ew_load<T>(p, i));
	EACH_TYPE(X)
#undef X
	}
	return 0;
}

template <class X> static DEV inline X value_of(uint64_t v);
template <> DEV inline F value_of<F>(uint64_t v) { return F(bits_f32((uint32_t)v)); }
template <> DEV inline double value_of<double>(uint64_t v) { return double_of(v); }
template <> DEV inline int64_t value_of<int64_t>(uint64_t v) { return (int64_t)v; }
template <> DEV inline uint64_t value_of<uint64_t>(uint64_t v) { return v; }

static DEV inline void store(void *p, int64_t i, int type, uint64_t v)
{
	switch (type) {
#define X(T) case T: ew_store<T>(p, i, value_of<typename ew_value<T>::type>(v)); break;
	EACH_TYPE(X)
#undef X
	}
}

/* The element that input @k has for the result's @i. */
static DEV inline int64_t place(const struct rlx_g_ew &a, int k, int64_t i)
{
	int64_t at = 0;

	for (int d = a.rank; d-- > 0; i /= a.dim[d])
		at += (d ? i % a.dim[d] : i) * a.stride[k][d];
	return at;
}

RLX_G_KERNEL(pointwise_interp, struct rlx_g_any, 256)
{
	const int64_t n = live_rows(env, a.ew.n), step = (int64_t)gridDim.x * 256;
	uint64_t v[RLX_G_ANY_VALUES];

	for (int k = 0; k < a.n_const; k++)
		v[a.const_value[k]] = a.bits[k];
	for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i < n; i += step) {
		for (int k = 0; k < a.n_in; k++)
			v[a.in_value[k]] = load(RLX_G_PTR(const void, a.ew.in[k]),
						place(a.ew, k, i), a.in_type[k]);
		for (int k = 0; k < a.n_op; k++)
			v[a.op[k].out] = one_op(a.op[k], v);
		for (int k = 0; k < a.n_out; k++)
			store(RLX_G_PTR(void, a.ew.out[k]), i, a.out_type[k],
			      v[a.out_value[k]]);
	}
}
