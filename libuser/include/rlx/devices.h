/* SPDX-License-Identifier: MIT */
/*
 * One graph on whichever device fits: which devices may be used and which is to be
 * preferred (struct rlx_policy), and the graph's programs on them with one set of
 * params (struct rlx_devices).
 *
 *	rlx_policy_new("chain=cuda,cpu", &policy, &err);
 *	rlx_devices_new(graph, policy, NULL, &ds, &err);
 *	rlx_devices_run(ds, NULL, &io, &tries, &err);
 *
 * A device is named as rlx_device_list() has it ("cpu", "cuda", "cuda:1"), in any case;
 * nvidia is cuda, hip and amd are rocm, vk is vulkan. Further names are "gpu", whichever
 * of cuda, rocm and vulkan is there first, and "pci:0000:3b:00.0". A backend's name alone
 * stands for all of its devices where devices are allowed, denied or preferred, and for
 * its first where one is to be used. What is for tests (rlx_dev_info.by_name) is a
 * candidate only where its own name is given.
 */
#ifndef RLX_DEVICES_H
#define RLX_DEVICES_H

#include "rlx/device.h"
#include "rlx/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Immutable and counted. Context: any thread. */
struct rlx_policy;

/**
 * rlx_policy_new - read a policy: words between spaces, each at most once.
 * @text: NULL or "": all devices, the cheapest by cost.
 *
 *	allow=LIST	these alone
 *	deny=LIST	not these, though they are allowed
 *	prefer=LIST	these before others, unless the cheapest takes less than a third of
 *			their time
 *	chain=LIST	exactly these, in this order; the next where one is absent or fails
 *	device=NAME	this one, or an error
 *	pick=cost	the cheapest by rlx_cost_estimate()'s formula (the default)
 *	pick=order	the first by prefer, then as rlx_device_list() has them
 *	pick=measure[:N]  the fastest by the median of N runs (11), found once per graph and
 *			machine and kept in $XDG_CACHE_HOME/rlx/pick
 *	native=yes	a device that leaves ops to the reference evaluator cannot run the graph
 *
 * Names of a LIST stand between commas or semicolons, sixteen at most.
 * Context: allocates. Ownership: rlx_policy_put().
 * Return: RLX_EINVAL names the word that is not known, RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_policy_new(const char *text, struct rlx_policy **out, struct rlx_error *err);

/**
 * rlx_policy_env - the policy of the environment as it is now.
 * @prefix: of the variables' names; NULL: "RLX"
 *
 * RLX_DEVICES is allow, RLX_DENY_DEVICES deny, RLX_PREFER_DEVICES prefer,
 * RLX_DEVICE_CHAIN chain, RLX_DEVICE device, or chain if it is a list, and
 * RLX_BENCHMARK_PICK the runs of pick=measure (0 counts as 1). Names may stand between
 * spaces as well. Unset or empty: as if it were not there.
 * Return: RLX_EINVAL names the variable and the word, also where RLX_DEVICE and
 * RLX_DEVICE_CHAIN are two different lists; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_policy_env(const char *prefix, struct rlx_policy **out, struct rlx_error *err);

RLX_EXPORT struct rlx_policy *rlx_policy_get(struct rlx_policy *p);
RLX_EXPORT void rlx_policy_put(struct rlx_policy *p);

/* The text that rlx_policy_new() reads, one line. Return: RLX_EIO. */
RLX_EXPORT enum rlx_status rlx_policy_print(const struct rlx_policy *p, FILE *f);

/* What a node does, as far as its speed goes. */
enum rlx_cost_class {
	RLX_COST_GEMM,		/* matmul, convolution, attention: operations count */
	RLX_COST_OTHER,		/* all else: mostly bytes do */
	RLX_COST_CLASSES,
};

/**
 * struct rlx_device_model - how fast a device is, for rlx_cost_estimate().
 * @size:      sizeof(struct rlx_device_model)
 * @t_run, @t_step, @t_transfer: ns of a run, of each step of it, and of each time that
 *             something is copied between host and device
 * @bandwidth, @link: bytes a second of its memory, and between it and the host's
 * @rate:      operations a second by class, for elements of 4 bytes and of 2
 */
