/* SPDX-License-Identifier: MIT */
/*
 * ONNX Runtime as a peer: its shared library, opened at run time, runs a model
 * in its best single-process configuration, for benchmarks and parity tests.
 */
#ifndef RLX_TOOLS_PEER_ORT_H
#define RLX_TOOLS_PEER_ORT_H

#include "rlx/type.h"

struct rlx_peer;

/**
 * struct rlx_peer_value - a named tensor of the peer.
 * @name: the model's name of the input or output
 * @type: its type; in a declared signature a dimension left open is -1
 * @data: dense, row-major; NULL in a declared signature
 * @bytes: length of @data
 */
struct rlx_peer_value {
	const char	*name;
	struct rlx_type	 type;
	const void	*data;
	size_t		 bytes;
};

/**
 * rlx_peer_open - load the library and a model.
 * @lib:     path of libonnxruntime.so
 * @model:   path of the ONNX file
 * @threads: threads within an operator, at least 1; they spin between runs
 * @out:     the peer; closed with rlx_peer_close()
 * @err:     may be NULL
 *
 * All graph optimisations are on, execution is sequential, the memory arena and
 * pattern are the peer's defaults (on). Context: may allocate, starts threads.
 * Return: RLX_ENOENT without the library or model, RLX_ENOSUP if the library is
 * older than the interface used here, RLX_EPARSE if the peer refuses the model.
 */
enum rlx_status __rlx_must_check
rlx_peer_open(const char *lib, const char *model, int threads,
	      struct rlx_peer **out, struct rlx_error *err);

/* Ends the session and its threads. The library stays loaded. NULL is fine. */
void rlx_peer_close(struct rlx_peer *p);

/* "1.31.1". Owned by the library. */
const char *rlx_peer_version(const struct rlx_peer *p);

/* Declared inputs and outputs, in the model's order; owned by @p. */
size_t rlx_peer_inputs(const struct rlx_peer *p,
		       const struct rlx_peer_value **out);
size_t rlx_peer_outputs(const struct rlx_peer *p,
			const struct rlx_peer_value **out);

/**
 * rlx_peer_bind - set the inputs of the runs to come.
 * @v: one value for each input of the model, in any order; the data is used in
 *     place and must stay until the next bind or close
 *
 * Drops the outputs of earlier runs. Return: RLX_ENOENT for a name that is no
 * input, RLX_EINVAL if one is missing, RLX_ETYPE, RLX_ENOSUP for a dtype the
 * peer has not.
 */
enum rlx_status __rlx_must_check
rlx_peer_bind(struct rlx_peer *p, const struct rlx_peer_value *v, size_t n,
	      struct rlx_error *err);

/**
 * rlx_peer_run - run once on the bound inputs.
 *
 * From the second run on outputs are written where the first put them, so a
 * timed loop measures no allocation of outputs. Return: RLX_EINVAL before a
 * bind, RLX_EIO with the peer's words if it fails.
 */
enum rlx_status __rlx_must_check
rlx_peer_run(struct rlx_peer *p, struct rlx_error *err);

/**
 * rlx_peer_output - the tensor the last run left in output @i.
 * Ownership: @out's data is the peer's, until the next run, bind or close.
 */
enum rlx_status __rlx_must_check
rlx_peer_output(struct rlx_peer *p, size_t i, struct rlx_peer_value *out,
		struct rlx_error *err);

/* Runs @n times and stores each run's nanoseconds in @ns. */
enum rlx_status __rlx_must_check
rlx_peer_time(struct rlx_peer *p, size_t n, double *ns, struct rlx_error *err);

#endif
