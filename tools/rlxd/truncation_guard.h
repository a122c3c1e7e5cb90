/* SPDX-License-Identifier: MIT */
/*
 * Files of models that are cut short while they are mapped. A page that is missing
 * then is replaced by zeros, so that nobody dies of it; whoever was using the file
 * learns that what he has is worthless.
 */
#ifndef RLXD_TRUNCATION_GUARD_H
#define RLXD_TRUNCATION_GUARD_H

#include <stdbool.h>
#include <stdint.h>

/* Where a file is mapped. */
struct guarded_range {
	uintptr_t	begin, end;
};

/* From here on the calling code may meet such pages; a mark for truncation_guard_end(). */
unsigned int truncation_guard_begin(void);
/* Each with its truncation_guard_begin(). Did a page of these go meanwhile? @n 0: any page. */
bool truncation_guard_end(unsigned int begin, const struct guarded_range *r, unsigned int n);

/* For the handler of SIGBUS at @at: true if it can go on. Async-signal-safe. */
bool truncation_guard_fault(uintptr_t at);

#endif
