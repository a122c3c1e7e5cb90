/* SPDX-License-Identifier: MIT */
/*
 * How packed weights are stored: the schemes of dequant_matmul, and of those that are blocks
 * (GGUF's formats) what the bytes of a block mean. For programs and for kernels, those of GPUs
 * too, so nothing else is included.
 *
 * A block has 32, 64 or 256 elements of a row, whose codes are small integers; sixteen of them,
 * a group, share a scale and an addend: element = scale x value(code) + addend. The product is
 * exact in f32, so that it does not matter whether it is rounded before the sum.
 */
#ifndef RLX_SCHEME_H
#define RLX_SCHEME_H

enum rlx_scheme {
	/* codes [k, n], with scales [blocks of k, n] beside them */
	RLX_SCHEME_INT8_BLOCK, RLX_SCHEME_INT8_BLOCK_ASYM,
	RLX_SCHEME_INT4_BLOCK, RLX_SCHEME_UINT4_BLOCK,
	RLX_SCHEME_F8E4M3, RLX_SCHEME_F8E5M2,
	/* rows of blocks, [n, k], as GGUF has them; NVFP4 in its form of 64 elements */
	RLX_SCHEME_Q4_0, RLX_SCHEME_Q4_1, RLX_SCHEME_Q5_0, RLX_SCHEME_Q5_1, RLX_SCHEME_Q8_0,
	RLX_SCHEME_Q2_K, RLX_SCHEME_Q3_K, RLX_SCHEME_Q4_K, RLX_SCHEME_Q5_K, RLX_SCHEME_Q6_K,
	RLX_SCHEME_Q8_K, RLX_SCHEME_IQ4_NL, RLX_SCHEME_IQ4_XS, RLX_SCHEME_MXFP4,
	RLX_SCHEME_NVFP4,
	RLX_SCHEME_COUNT,
};

enum { RLX_BLOCK_GROUP = 16, RLX_BLOCK_MOST = 256 };

#ifndef RLX_BLOCK_FN
#define RLX_BLOCK_FN	static inline
#endif

/* Elements of a block, a multiple of 32; 0: the scheme has none. */
RLX_BLOCK_FN int rlx_block_elements(int scheme)
{
	if (scheme < RLX_SCHEME_Q4_0 || scheme >= RLX_SCHEME_COUNT)
		return 0;
	if (scheme == RLX_SCHEME_NVFP4)
		return 64;
	return (scheme >= RLX_SCHEME_Q2_K && scheme <= RLX_SCHEME_Q8_K) ||
	       scheme == RLX_SCHEME_IQ4_XS ? 256 : 32;
}

RLX_BLOCK_FN int rlx_block_bytes(int scheme)
{
	switch (scheme) {
	case RLX_SCHEME_Q4_0: return 18;
	case RLX_SCHEME_Q4_1: return 20;
	case RLX_SCHEME_Q5_0: return 22;
	case RLX_SCHEME_Q5_1: return 24;
	case RLX_SCHEME_Q8_0: return 34;
	case RLX_SCHEME_Q2_K: return 84;
	case RLX_SCHEME_Q3_K: return 110;
	case RLX_SCHEME_Q4_K: return 144;
	case RLX_SCHEME_Q5_K: return 176;
	case RLX_SCHEME_Q6_K: return 210;
	case RLX_SCHEME_Q8_K: return 292;
	case RLX_SCHEME_IQ4_NL: return 18;
	case RLX_SCHEME_IQ4_XS: return 136;
	case RLX_SCHEME_MXFP4: return 17;
	case RLX_SCHEME_NVFP4: return 36;
	}
	return 0;
}

RLX_BLOCK_FN float rlx_block_from_bits(unsigned int bits)
{
	union { unsigned int u; float f; } v;

	v.u = bits;
	return v.f;
}

/* The f16 at @p. A kernel may have its own. */
#ifndef RLX_BLOCK_F16
#define RLX_BLOCK_F16	rlx_block_f16
RLX_BLOCK_FN float rlx_block_f16(const unsigned char *p)
{
	unsigned int h = p[0] | (unsigned int)p[1] << 8, m = h & 0x7fff;
	float sign = h & 0x8000 ? -1.0f : 1.0f;

	if (m < 0x400)	/* times 2^-24 */
		return sign * (float)(int)m * 5.9604644775390625e-8f;
	return sign * rlx_block_from_bits((m << 13) + (m < 0x7c00 ? 0x38000000u : 0x70000000u));
}
#endif

