/* SPDX-License-Identifier: MIT */
/* Private structs of a graph's programs by device. */
#ifndef RLX_RT_DEVICES_H
#define RLX_RT_DEVICES_H

#include <pthread.h>

#include "rt/policy.h"
#include "rt/rt.h"

struct devices_param {
	const char	*name;		/* the graph's, as is the type */
	const struct rlx_type *type;
	struct rlx_buf	 buf;		/* arena NULL: no value yet */
	uint64_t	 version;	/* 1 more each time it has another */
};

/* A session that nobody uses just now, and the params that it has. */
struct devices_session {
	struct devices_session	*next;
	struct rlx_session	*s;
	uint64_t		 seen[];	/* by param: its version */
};

struct devices_row {
	struct rlx_dev_info	 info;
	bool			 present;
	struct rlx_program	*p;
	struct rlx_error	 why;		/* why there is none, if it was tried for good */
	bool			 compiling;	/* by a thread that holds no lock meanwhile */
	double			 measured_ns;
	struct devices_session	*idle;		/* over p */
};

struct rlx_devices {
	pthread_mutex_t		 lock;		/* guards all below but graph and opts */
	pthread_cond_t		 changed;	/* some row's compiling ended */
	struct rlx_graph	*g;
	struct rlx_compile_opts	 opts;
	struct rlx_policy	*policy;
	struct devices_param	*param;
	unsigned int		 n_param;
	struct devices_row	**row;		/* as rlx_device_list() has them; never moved */
	unsigned int		 n_row;
	bool			 listed;
};

/* devices.c. All take the lock themselves. */
/* The rows there are, again after a loss; RLX_ENOMEM. */
enum rlx_status rlx_devices_list(struct rlx_devices *ds, struct rlx_error *err);
/* What the policy and the machine let be used: RLX_OK, or why not. */
enum rlx_status rlx_devices_usable(struct rlx_devices *ds, struct devices_row *r,
				   struct rlx_error *why);
/* The row of a name that may be used; NULL: @err says what is wrong with it. */
struct devices_row *rlx_devices_find(struct rlx_devices *ds, const char *what, const char *word,
				     struct rlx_error *err);
/* Of @r, compiled now if it was not; *@out is referenced. */
enum rlx_status rlx_devices_compile(struct rlx_devices *ds, struct devices_row *r,
				    struct rlx_program **out, struct rlx_error *err);
/* Rows by the policy's order, for as long as the array is: rlx_free(). NULL: no memory. */
struct devices_row **rlx_devices_order(struct rlx_devices *ds, unsigned int *out_n);
struct rlx_policy *rlx_devices_policy(struct rlx_devices *ds);

/* devices_run.c */
/* A session of its own, with params and inputs, @in NULL: zeros; give it back, or drop it. */
enum rlx_status rlx_devices_begin(struct rlx_devices *ds, struct devices_row *r,
				  const struct rlx_named_tensor *in, unsigned int n_in,
				  struct devices_session **out, struct rlx_error *err);
void rlx_devices_end(struct rlx_devices *ds, struct devices_row *r,
		     struct devices_session *s, bool keep);

/* devices_cost.c: what a run of a program is predicted to take. */
double rlx_devices_cost(const struct rlx_program *p, const struct rlx_dev_info *d);

#endif
