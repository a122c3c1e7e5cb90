/* SPDX-License-Identifier: MIT */
/*
 * Models in files, or made from graphs. A model is opened once and instantiated for concrete
 * inputs; a file's weights are mapped, not read, and shared by all instances.
 *
 * rlx_model_graph() gives the graph of a model whose shapes follow from the
 * shapes (and, where asked, the contents) of its inputs. rlx_runner_run() takes
 * any model: it instantiates, compiles and caches as inputs come, and where a
 * size depends on computed data it runs a part, looks, and goes on.
 */
#ifndef RLX_MODEL_H
#define RLX_MODEL_H

#include "rlx/run.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rlx_model;
struct rlx_runner;

/**
 * rlx_model_open - map and parse a model of whatever format it is found to have.
 * @path: an ONNX file; a GGUF file of a decoder (architecture llama, with experts or without,
 *        qwen2, qwen3 or qwen3moe; rotary positions as they are, divided, or by rope_freqs; gpt2,
 *        as rlx train writes it), whose input is "input_ids" i64[batch, sequence] and its output
 *        "logits" f32[batch, sequence, vocabulary], each of the texts seen from its begin to the
 *        row's token, weights in blocks of rlx/scheme.h staying packed; a plan file (rlx/aot.h)
 *        without params and states, which runners run for the shapes that it is for, under no
 *        precision but its own, and whose graph cannot be compiled; the text form of a graph
 *        without states (rlx_graph_print()), which is then as rlx_model_from_graph() makes it, and
 *        whose file is read once; or the folder of a BERT encoder (rlx/bert.h), whose inputs are
 *        "input_ids" i64[batch, sequence], "lengths" i64[batch] and, where given,
 *        "token_type_ids", and its output "last_hidden_state". Kept mapped; must not be
 *        truncated while the model lives
 * Context: any thread; allocates, sleeps. Ownership: one reference is the
 * caller's. Return: RLX_ENOENT, RLX_EIO, RLX_EPARSE (no known format: the message lists
 * them and what the file begins with; else with the byte offset, of a text with line and column),
 * RLX_ENOSUP, RLX_ENOMEM, and of a text any status that rlx_graph_parse() gives.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_model_open(const char *path, struct rlx_model **out, struct rlx_error *err);
RLX_EXPORT struct rlx_model *rlx_model_get(struct rlx_model *m);

/**
 * rlx_model_from_graph - a graph built in C as a model.
 * @g: finished; referenced. With names for sizes (rlx/dims.h) or without
 *
 * rlx_model_io_at() tells names and expressions of sizes as the text form has them,
 * rlx_model_graph() gives @g bound to the sizes of its inputs, and a runner compiles it for the
 * sizes that come. Its params are set in a runner, rlx_runner_set(); rlx_model_tensor_at() has
 * none.
 *
 * What inputs have to agree on: RLX_ESHAPE names the dimension, and who gives it which size, or
 * the input that does not fit; RLX_ERANGE a size outside its range; RLX_ENOENT an input that is
 * missing, or not there; RLX_EINVAL a dimension that no input and no param tells.
 * Context: any thread; allocates. Ownership: one reference is the caller's.
 * Return: RLX_EINVAL (not finished), the graph's own error, RLX_ENOSUP (it has states),
 * RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_model_from_graph(struct rlx_graph *g, struct rlx_model **out, struct rlx_error *err);

/**
 * rlx_model_verify - tell what is wrong with a model for inputs of any size.
 *
 * Of a plan file all weights are compared with the hashes that it has of them, which
 * rlx_model_open() leaves alone since all of the file is read for it. Of an ONNX file each node's
 * op must be known, but in the bodies of control flow, of which some may never run.
 *
 * Context: any thread; sleeps. Return: RLX_EPARSE, with the place of what is damaged; RLX_ENOSUP,
 * which names op, opset and node; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_model_verify(const struct rlx_model *m, struct rlx_error *err);
RLX_EXPORT void rlx_model_put(struct rlx_model *m);

/**
 * struct rlx_model_io - an input or output as the file declares it.
 * @name:   owned by the model
 * @dtype:  RLX_NODTYPE if it is no tensor of numbers
 * @rank:   -1 if not declared
 * @dim:    -1 where not fixed; @dim_name is then its name, or ""
 */