struct rlx_device_model {
	size_t	size;
	double	t_run, t_step, t_transfer, bandwidth, link;
	double	rate[RLX_COST_CLASSES][2];
};

/**
 * rlx_cost_estimate - how long a run of @g would take: @t_run, and for each node @t_step
 * and the longer of its operations by their rate and its bytes by the bandwidth.
 * @g: as it would run: constants, inputs and params cost nothing, nothing is fused
 * Context: any thread; a pure function of both. Return: ns; below 0, with the reason in
 * @err: @g is not finished, or the model has a rate of 0.
 */
RLX_EXPORT double rlx_cost_estimate(const struct rlx_graph *g,
				    const struct rlx_device_model *m, struct rlx_error *err);

/**
 * struct rlx_device_fit - one device for one graph under one policy.
 * @device:      its name
 * @present:     the machine has it
 * @allowed:     the policy lets it be used
 * @runs:        it can run the graph; its program is compiled
 * @chosen:      rlx_devices_pick() without a hint gives it
 * @native, @host: steps with a kernel, steps of the reference evaluator
 * @cost_ns, @measured_ns, @compile_ns: predicted, measured and of compiling; 0: not known
 * @why:         the first thing in the way: that it is absent, denied, not allowed, or what
 *               compiling failed of
 */
struct rlx_device_fit {
	char		 device[24];
	bool		 present, allowed, runs, chosen;
	unsigned int	 native, host;
	double		 cost_ns, measured_ns, compile_ns;
	struct rlx_error why;
};

/* One try of rlx_devices_run(), and how long it took. */
struct rlx_attempt {
	char		 device[24];
	uint64_t	 ns;
	struct rlx_error why;		/* RLX_OK: this one ran */
};

/* A graph, its programs by device and its params. Context: any thread, any number. */
struct rlx_devices;

/**
 * rlx_devices_new - for a graph that may run on one device or another.
 * @g:      finished; referenced
 * @policy: referenced; NULL: that of the environment (rlx_policy_env())
 * @opts:   of each compile; NULL for the defaults. Their device must be NULL: it is the
 *          policy's to say. Strings are copied
 * Context: allocates; looks for no device yet. Ownership: rlx_devices_free().
 * Return: RLX_EINVAL (@g is not finished, a device in @opts, the environment), RLX_ENOSUP (it
 * has states, which are in one place), RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_devices_new(struct rlx_graph *g, struct rlx_policy *policy,
		const struct rlx_compile_opts *opts, struct rlx_devices **out,
		struct rlx_error *err);

/* Not while another thread uses it. NULL is fine. */
RLX_EXPORT void rlx_devices_free(struct rlx_devices *ds);

/**
 * rlx_devices_fit - what each device would make of the graph, in the policy's order, those
 * that are out of question last.
 * @fit, @max: filled with up to @max; may be NULL and 0
 * Context: compiles for each candidate that was not compiled for; opens drivers.
 * Return: how many there are.
 */
RLX_EXPORT unsigned int rlx_devices_fit(struct rlx_devices *ds, struct rlx_device_fit *fit,
					unsigned int max);

/**
 * rlx_devices_bind, rlx_devices_set - the value of a param, on all devices, from each one's
 * next run on.
 * @buf:  at least the type's bytes; used in place and referenced
 * @type: the param's, or of another dtype that is converted: floats to floats, integers to
 *        integers. @data is copied, once for all devices
 * Return: RLX_ENOENT, RLX_ESHAPE, RLX_ETYPE, RLX_ERANGE (too few bytes), RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status
rlx_devices_bind(struct rlx_devices *ds, const char *param, struct rlx_buf buf,
		 struct rlx_error *err);
RLX_EXPORT enum rlx_status
rlx_devices_set(struct rlx_devices *ds, const char *param, struct rlx_type type,
		const void *data, struct rlx_error *err);

/**
 * rlx_devices_pick - which device a run would take.
 * @hint:   a device's name, or NULL: the policy's device, its chain's first that can run
 *          the graph, or what pick= says
 * @in:     what pick=measure runs with; NULL: zeros
 * @device: its name
 * Context: compiles; with pick=measure it runs, unless this graph was measured here before.
 * Return: RLX_ENODEV or RLX_ENOSUP: the message has each candidate with what is in its way.
 */
