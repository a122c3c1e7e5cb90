// SPDX-License-Identifier: MIT
/*
 * Cooperative matrices (VK_KHR_cooperative_matrix): does a device multiply the fragments that
 * kernels are written for; and the kernels' text, whose compiler knows them by an older name.
 */
#include <string.h>

#include "backends/vulkan/vk.h"
#include "base/alloc.h"

/* What Vulkan's headers have since 1.3.255. */
#ifndef VK_KHR_cooperative_matrix
typedef struct VkCooperativeMatrixPropertiesKHR {
	VkStructureType	sType;
	void		*pNext;
	uint32_t	MSize, NSize, KSize;
	int		AType, BType, CType, ResultType;
	VkBool32	saturatingAccumulation;
	int		scope;
} VkCooperativeMatrixPropertiesKHR;
enum { VK_COMPONENT_TYPE_FLOAT16_KHR, VK_COMPONENT_TYPE_FLOAT32_KHR, VK_SCOPE_SUBGROUP_KHR = 3 };
#define VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR	((VkStructureType)1000506001)
#endif

/* Of vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR, whatever headers declare. */
typedef VkResult VKAPI_CALL get_shapes_fn(VkPhysicalDevice pd, uint32_t *n,
					  VkCooperativeMatrixPropertiesKHR *out);

static bool fits(const VkCooperativeMatrixPropertiesKHR *s, int type)
{
	return s->MSize == VK_FRAGMENT && s->NSize == VK_FRAGMENT && s->KSize == VK_FRAGMENT &&
	       s->scope == VK_SCOPE_SUBGROUP_KHR && s->AType == type && s->BType == type &&
	       s->CType == VK_COMPONENT_TYPE_FLOAT32_KHR &&
	       s->ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR;
}

