// SPDX-License-Identifier: MIT
/* The rows of kernels/gpu/kernels.def, and their parameters as text. */
#include <stdio.h>
#include <string.h>

#include "backends/gpu/gpu.h"

const struct gpu_variant gpu_variants[RLX_G_VARIANTS] = {
#define GPU_VARIANT(n, file, ...) [RLX_G_##n] = { #n, #file, #__VA_ARGS__ },
#include "kernels/gpu/kernels.def"
};

struct gpu_kernel gpu_kernel_of(enum rlx_g_variant v, const union rlx_g_param *param,
				uint32_t shared)
{
	const struct gpu_variant *row = &gpu_variants[v];

	return (struct gpu_kernel){ row->name, gpu_source(row->file), row->params, param, shared,
				    rlx_g_bits(v, param) == RLX_G_BITS_ORDERED };
}

struct gpu_kernel gpu_kernel_of_text(const char *source, bool ordered)
{
	return (struct gpu_kernel){ "ew", source, "", NULL, 0, ordered };
}

/* Integers and their sums are what they are, in any order. */
static enum rlx_g_bits rlx_g_bits_int(int32_t type)
{
	return rlx_dtype_is_float((enum rlx_dtype)type) ? RLX_G_BITS_OTHER : RLX_G_BITS_EXACT;
}

static enum rlx_g_bits rlx_g_bits_f32(int32_t type)
{
	return type == RLX_F32 ? RLX_G_BITS_ORDERED : rlx_g_bits_int(type);
}

enum rlx_g_bits rlx_g_bits(enum rlx_g_variant v, const union rlx_g_param *p)
{
	switch (v) {
#define GPU_BITS(n, when)	case RLX_G_##n: return (when);
#include "kernels/gpu/kernels.def"
	default:
		return RLX_G_BITS_OTHER;
	}
}

bool gpu_param_text(const struct gpu_kernel *k, unsigned int i, char *buf, size_t size)
{
	const char *name = k->params;
	unsigned int at;

	for (at = 0; at < i && name; at++) {
		name = strchr(name, ',');
		name = name ? name + strspn(name, ", ") : NULL;
	}
	if (!name || !*name)
		return false;
	snprintf(buf, size, "%.*s=%d", (int)strcspn(name, ","), name, (int)k->param->value[i]);
	return true;
}

void gpu_params_text(const struct gpu_kernel *k, char *buf, size_t size)
{
	char one[64];
	unsigned int i;
	size_t n = 0;

	*buf = 0;
	for (i = 0; n < size && gpu_param_text(k, i, one, sizeof(one)); i++)
		n += (size_t)snprintf(buf + n, size - n, " %s", one);
}
