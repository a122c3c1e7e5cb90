// SPDX-License-Identifier: MIT
/* Elements of .gguf as floats: those that stand alone, and blocks that share a scale. */
#include <string.h>

#include "base/half.h"
#include "io/formats/gguf.h"

static float f16_at(const uint8_t *p)
{
	return (float)rlx_minifloat_to(RLX_MF_F16, p[0] | (uint32_t)p[1] << 8);
}

static void read_one(uint32_t format, const uint8_t *p, float *to)
{
	double d;

	switch (format) {
	case RLX_GGUF_AS_F32:
		memcpy(to, p, sizeof(*to));
		break;
	case RLX_GGUF_AS_F64:
		memcpy(&d, p, sizeof(d));
		*to = (float)d;
		break;
	case RLX_GGUF_AS_F16:
		*to = f16_at(p);
		break;
	case RLX_GGUF_AS_BF16:
		*to = rlx_bf16_to_f32((uint16_t)(p[0] | p[1] << 8));
		break;
	}
}

int rlx_gguf_scheme(uint32_t format)
{
	static const uint8_t of[] = {
		[2] = RLX_SCHEME_Q4_0, RLX_SCHEME_Q4_1, [6] = RLX_SCHEME_Q5_0, RLX_SCHEME_Q5_1,
		RLX_SCHEME_Q8_0, [10] = RLX_SCHEME_Q2_K, RLX_SCHEME_Q3_K, RLX_SCHEME_Q4_K,
		RLX_SCHEME_Q5_K, RLX_SCHEME_Q6_K, RLX_SCHEME_Q8_K, [20] = RLX_SCHEME_IQ4_NL,
		[23] = RLX_SCHEME_IQ4_XS, [39] = RLX_SCHEME_MXFP4, RLX_SCHEME_NVFP4,
	};

	return format < sizeof(of) && of[format] ? of[format] : -1;
}

enum rlx_status rlx_gguf_read(const struct rlx_gguf_tensor *t, float *to, struct rlx_error *err)
{
	const struct gguf_format *how = t ? gguf_format_of(t->format) : NULL;
	const uint8_t *p;
	int scheme, i;
	uint64_t at;

	if (!how || !to)
		return rlx_fail(err, RLX_EINVAL, "gguf: a tensor of a file, and where its elements "
				"go, are needed");
	scheme = rlx_gguf_scheme(how->number);
	if (how->number != RLX_GGUF_AS_F32 && how->number != RLX_GGUF_AS_F16 &&
	    how->number != RLX_GGUF_AS_BF16 && how->number != RLX_GGUF_AS_F64 && scheme < 0)
		return rlx_fail(err, RLX_ENOSUP, "gguf: tensor \"%.80s\" is stored as %s; F32, "
				"F16, BF16, F64, Q4_0 to Q8_K, IQ4, MXFP4 and NVFP4 are read",
				t->name, how->name);
	p = t->data;
	for (at = 0; at < t->bytes; at += how->bytes, to += how->block)
		if (scheme < 0)
			read_one(how->number, p + at, to);
		else
			for (i = 0; i < how->block; i++)
				to[i] = rlx_block_at(scheme, p + at, i);
	return RLX_OK;
}
