/* SPDX-License-Identifier: MIT */
/* How a sealed store lies in its arena, and stores for a layout of known name. */
#ifndef RLX_IR_STORE_H
#define RLX_IR_STORE_H

#include "base/build_id.h"
#include "rlx/store.h"

enum { RLX_STORE_FORMAT = 1, RLX_STORE_ALIGN = 64, RLX_STORE_KIND_BYTES = 16 };

#define RLX_STORE_MAGIC	"RLXSTORE"	/* without its 0 */

/* What identifies an entry; no padding, as it is hashed and compared. */
struct rlx_store_key {
	uint64_t	source, offset, bytes;
	int64_t		param[4];
	char		kind[RLX_STORE_KIND_BYTES];
};

struct rlx_store_entry {
	struct rlx_store_key	key;
	uint64_t		at;
};

/* At the start of the arena. @used is the end of the last entry's bytes. */
struct rlx_store_header {
	char		magic[8];
	uint32_t	format, entry_bytes;
	uint64_t	used;
	uint64_t	table, n_entry;
	uint8_t		build[RLX_BUILD_ID_BYTES];
	char		layout[32];
	uint64_t	hash;
};

/* Of the header up to the hash, and of the table. */
uint64_t rlx_store_hash(const struct rlx_store_header *h,
			const struct rlx_store_entry *table);

/* rlx_store_new() and rlx_store_open() for a device whose layout of weights is known. */
enum rlx_status rlx_store_create(struct rlx_arena *arena, const char *layout,
				 struct rlx_store **out, struct rlx_error *err);
enum rlx_status rlx_store_adopt(struct rlx_arena *arena, const char *layout,
				struct rlx_store **out, struct rlx_error *err);

/* Memory that is no arena, as a mapped file. @release: called once with @ctx at the end. */
struct rlx_store_memory {
	const void	*base;
	uint64_t	 size;
	void		(*release)(void *ctx);
	void		*ctx;
};

/*
 * A sealed store of what lies in @m: the @n entries, which are copied, have places from m->base
 * on, all of which must be in it. After a failure @m is the caller's still.
 */
enum rlx_status rlx_store_mapped(const struct rlx_store_memory *m, const char *layout,
				 const struct rlx_store_entry *entry, uint32_t n,
				 struct rlx_store **out, struct rlx_error *err);

#endif
