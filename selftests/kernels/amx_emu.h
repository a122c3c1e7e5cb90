/* SPDX-License-Identifier: MIT */
/* The kernels in tiles, in portable C where a test asks for that. */
#ifndef RLX_TEST_AMX_EMU_H
#define RLX_TEST_AMX_EMU_H

#include "selftests/kernels/isa.h"

rlx_k_fn rlx_k_gemm_bf16__v4_amx_emu, rlx_k_gemm_bf16_pack__v4_amx_emu;
rlx_k_fn rlx_k_conv_bf16__v4_amx_emu, rlx_k_conv_bf16_pack__v4_amx_emu;
rlx_k_fn rlx_k_conv_wgrad__v4_amx_emu, rlx_k_conv_wgrad_sum__v4_amx_emu;
rlx_k_fn rlx_k_conv_i8__v4_amx_emu, rlx_k_conv_i8_pack__v4_amx_emu;
rlx_k_fn rlx_k_conv_i8_group__v4_amx_emu;
rlx_k_fn rlx_k_gemm_i8__v4_amx_emu, rlx_k_gemm_i8_pack__v4_amx_emu;
rlx_k_fn rlx_k_attention__v4_amx_emu;

static bool amx_emulated;	/* level v4_amx is */

static inline const struct rlx_kernels *amx_kernels(enum rlx_isa isa)
{
	static const struct rlx_kernels emulated = {
		.gemm_bf16 = rlx_k_gemm_bf16__v4_amx_emu,
		.gemm_bf16_pack = rlx_k_gemm_bf16_pack__v4_amx_emu,
		.conv_bf16 = rlx_k_conv_bf16__v4_amx_emu,
		.conv_bf16_pack = rlx_k_conv_bf16_pack__v4_amx_emu,
		.conv_wgrad = rlx_k_conv_wgrad__v4_amx_emu,
		.conv_wgrad_sum = rlx_k_conv_wgrad_sum__v4_amx_emu,
		.conv_i8 = rlx_k_conv_i8__v4_amx_emu,
		.conv_i8_pack = rlx_k_conv_i8_pack__v4_amx_emu,
		.conv_i8_group = rlx_k_conv_i8_group__v4_amx_emu,
		.gemm_i8 = rlx_k_gemm_i8__v4_amx_emu,
		.gemm_i8_pack = rlx_k_gemm_i8_pack__v4_amx_emu,
		.attention = rlx_k_attention__v4_amx_emu,
	};

	return amx_emulated && isa == RLX_ISA_V4_AMX ? &emulated : rlx_kernels_get(isa);
}

/* Every level that this machine runs, and tiles once more as emulated. */
static inline void amx_levels(void (*fn)(enum rlx_isa isa))
{
	enum rlx_isa isa;

	for (isa = RLX_ISA_BASE; isa < RLX_ISA_COUNT; isa++)
		if (isa_runs(isa))
			fn(isa);
	amx_emulated = true;
	fn(RLX_ISA_V4_AMX);
	amx_emulated = false;
}

#endif
