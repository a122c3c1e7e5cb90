/* SPDX-License-Identifier: MIT */
/* Hash map from byte-string keys to pointers or integers; keys are copied. */
#ifndef RLX_BASE_MAP_H
#define RLX_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rlx_map_slot {
	uint64_t	 hash;
	char		*key;	/* NULL: empty */
	size_t		 len;
	uint64_t	 val;
};

/* Zero-initialise before use. */
struct rlx_map {
	struct rlx_map_slot	*slot;
	uint32_t		 cap, n;
};

uint64_t rlx_hash_bytes(const void *p, size_t n, uint64_t seed);

/* A seed for tables that nobody is told of: whoever knows it can choose keys of one hash. */
uint64_t rlx_hash_secret(void);

/* Insert, or overwrite, which takes no memory. False: out of memory, map unchanged. */
bool rlx_map_put(struct rlx_map *m, const void *key, size_t len, uint64_t val);
/* False if absent. */
bool rlx_map_get(const struct rlx_map *m, const void *key, size_t len,
		 uint64_t *out_val);
void rlx_map_fini(struct rlx_map *m);

#endif
