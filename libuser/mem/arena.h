/* SPDX-License-Identifier: MIT */
/* Inside of an arena, and the table of providers that can make one. */
#ifndef RLX_MEM_ARENA_H
#define RLX_MEM_ARENA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rlx/arena.h>

enum { RLX_WHY = 224 };		/* bytes of a reason, as in rlx_arena_info */

#define RLX_KMOD_NODE	"/dev/rlx"

/* A run of bytes of the arena, used or free. */
struct rlx_seg {
	uint64_t	offset, bytes;
	bool		used;
};

/*
 * The buffers of an arena: segments in address order that cover it whole, no
 * two free ones adjacent. Empty until the first rlx_buf_new().
 */
struct rlx_space {
	pthread_mutex_t	lock;		/* guards all below; innermost */
	struct rlx_seg	*seg;
	uint32_t	n, cap;
	uint64_t	buffers, used;
};

struct rlx_arena {
	_Atomic uint32_t		 refs;
	_Atomic uint32_t		 flags;	/* enum rlx_arena_flags */
	const struct rlx_arena_provider	*prov;
	char				*base;
	uint64_t			 size;
	uint64_t			 page;	/* of the file */
	int				 fd;	/* -1: none */
	uint32_t			 pages;	/* enum rlx_pages, as asked */
	uint64_t			 nodes;	/* as asked */
	pthread_mutex_t			 lock;	/* guards locked, why_lock */
	uint64_t			 locked;
	void				 (*release)(void *, void *, uint64_t);
	void				*ctx;
	/* DLDevice of memory that is a device's, and its addresses nothing to the CPU; else 0 */
	int32_t				 dl_type, dl_id;
	struct rlx_space		 space;
	char				 why_pages[RLX_WHY];
	char				 why_lock[RLX_WHY];
	char				 why_node[RLX_WHY];
	char				 why_prov[RLX_WHY];
};

/*
 * A way to get memory. Static and const. Members that are NULL are not offered.
 * new and open fill base, size, page, fd, locked and the reasons, and add to
 * flags, of an arena whose other fields are zero; or fail leaving nothing behind.
 */
struct rlx_arena_provider {
	const char	*name;
	/*
	 * Would it be chosen for @opts, where no provider is named? If not, why
	 * (RLX_WHY bytes). NULL: always.
	 */
	bool		(*suits)(const struct rlx_arena_opts *opts, char *why);
	enum rlx_status	(*new)(struct rlx_arena *a,
			       const struct rlx_arena_opts *opts,
			       struct rlx_error *err);
	/* Is @fd a file of this provider? */
	bool		(*claims)(int fd);
	/* @fd stays the caller's; @a->flags are those asked for. */
	enum rlx_status	(*open)(struct rlx_arena *a, int fd,
				struct rlx_error *err);
	/* A descriptor that maps only for reading, or -errno. */
	int		(*reopen)(struct rlx_arena *a);
	/*
	 * Forbid for good (enum rlx_seal); 0 or -errno: EBUSY while somebody can
	 * write, EPERM or EACCES where it may not, EINVAL where it cannot.
	 */
	int		(*add_seals)(struct rlx_arena *a, uint32_t seals);
	uint32_t	(*seals)(struct rlx_arena *a);
	/* A mapping was put over the old one: see to huge pages and locks. */
	void		(*settle)(struct rlx_arena *a, bool write);
	/* A range, checked, as a dma-buf. */
	enum rlx_status	(*export)(struct rlx_arena *a, struct rlx_buf range,
				  bool write, int *out_fd, struct rlx_error *err);
	/* Undo new or open; the object itself is the core's. */
	void		(*free)(struct rlx_arena *a);
};

extern const struct rlx_arena_provider rlx_arena_kmod, rlx_arena_memfd,
				       rlx_arena_user;

/* kmod.c: the version of the module's ABI that is spoken here. */
extern const uint32_t rlx_kmod_abi;

/* place.c: where the pages of a mapping lie. */
uint64_t rlx_page_bytes(void);
/* A free, 2 MiB-aligned range of addresses, PROT_NONE; NULL if there is none. */
char *rlx_place_range(uint64_t bytes);
/* Map the file whole, for writing unless RDONLY; false with errno. */
bool rlx_place_map(struct rlx_arena *a);
/* Unmap and close. */
void rlx_place_unmap(struct rlx_arena *a);
/* The OOM killer answers late and kills others: ask before taking. */
enum rlx_status rlx_place_room(const struct rlx_arena *a, struct rlx_error *err);
/* Under RLX_ARENA_EXACT, a reason why less was got is a failure. */
enum rlx_status rlx_place_exact(const struct rlx_arena *a, struct rlx_error *err);
/* Ask for the nodes; fills why_node on failure. */
bool rlx_place_nodes(struct rlx_arena *a);
/* Bytes of @a for @bytes: whole pages, and huge ones where a quarter of the last is asked for. */
uint64_t rlx_place_size(const struct rlx_arena *a, uint64_t bytes);
/* Take all pages, or those of a range, now; false with errno if memory is short. */
bool rlx_place_fill(struct rlx_arena *a, bool write);
bool rlx_place_fill_range(struct rlx_arena *a, uint64_t offset, uint64_t bytes, bool write);
/*
 * Take pages, huge ones where they can be had, until the first @need bytes are
 * there: *@taken are by now. @need is at most the size. @exact: it will hardly grow,
 * so what does not fill a huge page gets small ones. False: memory is short.
 */
bool rlx_place_extend(struct rlx_arena *a, uint64_t *taken, uint64_t need, bool exact);
/*
 * Get huge pages, on touch or built at once; @pool: why none of hugetlb. Fills
 * why_pages.
 */
void rlx_place_huge(struct rlx_arena *a, const char *pool);
/* mlock as far as allowed; fills locked and why_lock. */
void rlx_place_lock(struct rlx_arena *a);

/* buf.c */
void rlx_space_fini(struct rlx_space *s);

/* stats.c */
void rlx_stat_copied(uint64_t bytes);	/* each convenience copy calls this */
void rlx_stat_arena(int64_t arenas, int64_t mapped, int64_t pinned);

#endif