void vk_coopmat_find(const struct vk_driver *d, VkPhysicalDevice pd, bool *f16, bool *bf16)
{
	enum { MOST = 128, BFLOAT16 = 1000141000 };
	VkCooperativeMatrixPropertiesKHR s[MOST];
	get_shapes_fn *get;
	uint32_t n = MOST, i;

	*f16 = *bf16 = false;
	get = (get_shapes_fn *)d->get(d->instance,
				    "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
	memset(s, 0, sizeof(s));
	for (i = 0; i < MOST; i++)
		s[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
	if (!get || get(pd, &n, s) < 0)
		return;
	for (i = 0; i < n; i++) {
		*f16 = *f16 || fits(&s[i], VK_COMPONENT_TYPE_FLOAT16_KHR);
		*bf16 = *bf16 || fits(&s[i], BFLOAT16);
	}
}

/* ---- SPV_NV_cooperative_matrix as SPV_KHR_cooperative_matrix ---- */

enum {
	OP_EXTENSION = 10, OP_CAPABILITY = 17, OP_TYPE_INT = 21, OP_TYPE_FLOAT = 22,
	OP_CONSTANT_TRUE = 41, OP_CONSTANT = 43,
	OP_TYPE_KHR = 4456, OP_LOAD_KHR, OP_STORE_KHR, OP_MUL_ADD_KHR,
	OP_TYPE_NV = 5358, OP_LOAD_NV, OP_STORE_NV, OP_MUL_ADD_NV,
	CAPABILITY_NV = 5357, CAPABILITY_KHR = 6022,
	CAPABILITY_BF16 = 5116, CAPABILITY_BF16_KHR = 5118,
	HEADER = 5,
};

static const char extension_nv[] = "SPV_NV_cooperative_matrix";
static const char extension_khr[] = "SPV_KHR_cooperative_matrix";
static const char extension_bf16[20] = "SPV_KHR_bfloat16";

bool vk_coopmat_is(const uint32_t *w, size_t words)
{
	size_t at;

	for (at = HEADER; at < words && (w[at] & 0xffff) == OP_CAPABILITY; at += 2)
		if (w[at + 1] == CAPABILITY_NV)
			return true;
	return false;
}

/* What is known of the module so far. */
struct rewriting {
	uint32_t	u32, f32;	/* types */
	uint32_t	number;		/* the constant 0; 1 and 2 follow, and the type bf16 */
	bool		bf16;		/* f16 of fragments becomes that */
	uint32_t	yes;		/* the constant true */
	uint32_t	rows_a;		/* of A, and of C, which is the first type */
};

/* KHR's type says what it is used as: 0 for A, 1 for B, 2 for C. */
static void put_type(struct rewriting *r, const uint32_t *w, uint32_t *out)
{
	uint32_t use = w[2] == r->f32 ? 2 : w[4] == r->rows_a ? 0 : 1;

	if (use == 2)
		r->rows_a = w[4];
	memcpy(out, w, 6 * sizeof(*w));
	out[0] = 7 << 16 | OP_TYPE_KHR;
	if (use != 2 && r->bf16)
		out[2] = r->number + 3;
	out[6] = r->number + use;
}

/* Stride and "by columns", two ids from @at on, become the layout and the stride. */
static void put_access(const struct rewriting *r, uint32_t *out, uint32_t op, uint32_t at)
{
	uint32_t stride = out[at];

	out[0] = (out[0] & 0xffff0000) | op;
	out[at] = r->number + (out[at + 1] == r->yes);
	out[at + 1] = stride;
}

/* One instruction, @len words at @w; how many it became. */
static size_t rewrite(struct rewriting *r, const uint32_t *w, size_t len, uint32_t *out)
{
	uint32_t i;

	memcpy(out, w, len * sizeof(*w));
	switch (w[0] & 0xffff) {
	case OP_EXTENSION:
		if (strcmp((const char *)(w + 1), extension_nv))
			break;
		memcpy(out + 1, extension_khr, sizeof(extension_khr));	/* as many words */
		if (!r->bf16)
			break;
		out[len++] = 6 << 16 | OP_EXTENSION;
		memcpy(out + len, extension_bf16, sizeof(extension_bf16));
		return len + 5;
	case OP_CAPABILITY:
		if (w[1] != CAPABILITY_NV)
			break;
		out[1] = CAPABILITY_KHR;
		for (i = 0; r->bf16 && i < 2; i++) {
			out[len++] = 2 << 16 | OP_CAPABILITY;
			out[len++] = i ? CAPABILITY_BF16_KHR : CAPABILITY_BF16;
		}
		break;
	case OP_TYPE_FLOAT:
		r->f32 = w[2] == 32 ? w[1] : r->f32;
		if (w[2] != 32 || !r->bf16)
			break;
		out[len++] = 4 << 16 | OP_TYPE_FLOAT;	/* 16 bits, of encoding 0 */
		out[len++] = r->number + 3;
		out[len++] = 16;
		out[len++] = 0;
		break;
	case OP_TYPE_INT:
		if (w[2] != 32 || w[3])
			break;
		for (i = 0; i < 3; i++) {
			out[len++] = 4 << 16 | OP_CONSTANT;
			out[len++] = w[1];
			out[len++] = r->number + i;
			out[len++] = i;
		}
		break;
	case OP_CONSTANT_TRUE:
		r->yes = w[2];
		break;
	case OP_TYPE_NV:
		put_type(r, w, out);
		return 7;
	case OP_LOAD_NV:
		put_access(r, out, OP_LOAD_KHR, 4);
		break;
	case OP_STORE_NV:
		put_access(r, out, OP_STORE_KHR, 3);
		break;
	case OP_MUL_ADD_NV:
		out[0] = (w[0] & 0xffff0000) | OP_MUL_ADD_KHR;
		break;
	}
	return len;
}

uint32_t *vk_coopmat_text(const uint32_t *w, size_t words, bool bf16, size_t *out_words)
{
	enum { ADDED = 12 + 8 + 14 };	/* constants; a word for each of a few types; bf16 */
	struct rewriting r = { .number = w[3], .bf16 = bf16 };
	uint32_t *out = rlx_malloc((words + ADDED) * sizeof(*out));
	size_t at, n = HEADER, len;

	if (!out)
		return NULL;
	memcpy(out, w, HEADER * sizeof(*out));
	out[3] = w[3] + 4;
	for (at = HEADER; at < words; at += len) {
		len = w[at] >> 16;
		n += rewrite(&r, w + at, len, out + n);
	}
	*out_words = n;
	return out;
}
