/* SPDX-License-Identifier: MIT */
/* Prepared weights of a model, in an arena that is kept when we end. */
#ifndef RLXD_WEIGHTS_H
#define RLXD_WEIGHTS_H

#include "tools/rlxd/conf.h"
#include "tools/rlxd/model.h"

/*
 * Load @m by @load with kept weights, if they are all that it needs; else with new
 * ones, which are kept from then on. @unload undoes @load.
 */
enum rlx_status __rlx_must_check
weights_load(struct model *m, enum rlx_status (*load)(struct model *m, struct rlx_error *err),
	     void (*unload)(struct model *m), struct rlx_error *err);
/* Is all that runs read in its store? */
bool weights_are_whole(const struct model *m);
/*
 * Let go of what is kept for models that @c does not name: those of @old, which it
 * replaces, or, if there are none, those that former processes had.
 */
void weights_prune(const struct conf *c, const struct model_set *old);

#endif