struct rlx_model_io {
	const char	*name;
	enum rlx_dtype	 dtype;
	int		 rank;
	int64_t		 dim[RLX_MAX_RANK];
	const char	*dim_name[RLX_MAX_RANK];
};

/* Inputs that have no default, and outputs, in the file's order. */
RLX_EXPORT unsigned int rlx_model_io_count(const struct rlx_model *m, enum rlx_io io);
RLX_EXPORT bool rlx_model_io_at(const struct rlx_model *m, enum rlx_io io,
				unsigned int i, struct rlx_model_io *out);

/**
 * rlx_model_tensor_at - a tensor that is stored in the model: a weight, a table.
 * @out: name and data are the model's, the bytes where the file is mapped: aligned to
 *       nothing, read only. RLX_NODTYPE and no data if it has no counterpart here
 *       (strings, more than RLX_MAX_RANK dimensions)
 * Context: any thread; no allocation. Return: false if there are not so many.
 */
RLX_EXPORT bool rlx_model_tensor_at(const struct rlx_model *m, unsigned int i,
				    struct rlx_named_tensor *out);
RLX_EXPORT unsigned int rlx_model_tensor_count(const struct rlx_model *m);

/**
 * rlx_model_graph - instantiate for these inputs.
 * @in:    all inputs without a default; @data where the contents are known and
 *         the graph may depend on them (NULL elsewhere)
 * @out_g: finished, one reference; it keeps the model's weights alive
 * Return: RLX_EINVAL names an input whose contents are needed; RLX_ENOSUP: a size
 * depends on computed data, use rlx_runner_run(); see also rlx_model_open().
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_model_graph(struct rlx_model *m, const struct rlx_named_tensor *in,
		unsigned int n_in, struct rlx_graph **out_g, struct rlx_error *err);

/**
 * rlx_runner_new - runs @m, compiling as inputs come.
 * @m:    referenced
 * @opts: for rlx_compile(); NULL for the defaults. The name of the device is copied, the store is
 *        referenced
 *
 * Nothing is compiled yet: a device that there is not is told by the first run.
 * Context: any thread, allocates. Then one thread at a time per runner; any number of runners.
 * Ownership: rlx_runner_free(*@out). Return: RLX_EINVAL (no model; options that rlx_compile()
 * refuses), RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_runner_new(struct rlx_model *m, const struct rlx_compile_opts *opts,
	       struct rlx_runner **out, struct rlx_error *err);
/* Its sessions end with it. NULL is fine. */
RLX_EXPORT void rlx_runner_free(struct rlx_runner *r);

/**
 * rlx_runner_set - set a param of a model that is a graph (rlx_model_from_graph()).
 * @type: what @data holds: of the shape that the graph says, where a size that is known later may
 *        be any in its range that the other params agree with; the dtype may be another one of
 *        the same family (floats, integers), and is converted
 * @data: dense; copied
 *
 * Before any run and its sizes, or between runs: the next run has it, whatever its sizes, and so
 * has the next of a session that rlx_runner_session() gave, if its program takes the shape; one
 * whose run is under way has it by rlx_runner_run() or rlx_runner_session() alone. Programs of all
 * sizes share it: no session may write there (rlx_session_set() of it is RLX_EACCES). Of 1 MiB on,
 * a device with memory of its own has it once and from now on, where drivers can share memory, and
 * but under RLX_COMPILE_PLACE; else the first run of each size uploads it. Smaller ones take no
 * descriptor. What it was set to before is freed, there as well, once no run and no clone has it.
 * For a param of another shape alone it is compiled anew.
 * Context: of the runner; allocates. Return: RLX_ENOENT (no such param), RLX_ESHAPE, RLX_ERANGE,
 * RLX_ETYPE, RLX_EINVAL, RLX_ENOMEM; all is as it was then.
 */
RLX_EXPORT enum rlx_status
rlx_runner_set(struct rlx_runner *r, const char *param, struct rlx_type type,
	       const void *data, struct rlx_error *err);

