// SPDX-License-Identifier: MIT
/*
 * Compiled to assembler and never run: its text has the offsets of args.def as this compiler
 * lays structs out, and args.awk makes GLSL of it.
 */
#include "kernels/attention.h"
#include "kernels/conv.h"
#include "kernels/fill.h"
#include "kernels/gemm.h"
#include "kernels/move.h"
#include "kernels/norm.h"
#include "kernels/pool.h"
#include "kernels/quant.h"
#include "kernels/reduce.h"
#include "kernels/resize.h"
#include "kernels/rope.h"
#include "kernels/softmax.h"
#include "kernels/sortk.h"
#include "kernels/vulkan/pointwise.h"

void rlx_vk_args(void);

#define STRUCT(s)	__asm__ volatile("\n.ascii \"->struct " #s "\"");
#define FIELD(s, m, t, n)						\
	_Static_assert(sizeof(((struct rlx_k_##s *)0)->m) == sizeof(t) * (n), #s "." #m);	\
	__asm__ volatile("\n.ascii \"->field " #t " " #m " " #n " %c0\""	\
			 :: "i"(__builtin_offsetof(struct rlx_k_##s, m)));
#define OFFSET(name, s, m)						\
	__asm__ volatile("\n.ascii \"->offset " #name " %c0\""		\
			 :: "i"(__builtin_offsetof(struct rlx_k_##s, m)));

void rlx_vk_args(void)
{
#include "kernels/vulkan/args.def"
}
