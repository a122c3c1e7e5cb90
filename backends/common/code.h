/* SPDX-License-Identifier: MIT */
/*
 * Compiled code, the same for every backend whose kernels take argument structs. Lowering
 * appends calls, whose pointers are references to values: nothing has an address yet. When
 * the plan has places, the code is emitted: argument structs of all calls in one image, and
 * relocations in the order of the slots whose addresses they take. Each exec copies the
 * image, and fills in a slot's address where it is bound.
 */
#ifndef RLX_BACKENDS_CODE_H
#define RLX_BACKENDS_CODE_H

#include "plan/place.h"
#include "rlx/backend.h"

enum rlx_ref_kind {
	RLX_REF_VALUE,		/* @off bytes into value @val */
	RLX_REF_STATUS,		/* the word, of those at @off, that says "bad data" */
	RLX_REF_KEPT,		/* a table: @off is what the backend said */
};

enum rlx_access { RLX_READ = 1, RLX_WRITE = 2, RLX_UPDATE = RLX_READ | RLX_WRITE };

/* Of a reference for which there is no pointer: the call uses the value all the same. */
#define RLX_NO_FIELD	UINT64_MAX

/* What a call uses, and the pointer to it in its arguments. */
struct rlx_ref {
	uint64_t	at;		/* of the pointer, in the call's arguments */
	uint64_t	off;
	uint32_t	val;
	uint8_t		kind;		/* enum rlx_ref_kind */
	uint8_t		access;		/* enum rlx_access */
};

/* See rlx_lower_checked(). @n 0: the call checks nothing that an extent leaves out. */
struct rlx_checked {
	int64_t		n;
	uint64_t	at;		/* of the field, in the call's arguments */
	uint32_t	step;		/* of the plan, whose inputs decide */
};

/* Embedded first in a backend's own struct. */
struct rlx_call {
	uint64_t		args;	/* offset of its arguments; emitted: in the image */
	uint32_t		n_args;
	uint32_t		step;	/* of the plan */
	uint32_t		n_step;	/* done by it: that one and those behind it */
	uint32_t		ref, n_ref;
	int64_t			rows;	/* as rlx_lower_extent() was told; 0: always all of it */
	struct rlx_checked	checked;
};

struct rlx_reloc {
	uint64_t	at, off;	/* in the image: @off beyond the slot's address */
};

/* @size: of the backend's struct; set before the first call. The rest begins as zeros. */
struct rlx_calls {
	uint32_t		 size;
	uint32_t		 n_call, cap_call;
	void			*call;
	unsigned char		*args;
	uint64_t		 n_args, cap_args;
	struct rlx_ref		*ref;
	uint32_t		 n_ref, cap_ref;
	/* emitted: args is the image */
	struct rlx_reloc	*reloc;
	uint32_t		*slot_at;	/* of each slot, and their end */
};

/* How many calls, references and bytes there were. */
struct rlx_calls_mark {
	uint32_t	n_call, n_ref;
	uint64_t	n_args;
};

static inline struct rlx_call *rlx_call_at(const struct rlx_calls *c, uint32_t i)
{
	return (struct rlx_call *)((char *)c->call + (size_t)i * c->size);
}

static inline struct rlx_calls_mark rlx_calls_mark(const struct rlx_calls *c)
{
	return (struct rlx_calls_mark){ c->n_call, c->n_ref, c->n_args };
}

/* Forget what came since; what was taken back since is there again. */
void rlx_calls_undo(struct rlx_calls *c, struct rlx_calls_mark m);

/* A call of these arguments and references; the rest of it is zero. NULL: out of memory. */
void *rlx_calls_add(struct rlx_calls *c, const void *args, uint32_t n_args,
		    const struct rlx_ref *ref, uint32_t n_ref);
/* More arguments of the last call, @at bytes into those it has. False: out of memory. */
bool rlx_calls_extend(struct rlx_calls *c, uint64_t at, const void *args, uint32_t n_args,
		      const struct rlx_ref *ref, uint32_t n_ref);
/* The last call uses value @val, to which it has no pointer. False: out of memory. */
bool rlx_calls_use(struct rlx_calls *c, uint32_t val, enum rlx_access access);

/*
 * Slots: an address of each input, param and output of the plan, then of the workspace and
 * of the status words.
 */
static inline uint32_t rlx_slot_of(const struct rlx_plan *p, enum rlx_io io, uint32_t i)
{
	for (; io > 0; io--)
		i += p->n_io[io - 1];
	return i;
}

static inline uint32_t rlx_slot_work(const struct rlx_plan *p)
{
	return rlx_slot_of(p, RLX_IO_OUTPUT, p->n_io[RLX_IO_OUTPUT]);
}

static inline uint32_t rlx_slot_status(const struct rlx_plan *p)
{
	return rlx_slot_work(p) + 1;
}

/*
 * True: *@out is what reference @r holds in all execs, and needs no relocation. Of a value
 * @r->off includes what its place says. Constants and tables are always such.
 */
typedef bool rlx_fixed_fn(void *ctx, const struct rlx_ref *r, const struct rlx_place *at,
			  uint64_t *out);

/* The plan's workspace by what calls use: see rlx_plan_place(). @o NULL: in turn. */
enum rlx_status rlx_calls_place(const struct rlx_calls *c, struct rlx_plan *p,
				const struct rlx_order *o, struct rlx_error *err);
/* Calls become the image and its relocations; their references are gone. RLX_ENOMEM */
enum rlx_status rlx_calls_emit(struct rlx_calls *c, const struct rlx_plan *p,
			       rlx_fixed_fn *fixed, void *ctx, struct rlx_error *err);
/* An exec's copy, 64-byte aligned; NULL: out of memory. Freed with rlx_free(). */
unsigned char *rlx_calls_image(const struct rlx_calls *c);
/* Slot @slot is at @address, or nowhere if that is 0: in @image. */
void rlx_calls_bind(const struct rlx_calls *c, unsigned char *image, uint32_t slot,
		    uint64_t address);
void rlx_calls_fini(struct rlx_calls *c);

#endif
