/* SPDX-License-Identifier: MIT */
/*
 * A strict JSON reader (RFC 8259) into one flat array of nodes. It takes time and
 * memory linear in the text and a stack that does not depend on it.
 */
#ifndef RLX_BASE_JSON_H
#define RLX_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json_write.h"
#include "rlx/status.h"

enum rlx_json_kind {
	RLX_JSON_NULL,
	RLX_JSON_BOOL,
	RLX_JSON_NUM,
	RLX_JSON_STR,
	RLX_JSON_ARR,
	RLX_JSON_OBJ,
};

/*
 * Nodes stand in preorder. A member of an object is two nodes, its key (a
 * string) and then its value, so that a subtree is the range [i, node[i].end).
 */
struct rlx_json_node {
	uint32_t	off;	/* of the text of a string or number */
	uint32_t	len;	/* bytes of it; items of an array; members */
	uint32_t	end;	/* the node behind this one's subtree */
	uint32_t	src;	/* byte of the source it begins at */
	uint8_t		kind;
	uint8_t		truth;	/* of a bool */
};

struct rlx_json {
	struct rlx_json_node	*node;
	uint32_t		 n, cap;
	char			*text;	/* unescaped strings, numbers; each 0-ended */
	const char		*name;	/* of the source, for error texts */
};

/* Zero a member for its default. */
struct rlx_json_limits {
	size_t		bytes;	/* of source; default and most 1 GiB */
	uint32_t	nodes;	/* default 64 M */
	uint32_t	depth;	/* default 64, most RLX_JSON_DEPTH_MAX */
	/*
	 * Asked before memory is taken, told when some is given back (negative): false
	 * refuses it, as if there were none. What remains is @out's. NULL: not asked.
	 */
	bool		(*take)(void *ctx, int64_t bytes);
	void		*ctx;
};

/*
 * Read @len bytes at @text into @out, which keeps no reference to them but
 * keeps @name. Refused: anything RFC 8259 does not allow, text that is not
 * UTF-8, lone surrogates, a key that comes twice in one object. @lim may be
 * NULL. On failure @out is empty and @err names byte and line.
 */
enum rlx_status __rlx_must_check
rlx_json_parse(struct rlx_json *out, const char *text, size_t len,
	       const struct rlx_json_limits *lim, const char *name,
	       struct rlx_error *err);
void rlx_json_fini(struct rlx_json *j);

static inline enum rlx_json_kind rlx_json_kind(const struct rlx_json *j,
					       uint32_t i)
{
	return (enum rlx_json_kind)j->node[i].kind;
}

/* The bytes of a string or the text of a number; 0-ended, may hold zeros. */
static inline const char *rlx_json_text(const struct rlx_json *j, uint32_t i)
{
	return j->text + j->node[i].off;
}

static inline uint32_t rlx_json_len(const struct rlx_json *j, uint32_t i)
{
	return j->node[i].len;
}

bool rlx_json_str_is(const struct rlx_json *j, uint32_t i, const char *s);

/* The member @key of object @obj; 0 (never a member) if none or no object. */
uint32_t rlx_json_get(const struct rlx_json *j, uint32_t obj, const char *key);

/* False if node @i is no number, or no integer, or outside int64. */
bool rlx_json_int(const struct rlx_json *j, uint32_t i, int64_t *out);
/* False if node @i is no number; rounds to nearest, may give infinity. */
bool rlx_json_double(const struct rlx_json *j, uint32_t i, double *out);

/*
 * Walk an array or object:
 *	for (it = rlx_json_iter(j, i); rlx_json_next(&it); ) use it.key, it.val
 * @key is 0 in an array. Anything that is no container has no items.
 */
struct rlx_json_iter {
	const struct rlx_json	*j;
	uint32_t		 key, val, next, end;
	bool			 obj;
};

struct rlx_json_iter rlx_json_iter(const struct rlx_json *j, uint32_t i);
bool rlx_json_next(struct rlx_json_iter *it);

#endif
