/* SPDX-License-Identifier: MIT */
/*
 * SPIR-V modules put together from a library's functions: the library's own text, of its
 * functions those that are called, and some that are written anew in the place of stubs.
 */
#ifndef RLX_VK_SPV_H
#define RLX_VK_SPV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Types that the library declares, by their number there. */
enum spv_type { SPV_VOID, SPV_U32, SPV_U64, SPV_I64, SPV_F32, SPV_F64, SPV_TYPES };

struct spv_function {
	uint32_t	id, from, end;		/* words of the library */
	const char	*name;			/* up to its '(' */
	uint32_t	result;			/* type */
};

struct spv_library {
	const uint32_t		*w;
	uint32_t		 words, first;	/* where functions begin */
	uint32_t		 type[SPV_TYPES];
	struct spv_function	*f;
	uint32_t		 n;
	int32_t			*owner;		/* of each id: function, or -1 */
};

/* @w stays the caller's. RLX_EBUG-like false: it is no such library, or no memory. */
bool spv_library_init(struct spv_library *l, const uint32_t *w, size_t words);
void spv_library_fini(struct spv_library *l);
/* NULL: there is none */
const struct spv_function *spv_find(const struct spv_library *l, const char *name);

/*
 * A module being written. After a failure ok is false, and calls do nothing; missing: because
 * the library has not what was called, and not for want of memory.
 */
enum { SPV_MOST_STUBS = 2 };

struct spv_module {
	const struct spv_library *lib;
	struct {
		const struct spv_function *f;
		uint32_t	from, end;	/* of the body */
	} stub[SPV_MOST_STUBS];
	uint32_t	 n_stub;
	uint32_t	*constant, *body;
	uint32_t	 n_constant, cap_constant, n_body, cap_body;
	uint32_t	 bound;
	bool		*called;		/* by the library's functions */
	bool		 ok, missing;
};

bool spv_begin(struct spv_module *m, const struct spv_library *l);
void spv_end(struct spv_module *m);
/* The calls that follow are this function's body. The id of its parameter */
uint32_t spv_stub(struct spv_module *m, const char *name);
/* New ids: a constant's, and a call's result (0 of a void one). */
uint32_t spv_constant(struct spv_module *m, enum spv_type type, uint64_t bits);
uint32_t spv_call(struct spv_module *m, const char *name, const uint32_t *arg, uint32_t n);
/* The whole. Ownership: rlx_free(*@out). False: no memory. */
bool spv_write(struct spv_module *m, uint32_t **out, size_t *words);

#endif
