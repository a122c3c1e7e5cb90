// SPDX-License-Identifier: MIT
/*
 * Attention, softmax(scale q k^T + bias) v, by one of five kernels: RLX_K0 says which, the launch
 * (launch_attention.h) takes the first of these that the arguments fit:
 *
 *  8  attention_short_kv_kernel.h: f16, bf16; up to 64 keys, heads up to 128 wide
 *  3  attention_f32.h: f32; 4 queries or more, heads up to 128 wide
 *  2  attention_wgmma.h: f16, bf16 on sm_90; 8 queries or more, heads up to 256 wide
 *  1  attention_mma.h: the same on other chips
 *  0  attention_split_kv.h: all else: single queries, mixed types, heads up to 1,024 wide
 *
 * None writes scores to device memory: 8 has all of a row in registers, the others an online
 * softmax. Sums and softmax are f32. Limits: q, k, v and out are f32, f16 or bf16; wider heads
 * have no kernel here and go to the host.
 */
#if RLX_K0 == 0
#include "kernels/gpu/attention_split_kv.h"
#elif RLX_K0 == 3
#include "kernels/gpu/attention_f32.h"
#elif RLX_K0 == 8
#include "kernels/gpu/attention_short_kv_kernel.h"
#elif RLX_K0 == 1
#include "kernels/gpu/attention_mma.h"
#else
#include "kernels/gpu/attention_wgmma.h"
#endif