RLX_EXPORT enum rlx_status
rlx_devices_pick(struct rlx_devices *ds, const char *hint, const struct rlx_named_tensor *in,
		 unsigned int n_in, char device[24], struct rlx_error *err);

/**
 * rlx_devices_program - the graph's program for a device, compiled once however many ask.
 * @device: a name
 * Ownership: one reference to *@out is the caller's.
 * Return: RLX_ENODEV (absent, or not allowed), or as rlx_compile().
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_devices_program(struct rlx_devices *ds, const char *device, struct rlx_program **out,
		    struct rlx_error *err);

/**
 * rlx_devices_warm - compile for all candidates, those of different backends at a time,
 * and run each once on zeros, so that the first run finds kernels and params in place.
 * @at, @max: one for each candidate, those that failed with the reason
 * Return: how many are ready.
 */
RLX_EXPORT unsigned int rlx_devices_warm(struct rlx_devices *ds, struct rlx_attempt *at,
					 unsigned int max);

/**
 * rlx_devices_bench - measure all candidates: two runs each unmeasured, then by turns, so
 * that drift meets all alike, until each had @runs or 200 ms.
 * @in:   as for rlx_devices_run(); NULL: zeros
 * @runs: 0: 11
 * @fit:  filled with up to @max, fastest (by the median) first, those that fail last
 * Return: how many there are.
 */
RLX_EXPORT unsigned int
rlx_devices_bench(struct rlx_devices *ds, const struct rlx_named_tensor *in,
		  unsigned int n_in, unsigned int runs, struct rlx_device_fit *fit,
		  unsigned int max);

/* A place for an output in the caller's memory. */
struct rlx_named_result {
	const char	*name;
	struct rlx_type	 type;
	void		*data;
};

/* What a run is given: all inputs, with data, and the outputs that are wanted. */
struct rlx_devices_io {
	const struct rlx_named_tensor	*in;
	unsigned int			 n_in;
	const struct rlx_named_result	*out;
	unsigned int			 n_out;
};

/* Room for @max tries at @at, and how many there were: more than @max are not told. */
struct rlx_attempts {
	struct rlx_attempt	*at;
	unsigned int		 max, n;
};

/**
 * rlx_devices_run - run the graph on the device that the policy wants.
 * @hint:  a device's name: that one, and no other if it fails. NULL: the policy's
 * @io:    inputs are copied in, outputs out
 * @tries: one for each try, the last the one that ran; may be NULL
 *
 * A chain goes on to the next device after RLX_ENODEV, RLX_ENOSUP, RLX_ENOMEM, RLX_ELOST
 * and RLX_ETIME, in compiling or running; what is wrong with the request, and would be on
 * every device, ends it. Inputs are as they were after a try that failed, outputs undefined
 * after failure of all.
 * Context: any thread; each run has a session that no other uses.
 * Return: RLX_OK, or the last try's status, with a message that names each.
 */
RLX_EXPORT enum rlx_status
rlx_devices_run(struct rlx_devices *ds, const char *hint, const struct rlx_devices_io *io,
		struct rlx_attempts *tries, struct rlx_error *err);

/**
 * rlx_devices_set_policy - from the next call on; programs of devices that stay allowed are
 * kept, what was measured is not. Return: RLX_EINVAL (@p is NULL).
 */
RLX_EXPORT enum rlx_status
rlx_devices_set_policy(struct rlx_devices *ds, struct rlx_policy *p, struct rlx_error *err);

/* Drop a device's program and what was measured of it; NULL: of all. Params stay, and
 * runs under way go on with the old program. */
RLX_EXPORT void rlx_devices_forget(struct rlx_devices *ds, const char *device);

#ifdef __cplusplus
}
#endif
#endif