/* @n bytes have the low halves of the first @n codes, and the high ones of the next. */
RLX_BLOCK_FN unsigned int rlx_block_nibble(const unsigned char *p, int n, int i)
{
	return p[i / (2 * n) * n + i % n] >> (i / n % 2 * 4) & 15u;
}

/* Two bits of each of 32 bytes are for 32 codes. */
RLX_BLOCK_FN unsigned int rlx_block_two_bits(const unsigned char *p, int i)
{
	return p[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3u;
}

/* The code of element @i of the block at @p. */
RLX_BLOCK_FN unsigned int rlx_block_code(int scheme, const unsigned char *p, int i)
{
	switch (scheme) {
	case RLX_SCHEME_Q4_0:
	case RLX_SCHEME_IQ4_NL:
		return rlx_block_nibble(p + 2, 16, i);
	case RLX_SCHEME_Q4_1:
		return rlx_block_nibble(p + 4, 16, i);
	case RLX_SCHEME_Q5_0:
		return rlx_block_nibble(p + 6, 16, i) | (p[2 + i / 8] >> i % 8 & 1u) << 4;
	case RLX_SCHEME_Q5_1:
		return rlx_block_nibble(p + 8, 16, i) | (p[4 + i / 8] >> i % 8 & 1u) << 4;
	case RLX_SCHEME_Q8_0:
		return p[2 + i];
	case RLX_SCHEME_Q2_K:
		return rlx_block_two_bits(p + 16, i);
	case RLX_SCHEME_Q3_K:
		return rlx_block_two_bits(p + 32, i) | (p[i % 32] >> i / 32 & 1u) << 2;
	case RLX_SCHEME_Q4_K:
		return rlx_block_nibble(p + 16, 32, i);
	case RLX_SCHEME_Q5_K:
		return rlx_block_nibble(p + 48, 32, i) | (p[16 + i % 32] >> i / 32 & 1u) << 4;
	case RLX_SCHEME_Q6_K:
		return rlx_block_nibble(p, 64, i) | rlx_block_two_bits(p + 128, i) << 4;
	case RLX_SCHEME_Q8_K:
		return p[4 + i];
	case RLX_SCHEME_IQ4_XS:
		return rlx_block_nibble(p + 8, 16, i);
	case RLX_SCHEME_MXFP4:
		return rlx_block_nibble(p + 1, 16, i);
	case RLX_SCHEME_NVFP4:
		return rlx_block_nibble(p + 4, 8, i);
	}
	return 0;
}

/* What is taken from a code where that is all: of floats of 4 bits and IQ4 there are tables. */
RLX_BLOCK_FN int rlx_block_zero(int scheme)
{
	return scheme == RLX_SCHEME_Q4_0 ? 8 : scheme == RLX_SCHEME_Q5_0 ? 16 :
	       scheme == RLX_SCHEME_Q3_K ? 4 : scheme == RLX_SCHEME_Q6_K ? 32 : 0;
}

/* Twice a float of 4 bits, e2m1: 0 1 2 3 4 6 8 12, and with a sign. */
RLX_BLOCK_FN int rlx_block_e2m1(unsigned int code)
{
	int v = (int)(0xc8643210u >> (code & 7) * 4 & 15u);

	return code & 8 ? -v : v;
}

RLX_BLOCK_FN int rlx_block_iq4(unsigned int code)
{
	const unsigned long long low = 0xf6eaddcfbfad9881ull, high = 0x7159453526190d01ull;
	unsigned int byte = (unsigned int)((code & 8 ? high : low) >> (code & 7) * 8) & 255u;

	return (int)byte - (byte & 128u ? 256 : 0);
}

RLX_BLOCK_FN int rlx_block_value(int scheme, unsigned int code)
{
	switch (scheme) {
	case RLX_SCHEME_Q8_0:
	case RLX_SCHEME_Q8_K:
		return (int)code - (code & 128u ? 256 : 0);
	case RLX_SCHEME_IQ4_NL:
	case RLX_SCHEME_IQ4_XS:
		return rlx_block_iq4(code);
	case RLX_SCHEME_MXFP4:
	case RLX_SCHEME_NVFP4:
		return rlx_block_e2m1(code);
	}
	return (int)code - rlx_block_zero(scheme);
}

/* Half of 2^(e - 127). */
RLX_BLOCK_FN float rlx_block_e8m0(unsigned int e)
{
	return rlx_block_from_bits(e < 2 ? 0x200000u << e : (e - 1) << 23);
}

/* Half of an e4m3 whose sign is nothing; the largest of all is 0. */
RLX_BLOCK_FN float rlx_block_ue4m3(unsigned int b)
{
	unsigned int e = b >> 3 & 15u, m = b & 7u;

	if (b == 127)
		return 0;
	return e ? rlx_block_from_bits((e + 119) << 23 | m << 20) :
		   (float)(int)m * 0.0009765625f;
}

/* The 6 bits of scale @j of Q3_K, of 12 bytes. */
RLX_BLOCK_FN int rlx_block_scale_q3(const unsigned char *p, int j)
{
	unsigned int low = p[j % 8] >> j / 8 * 4 & 15u, high = p[8 + j % 4] >> j / 4 * 2 & 3u;

	return (int)(low | high << 4) - 32;
}

/* Scale and addend of Q4_K and Q5_K, 6 bits each, for 32 elements. */
RLX_BLOCK_FN void rlx_block_scale_q4(const unsigned char *p, int j, float *scale, float *addend)
{
	const unsigned char *q = p + 4;
	unsigned int s, m;

	if (j < 4) {
		s = q[j] & 63u;
		m = q[j + 4] & 63u;
	} else {
		s = (q[j + 4] & 15u) | (unsigned int)q[j - 4] >> 6 << 4;
		m = (unsigned int)q[j + 4] >> 4 | (unsigned int)q[j] >> 6 << 4;
	}
	*scale = RLX_BLOCK_F16(p) * (float)(int)s;
	*addend = -(RLX_BLOCK_F16(p + 2) * (float)(int)m);
}

RLX_BLOCK_FN int rlx_block_scale_iq4(const unsigned char *p, int j)
{
	unsigned int low = p[4 + j / 2] >> j % 2 * 4 & 15u;
	unsigned int high = (p[2] | (unsigned int)p[3] << 8) >> 2 * j & 3u;

	return (int)(low | high << 4) - 32;
}

/* What group @g of the block at @p shares; an addend of -0 changes nothing. */
RLX_BLOCK_FN void rlx_block_scale(int scheme, const unsigned char *p, int g, float *scale,
				  float *addend)
{
	*addend = -0.0f;
	switch (scheme) {
	case RLX_SCHEME_Q4_1:
	case RLX_SCHEME_Q5_1:
		*addend = RLX_BLOCK_F16(p + 2);
		*scale = RLX_BLOCK_F16(p);
		break;
	case RLX_SCHEME_Q2_K:
		*scale = RLX_BLOCK_F16(p + 80) * (float)(p[g] & 15);
		*addend = -(RLX_BLOCK_F16(p + 82) * (float)(p[g] >> 4));
		break;
	case RLX_SCHEME_Q3_K:
		*scale = RLX_BLOCK_F16(p + 108) * (float)rlx_block_scale_q3(p + 96, g);
		break;
	case RLX_SCHEME_Q4_K:
	case RLX_SCHEME_Q5_K:
		rlx_block_scale_q4(p, g / 2, scale, addend);
		break;
	case RLX_SCHEME_Q6_K:
		*scale = RLX_BLOCK_F16(p + 208) *
			 (float)rlx_block_value(RLX_SCHEME_Q8_0, p[192 + g]);
		break;
	case RLX_SCHEME_Q8_K:
		*scale = rlx_block_from_bits(p[0] | (unsigned int)p[1] << 8 |
					     (unsigned int)p[2] << 16 | (unsigned int)p[3] << 24);
		break;
	case RLX_SCHEME_IQ4_XS:
		*scale = RLX_BLOCK_F16(p) * (float)rlx_block_scale_iq4(p, g / 2);
		break;
	case RLX_SCHEME_MXFP4:
		*scale = rlx_block_e8m0(p[0]);
		break;
	case RLX_SCHEME_NVFP4:
		*scale = rlx_block_ue4m3(p[g]);
		break;
	default:	/* Q4_0 Q5_0 Q8_0 IQ4_NL */
		*scale = RLX_BLOCK_F16(p);
	}
}

/* Element @i of the block at @p. */
RLX_BLOCK_FN float rlx_block_at(int scheme, const unsigned char *p, int i)
{
	float scale, addend;

	rlx_block_scale(scheme, p, i / RLX_BLOCK_GROUP, &scale, &addend);
	return scale * (float)rlx_block_value(scheme, rlx_block_code(scheme, p, i)) + addend;
}

#endif
