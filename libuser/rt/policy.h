/* SPDX-License-Identifier: MIT */
/* Private structs of policies, and questions asked of them. */
#ifndef RLX_RT_POLICY_H
#define RLX_RT_POLICY_H

#include <stdatomic.h>

#include "rlx/devices.h"

enum { POLICY_NAMES = 16, POLICY_NAME = 24 };

struct policy_names {
	unsigned int	n;
	char		name[POLICY_NAMES][POLICY_NAME];
};

enum policy_pick { POLICY_PICK_COST, POLICY_PICK_ORDER, POLICY_PICK_MEASURE };

struct rlx_policy {
	atomic_uint		refs;
	struct policy_names	allow, deny, prefer, chain, device;
	bool			only;		/* @allow was given */
	enum policy_pick	pick;
	unsigned int		runs;		/* of POLICY_PICK_MEASURE */
	bool			native;
};

/* Does @name, lower case and without aliases, stand for the device? */
bool rlx_policy_names(const char *name, const struct rlx_dev_info *d);
/* The same of a name where one device is to be used. */
bool rlx_policy_names_one(const char *name, const struct rlx_dev_info *d);
/* Place in a list, its length if it is not there. */
unsigned int rlx_policy_place(const struct policy_names *l, const struct rlx_dev_info *d);
/* RLX_OK, or in @why what the policy has against it. */
enum rlx_status rlx_policy_allows(const struct rlx_policy *p, const struct rlx_dev_info *d,
				  struct rlx_error *why);
/* A hint as a policy has names; RLX_EINVAL with a message. */
enum rlx_status rlx_policy_name(const char *what, const char *word, size_t len,
				char out[POLICY_NAME], struct rlx_error *err);

/*
 * The device of the machine, as it is listed, that a name stands for where one is to be
 * used; RLX_ENODEV with what is missing. A backend's own name is not looked up.
 */
enum rlx_status rlx_policy_device(const char *name, char out[24], struct rlx_error *err);
/* Is that a device's failure, after which a chain tries the next? Else the request's. */
bool rlx_policy_goes_on(enum rlx_status st);

/* Several messages in one, as far as they fit. */
struct rlx_reasons {
	char	text[sizeof(((struct rlx_error *)0)->text)];
	size_t	len;
};

void rlx_reasons_add(struct rlx_reasons *r, const char *text);

#endif
