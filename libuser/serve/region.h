/* SPDX-License-Identifier: MIT */
/* Sealed pieces of shared memory for rings. */
#ifndef RLX_SERVE_REGION_H
#define RLX_SERVE_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "rlx/status.h"

struct rlx_region {
	void		*base;		/* NULL: none */
	uint64_t	 bytes;
	int		 fd;		/* -1: none, or passed on */
};

/*
 * @bytes of zeroes that we may write. With @ours nobody else ever can: the seal
 * is set while our mapping exists, and holds for every descriptor of the file.
 */
enum rlx_status rlx_region_new(struct rlx_region *r, const char *name,
			       uint64_t bytes, bool ours, struct rlx_error *err);

/* Map @fd, which a service sent, and keep it not. It must have @bytes for good. */
enum rlx_status rlx_region_open(struct rlx_region *r, int fd, uint64_t bytes,
				bool write, struct rlx_error *err);
void rlx_region_fini(struct rlx_region *r);

/*
 * Is @fd the module's, and of this @kind ("arena", "channel")? Asked where no other file
 * system answers: only the module's files say so in their fdinfo. False, and errno: EPROTO if it
 * is not, else why that cannot be told: ENOENT without /proc, EMFILE without a descriptor left.
 */
bool rlx_fd_is_kmod(int fd, const char *kind);

#endif
