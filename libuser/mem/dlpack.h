/* SPDX-License-Identifier: MIT */
/* DLPack tensors as ranges of addresses, whoever can follow those. */
#ifndef RLX_MEM_DLPACK_H
#define RLX_MEM_DLPACK_H

#include "rlx/dlpack.h"

/*
 * Where the elements of one of @plain and @versioned are, which must lie densely, and who lets go
 * of them, into @user; nothing is taken yet. Of no bytes @user has some that nobody may use.
 */
enum rlx_status rlx_dl_look(struct rlx_dl_managed *plain, struct rlx_dl_versioned *versioned,
			    struct rlx_type *type, struct rlx_arena_user *user,
			    struct rlx_error *err);

/* RLX_ENOSUP unless the CPU reaches the memory of that device. */
enum rlx_status rlx_dl_check_reach(struct rlx_dl_device at, struct rlx_error *err);

#endif