/**
 * rlx_runner_clone - a runner of the same model and options, for another thread.
 *
 * It shares the params that are set, until either is set anew, and what either compiles for inputs
 * of equal types, in threads that may run on the same processors.
 * Context: while nobody uses @r; allocates. Ownership: rlx_runner_free(*@out).
 * Return: RLX_EINVAL, RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_runner_clone(const struct rlx_runner *r, struct rlx_runner **out, struct rlx_error *err);

/**
 * rlx_runner_run - one inference.
 * @in: all inputs without a default, with data; copied in. All params of a graph are set
 * Afterwards the outputs are at rlx_runner_output() until the next run. Programs and
 * their sessions are kept for inputs of the same types, up to 256 MiB of sessions and 512
 * of these; then what was used longest ago goes, but for what rlx_runner_session() gave.
 * A run that failed leaves none.
 * Context: of the runner; allocates, compiles for inputs of types that are new, sleeps until the
 * run is done. Ownership: outputs are the runner's. Return: RLX_EINVAL (no runner; an input or a
 * param is missing, has no data, or was changed meanwhile), RLX_ENOMEM; what the model's file
 * (rlx_model_graph()), rlx_compile(), rlx_session_new(), rlx_session_set() and rlx_session_run()
 * return.
 */
RLX_EXPORT enum rlx_status
rlx_runner_run(struct rlx_runner *r, const struct rlx_named_tensor *in,
	       unsigned int n_in, struct rlx_error *err);

/**
 * rlx_runner_prepare - compile for inputs of these types ahead of a run, in the background.
 * @in:        as for rlx_runner_run(), but @data only of inputs whose contents sizes depend on
 *             (NULL elsewhere), which is copied
 * @out_point: for rlx_runner_wait(); may be NULL
 *
 * It returns at once: a thread that a runner and its clones share compiles what they asked for, in
 * that order, where the caller may run. Runs of other sizes go on. A run that needs what is being
 * compiled waits for that, of a clone as well, and one that needs what is queued compiles it. The
 * session is made as well, unless a clone has that program. For a range of sizes:
 *
 *	for (b = 1; b <= 64; b *= 2)
 *		rlx_runner_prepare(r, &(struct rlx_named_tensor){
 *				   "x", rlx_type(RLX_F32, b, 16, 4), NULL }, 1, &point, &err);
 *	rlx_runner_wait(r, point, -1, &err);	the last one, and so all
 *
 * Params may be set before or after, but for one whose sizes are not known before. Of a model of
 * several programs it is the first, others depend on data. What no run has had yet is kept up to
 * what rlx_runner_run() says, then the oldest goes. rlx_runner_free() drops what is queued, and
 * waits for what is being compiled. Functions of rlx_compile_opts are called on that thread.
 * Context: of the runner; allocates, sleeps for no compile.
 * Return: RLX_EINVAL (a type), RLX_EAGAIN (512 are queued), RLX_ENOMEM. What compiling says,
 * rlx_runner_wait() does; a run tries it again.
 */
RLX_EXPORT enum rlx_status
rlx_runner_prepare(struct rlx_runner *r, const struct rlx_named_tensor *in,
		   unsigned int n_in, uint64_t *out_point, struct rlx_error *err);

/**
 * rlx_runner_wait - wait for what rlx_runner_prepare() gave @point for.
 * @timeout_ns: < 0 waits for ever, 0 polls
 * Context: of the runner; sleeps. Return: what compiling it returned, with its message, which is
 * what rlx_runner_run() can return; RLX_ETIME: wait again; RLX_ESTALE: it was compiled, and gave
 * way to what was since; RLX_EINVAL: there is no such point.
 */
RLX_EXPORT enum rlx_status
rlx_runner_wait(struct rlx_runner *r, uint64_t point, int64_t timeout_ns,
		struct rlx_error *err);

/* Output @i of the last run; false if there is none or it is no tensor. */
RLX_EXPORT unsigned int rlx_runner_output_count(const struct rlx_runner *r);
RLX_EXPORT bool rlx_runner_output(const struct rlx_runner *r, unsigned int i,
				  struct rlx_named_tensor *out);

/**
 * rlx_runner_session - the session that these inputs run in, for binding buffers
 * and running without the runner. NULL (and RLX_ENOSUP in @err) if the model needs
 * several. Owned by the runner, valid until rlx_runner_free().
 */
RLX_EXPORT struct rlx_session *
rlx_runner_session(struct rlx_runner *r, const struct rlx_named_tensor *in,
		   unsigned int n_in, struct rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
