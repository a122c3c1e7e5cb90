// SPDX-License-Identifier: MIT
/*
 * What all Vulkan kernels begin with: addresses instead of descriptors, element types, and
 * how a launch's groups share its work.
 *
 * A launch pushes the address of its argument struct (args.glsl, made from the structs of
 * kernels/). Specialization constant 0 is the size of a group, the others are the
 * kernel's parameters. Kernels take any number of groups and stride over what there is to do.
 */
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_control_flow_attributes : enable

layout(local_size_x_id = 0) in;
layout(push_constant, scalar) uniform push_t { uint64_t args; } push;

layout(buffer_reference, scalar, buffer_reference_align = 1) buffer u8_p { uint8_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer u16_p { uint16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer u32_p { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer u64_p { uint64_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer f32_p { float v; };
/* Four at a time */
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer u16x4_p { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer u32x4_p { uvec4 v; };

/* enum rlx_dtype */
const uint F64 = 1, F32 = 2, F16 = 3, BF16 = 4, F8E4M3 = 5, F8E5M2 = 6, I64 = 7, I32 = 8,
	   I16 = 9, I8 = 10, U64 = 11, U32 = 12, U16 = 13, U8 = 14, BOOL = 15;

#define GROUP		uint64_t(gl_WorkGroupID.x)
#define GROUPS		uint64_t(gl_NumWorkGroups.x)
#define THREAD		gl_LocalInvocationID.x
#define THREADS		gl_WorkGroupSize.x
/* This thread among all, and all */
#define LANE		(GROUP * THREADS + THREAD)
#define LANES		(GROUPS * THREADS)

#define INFINITY	uintBitsToFloat(0x7f800000u)
#define NAN		uintBitsToFloat(0x7fc00000u)

/* ---- floats of 16 and 8 bits, by bits: what drivers round and flush differs ---- */

/* The driver was told to convert f16 to nearest even, and to keep what is no normal number. */
layout(constant_id = 17) const bool HAS_F16 = false;

float f16_to_f32(const in uint h)
{
	const uint sign = (h & 0x8000u) << 16, m = (h & 0x7fffu) << 13;
	/* with a bit of 2^-14 in front, which is taken away again: units of 2^-24 */
	precise float less = uintBitsToFloat(m + (113u << 23)) - 6.103515625e-5;
	const uint small = floatBitsToUint(less);

	if (HAS_F16)
		return unpackHalf2x16(h).x;
	return uintBitsToFloat(sign | (m < 1u << 23 ? small :
				       m + (m >= 31u << 23 ? 224u << 23 : 112u << 23)));
}

/* To a float of so few bits, to nearest even; @m: of the fraction, @low: least normal exponent */
uint f32_to_units(const in float x, const in int m, const in int low)
{
	const uint u = floatBitsToUint(x) & 0x7fffffffu;
	const int e = int(u >> 23) - 127;

	if (e < low - m - 1)
		return 0;

	const int shift = 23 - m + (e < low ? low - e : 0);
	const uint whole = (u & 0x7fffffu) | 0x800000u, rest = whole & ((1u << shift) - 1);
	const uint cut = whole >> shift, tie = 1u << (shift - 1);
	const uint r = rest > tie || (rest == tie && (cut & 1) != 0) ? cut + 1 : cut;

	/* the hidden bit is worth one step of the exponent */
	return e < low ? r : r + (uint(e - low) << m);
}

/* Without branches: what follows a GEMM has eight of these in a row */
uint f32_to_f16(const in float x)
{
	const uint u = floatBitsToUint(x), sign = u >> 16 & 0x8000u, m = u & 0x7fffffffu;
	/* beside 1/2 a float has units of 2^-24 */
	precise float half_more = uintBitsToFloat(m) + 0.5;
	const uint small = floatBitsToUint(half_more) - 0x3f000000u;
	const uint r = m < 0x38800000u ? small : (m - 0x38000000u + 0xfffu + (m >> 13 & 1)) >> 13;

	if (HAS_F16)
		return packHalf2x16(vec2(x, 0.0));
	return sign | (m > 0x7f800000u ? 0x7e00u : min(r, 0x7c00u));
}

vec2 f16x2_to_f32(const in uint w)
{
	if (HAS_F16)
		return unpackHalf2x16(w);
	return vec2(f16_to_f32(w & 0xffffu), f16_to_f32(w >> 16));
}

uint f32_to_f16x2(const in vec2 x)
{
	if (HAS_F16)
		return packHalf2x16(x);
	return f32_to_f16(x.x) | f32_to_f16(x.y) << 16;
}

uint f32_to_bf16(const in float x)
{
	const uint u = floatBitsToUint(x);

	if ((u & 0x7fffffffu) > 0x7f800000u)
		return u >> 16 | 0x40u;
	return (u + 0x7fffu + (u >> 16 & 1)) >> 16;
}

float e4m3_to_f32(const in uint x)
{
	const uint m = x & 0x7fu, sign = (x & 0x80u) << 24;

	if (m == 0x7fu)
		return uintBitsToFloat(sign | 0x7fc00000u);
	if (m < 8)		/* units of 2^-9 */
		return uintBitsToFloat(sign | floatBitsToUint(float(m) * 0.001953125));
	return uintBitsToFloat(sign | ((m << 20) + (120u << 23)));
}

/* Beyond the largest value, infinities included: that value. */
uint f32_to_f8(const in float x, const in int m, const in int low, const in uint top,
	       const in uint nan, const in uint beyond)
{
	const uint u = floatBitsToUint(x), sign = u >> 24 & 0x80u;

	if ((u & 0x7fffffffu) > 0x7f800000u)
		return sign | nan;
	return sign | ((u & 0x7fffffffu) >= beyond ? top : min(f32_to_units(x, m, low), top));
}

uint f32_to_e4m3(const in float x) { return f32_to_f8(x, 3, -6, 0x7eu, 0x7fu, 0x44000000u); }
uint f32_to_e5m2(const in float x) { return f32_to_f8(x, 2, -14, 0x7bu, 0x7fu, 0x47800000u); }

/* ---- elements ---- */

/* f32, f16 or bf16: @type is a parameter of the kernel, so nothing is left of the choice */
float load_real(const in uint type, const in uint64_t p, const in uint64_t i)
{
	if (type == F32)
		return f32_p(p + i * 4).v;
	if (type == BF16)
		return uintBitsToFloat(uint(u16_p(p + i * 2).v) << 16);
	return f16_to_f32(uint(u16_p(p + i * 2).v));
}

void store_real(const in uint type, const in uint64_t p, const in uint64_t i, const in float x)
{
	if (type == F32)
		f32_p(p + i * 4).v = x;
	else
		u16_p(p + i * 2).v = uint16_t(type == BF16 ? f32_to_bf16(x) : f32_to_f16(x));
}

/* Four in a row from one whose address such a load or store takes: 16 bytes, or 8 */
vec4 load_real4(const in uint type, const in uint64_t p, const in uint64_t i)
{
	if (type == F32)
		return uintBitsToFloat(u32x4_p(p + i * 4).v);

	const uvec2 w = u16x4_p(p + i * 2).v;

	if (type == BF16)
		return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16,
					     w.y & 0xffff0000u));
	return vec4(f16x2_to_f32(w.x), f16x2_to_f32(w.y));
}

void store_real4(const in uint type, const in uint64_t p, const in uint64_t i, const in vec4 x)
{
	if (type == F32)
		u32x4_p(p + i * 4).v = floatBitsToUint(x);
	else if (type == BF16)
		u16x4_p(p + i * 2).v = uvec2(f32_to_bf16(x.x) | f32_to_bf16(x.y) << 16,
					     f32_to_bf16(x.z) | f32_to_bf16(x.w) << 16);
	else
		u16x4_p(p + i * 2).v = uvec2(f32_to_f16x2(x.xy), f32_to_f16x2(x.zw));
}

/*
 * To 64 bits by words: of a number that was converted, Mesa 22.3 has comparisons with a
 * constant wrong.
 */
int64_t widen(const in int x) { return int64_t(packUint2x32(uvec2(uint(x), uint(x >> 31)))); }
int64_t widen(const in uint x) { return int64_t(packUint2x32(uvec2(x, 0u))); }

/* An index: i64, i32 or u32 */
int64_t load_index(const in uint type, const in uint64_t p, const in uint64_t i)
{
	if (type == I64)
		return int64_t(u64_p(p + i * 8).v);
	if (type == I32)
		return widen(int(u32_p(p + i * 4).v));
	return widen(u32_p(p + i * 4).v);
}

/* An element that is only moved, of 1, 2, 4 or 8 bytes; of 16: two moves */
void move(const in uint size, const in uint64_t to, const in uint64_t from)
{
	if (size == 1)
		u8_p(to).v = u8_p(from).v;
	else if (size == 2)
		u16_p(to).v = u16_p(from).v;
	else if (size == 4)
		u32_p(to).v = u32_p(from).v;
	else
		u64_p(to).v = u64_p(from).v;
	if (size == 16)
		u64_p(to + 8).v = u64_p(from + 8).v;
}

void set_zero(const in uint size, const in uint64_t to)
{
	if (size == 1)
		u8_p(to).v = uint8_t(0);
	else if (size == 2)
		u16_p(to).v = uint16_t(0);
	else if (size == 4)
		u32_p(to).v = 0;
	else
		u64_p(to).v = 0;
	if (size == 16)
		u64_p(to + 8).v = 0;
}

/* A double that is a float's value, without arithmetic on doubles */
float f64_bits_to_f32(const in uint64_t u)
{
	const uint hi = uint(u >> 32), e = hi >> 20 & 0x7ffu, sign = hi & 0x80000000u;

	if (e <= 896)		/* none of the numbers asked for */
		return uintBitsToFloat(sign);
	if (e >= 1151)
		return uintBitsToFloat(sign | 0x7f800000u |
				       (e == 2047 && (u & 0xfffffffffffffUL) != 0 ? 0x400000u : 0u));
	return uintBitsToFloat(sign | (e - 896) << 23 | (hi & 0xfffffu) << 3 |
			       uint(u >> 29) & 7u);
}

/* The largest and the least, NaN wins: the built-in ones lose it */
float max_nan(const in float a, const in float b) { return a > b || a != a ? a : b; }
float min_nan(const in float a, const in float b) { return a < b || a != a ? a : b; }
