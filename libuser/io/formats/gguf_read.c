// SPDX-License-Identifier: MIT
/* Elements of .gguf as floats: those that stand alone, and blocks that share a scale. */
#include <string.h>

#include "base/half.h"
#include "io/formats/gguf.h"

static float f16_at(const uint8_t *p)
{
	return (float)rlx_minifloat_to(RLX_MF_F16, p[0] | (uint32_t)p[1] << 8);
}

static void read_q8_0(const uint8_t *p, float *to)
{
	float d = f16_at(p);
	int i;

	for (i = 0; i < GGUF_Q_BLOCK; i++)
		to[i] = d * (float)(int8_t)p[2 + i];
}

/* Byte i has element i in its low half and element i + 16 in its high one, both plus 8. */
static void read_q4_0(const uint8_t *p, float *to)
{
	float d = f16_at(p);
	int i;

	for (i = 0; i < GGUF_Q_BLOCK / 2; i++) {
		to[i] = d * (float)((p[2 + i] & 15) - 8);
		to[i + GGUF_Q_BLOCK / 2] = d * (float)((p[2 + i] >> 4) - 8);
	}
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
	case RLX_GGUF_AS_Q8_0:
		read_q8_0(p, to);
		break;
	default:
		read_q4_0(p, to);
	}
}

enum rlx_status rlx_gguf_read(const struct rlx_gguf_tensor *t, float *to, struct rlx_error *err)
{
	const struct gguf_format *how = t ? gguf_format_of(t->format) : NULL;
	const uint8_t *p;
	uint64_t at;

	if (!how || !to)
		return rlx_fail(err, RLX_EINVAL, "gguf: a tensor of a file, and where its elements "
				"go, are needed");
	if (how->number != RLX_GGUF_AS_F32 && how->number != RLX_GGUF_AS_F16 &&
	    how->number != RLX_GGUF_AS_BF16 && how->number != RLX_GGUF_AS_F64 &&
	    how->number != RLX_GGUF_AS_Q8_0 && how->number != RLX_GGUF_AS_Q4_0)
		return rlx_fail(err, RLX_ENOSUP, "gguf: tensor \"%.80s\" is stored as %s; F32, "
				"F16, BF16, F64, Q8_0 and Q4_0 are read", t->name, how->name);
	p = t->data;
	for (at = 0; at < t->bytes; at += how->bytes, to += how->block)
		read_one(how->number, p + at, to);
	return RLX_OK;
}
