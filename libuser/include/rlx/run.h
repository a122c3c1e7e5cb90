/* SPDX-License-Identifier: MIT */
/*
 * Running a program. A session binds buffers to a program's inputs, outputs and
 * params and owns one workspace. Bound buffers are read and written in place;
 * the copying calls are a convenience on top, and counted (rlx_stats).
 *
 * One session is used by one thread at a time; any number of sessions may run
 * one program at once.
 */
#ifndef RLX_RUN_H
#define RLX_RUN_H

#include "rlx/arena.h"
#include "rlx/compile.h"
#include "rlx/view.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rlx_session;

/* A named tensor in the caller's memory; @data may be NULL where said. */
struct rlx_named_tensor {
	const char	*name;
	struct rlx_type	 type;
	const void	*data;
};

/**
 * struct rlx_session_opts - zero means the default everywhere.
 * @size:   sizeof(struct rlx_session_opts)
 * @arena:  where the workspace and unbound inputs, outputs and params live; NULL:
 *          an arena of the session's own
 * @strict: refuse what copies (RLX_EACCES), so that no copy can creep in: the copying
 *          calls, an input that shares its memory with an output, and a program with
 *          steps on the host whose values cross between it and the device. What a device
 *          moves of bound buffers to memory of its own is no such copy
 * @work:   the workspace, instead of one taken of @arena: work_bytes of the program's
 *          info, 64-byte aligned. Sessions may share one if no two of them ever run at
 *          once; so nothing stays there between runs, and each does what depends on params
 *          alone, the packing of convolutions' weights too (rlx_session_bind()), while GEMMs
 *          read weights as they are. Its arena is referenced.
 *          Empty: the session's own
 * @states: where the program's states are, by their names; referenced. NULL: the session's
 *          own
 */
struct rlx_states;
struct rlx_session_opts {
	size_t			 size;
	struct rlx_arena	*arena;
	bool			 strict;
	struct rlx_buf		 work;
	struct rlx_states	*states;
};

/**
 * rlx_session_new - a session over @p, which it references.
 * Context: allocates. Return: RLX_ENOMEM, RLX_ERANGE (@opts->arena or @opts->work is
 * too small, or not aligned), RLX_EACCES (@opts->work is read-only; or @opts->strict, and
 * steps on the host exchange values with the device: the message names the first one,
 * its op and the line that emitted it), RLX_ENOENT or RLX_ESHAPE (@opts->states lack a state,
 * or have it in another type), RLX_ENOSUP (another session has them in a device's memory).
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_session_new(struct rlx_program *p, const struct rlx_session_opts *opts,
		struct rlx_session **out, struct rlx_error *err);

/* Waits for submitted runs. NULL is fine. */
RLX_EXPORT void rlx_session_free(struct rlx_session *s);

/**
 * rlx_session_clone - a session over the same program with the same bindings of
 * params and the same placement of experts (rlx/moe.h), its own workspace, and its own
 * inputs, outputs and states, unbound. More of it: rlx_session_clone_with(). It is strict if @s is.
 * Context: no other thread uses @s meanwhile; allocates. Ownership: rlx_session_free(*@out), also
 * after @s is gone. Return: RLX_EINVAL (NULL); as rlx_session_new().
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_session_clone(const struct rlx_session *s, struct rlx_session **out,
		  struct rlx_error *err);

/**
 * enum rlx_clone_flags - what else a clone takes over.
 * @RLX_CLONE_FEEDS:  rlx_session_feed()
 * @RLX_CLONE_EXTENT: rlx_session_extent()
 * @RLX_CLONE_WANT:   rlx_session_want()
 * @RLX_CLONE_STATES: what its states, and the inputs that outputs become, hold now: a copy in
 *                    memory of the clone's own, also of states that sessions share. Those without
 *                    a value have none in the clone
 */
enum rlx_clone_flags {
	RLX_CLONE_FEEDS		= 1u << 0,
	RLX_CLONE_EXTENT	= 1u << 1,
	RLX_CLONE_WANT		= 1u << 2,
	RLX_CLONE_STATES	= 1u << 3,
};

/**
 * rlx_session_clone_with - rlx_session_clone(), and with it what @flags say.
 * @s: what a device keeps of its states is brought to its buffers first, as by
 *     rlx_session_bound(); else it is not changed
 *
 * Context: allocates; neither session runs meanwhile. Ownership: as rlx_session_new(). Return: as
 * there; RLX_EINVAL (a flag that is not known), RLX_EBUSY (a submitted run is under way), and what
 * bringing states back gives (RLX_ELOST). Then there is no clone.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_session_clone_with(struct rlx_session *s, uint32_t flags, struct rlx_session **out,
		       struct rlx_error *err);

/* The failure of the last call on this session, or one with status RLX_OK. */
RLX_EXPORT const struct rlx_error *rlx_session_error(const struct rlx_session *s);

/**
 * rlx_session_bind - use @buf for an input, output or param from the next run on.
 * @io, @name: what to bind
 * @buf:       at least the type's bytes; on "cpu" and "ref" at any address that fits its
 *             elements (rlx_dtype_align(); results are the same, 64-byte aligned ones
 *             the fastest), on a GPU 64-byte aligned. Nothing beyond the type's bytes
 *             is read or written. Its arena is referenced until it is bound anew or
 *             the session ends
 *
 * What a param holds is taken to stay as it is: a device with memory of its own keeps
 * a copy from the first run on, and on every device steps that depend on params and
 * constants alone (a weight turned, rounded or widened) and, on the CPU, the packing of
 * weights for their kernels are done by the first run only, whose results the session
 * keeps. Bind it again, even where it is, set it, or ask for its buffer anew to change it:
 * the next run then does all of that once more; but GEMMs read a param that changes every few
 * runs as it is, as they do inputs, which may round sums otherwise. Inputs are read by each
 * run, whoever writes them; not so those of rlx_session_bind_stable() and rlx_session_set().
 *
 * An output may overlap an input only if both are the same slice; the program
 * then works on a copy of that input, which is counted as copied. It may overlap
 * neither another output nor a param: the next run says so with RLX_EINVAL.
 * Return: RLX_ENOENT (no such name), RLX_ERANGE (too small, or not aligned),
 * RLX_EACCES (an output in a read-only arena), RLX_EBUSY (a run is under way).
 */
RLX_EXPORT enum rlx_status
rlx_session_bind(struct rlx_session *s, enum rlx_io io, const char *name,
		 struct rlx_buf buf);

/**
 * rlx_session_bind_stable, rlx_session_bind_stable_at - rlx_session_bind() of an input whose
 * bytes the caller changes only with a word: rlx_session_touch(), or what changes a param.
 *
 * A device with memory of its own brings it with the first run, and then only after such a word;
 * what was written without one it may or may not see. It takes device memory for a copy of
 * its own even where an output could take the input's place; without any left there, and where a
 * step writes its output over the input (attention over a cache), each run brings it. Of such
 * devices a GPU reads up to 64 KiB in place where it can. On devices that use the host's
 * memory this is rlx_session_bind(), and what was written is always seen. Of a param, which is
 * stable anyway, it is rlx_session_bind() everywhere.
 *
 * Bind it anew by whichever call to end it; rlx_session_feed() into the input ends it as well. A
 * run that writes over it itself (an output in the same slice) is known to.
 * Ownership, context: as rlx_session_bind(). Return: as there; RLX_EINVAL (an output or a state,
 * which runs write to; an input that is fed). Then all is as it was.
 */
RLX_EXPORT enum rlx_status
rlx_session_bind_stable(struct rlx_session *s, enum rlx_io io, const char *name,
			struct rlx_buf buf);
RLX_EXPORT enum rlx_status
rlx_session_bind_stable_at(struct rlx_session *s, enum rlx_io io, unsigned int i,
			   struct rlx_buf buf);

/**
 * rlx_session_touch, rlx_session_touch_at - an input's, param's or state's bytes were changed in
 * the buffer that is there: the next run takes them as they are then.
 *
 * Of a pair or state that a device keeps, what is in the buffer counts, not what the device has.
 * An input that is not stable is read by each run anyway.
 * Context: neither sleeps nor allocates; copies nothing. Return: RLX_ENOENT; RLX_EINVAL (an output;
 * or nothing is there yet); RLX_EBUSY (a run is under way).
 */
RLX_EXPORT enum rlx_status
rlx_session_touch(struct rlx_session *s, enum rlx_io io, const char *name);
RLX_EXPORT enum rlx_status
rlx_session_touch_at(struct rlx_session *s, enum rlx_io io, unsigned int i);

/**
 * rlx_session_prefetch - bring what an input is bound to next to the device ahead of its run,
 * beside a submitted one that is under way.
 * @io:   RLX_IO_INPUT
 * @buf:  as for rlx_session_bind(), which binds it for the run; if that binds another one, nothing
 *        came of it. From now on until the run has ended nobody writes there. Empty: what was
 *        prefetched is forgotten, and may be written to
 *
 * Between rlx_session_submit() and rlx_session_wait() it lets the next batch move while a device
 * with memory of its own computes. Such a device takes as much memory for the input again. Nothing
 * is moved, and that is no failure, where the host's memory is used in place; where the arena is
 * not registered with the device; of inputs that a device reads in place (up to 64 KiB on a GPU)
 * or whose place an output takes; and without memory left there. What is moved counts as
 * brought (rlx_session_transfers()) by the run that reads it.
 * Context: of the session; sleeps neither for the run nor for the copy; the arena is referenced
 * until another buffer of this input is prefetched or the session ends. Return: RLX_ENOENT (no
 * such name), RLX_EINVAL (no input), RLX_ERANGE (too small, or not aligned), RLX_EBUSY (to forget
 * while a run is under way).
 */
RLX_EXPORT enum rlx_status
rlx_session_prefetch(struct rlx_session *s, enum rlx_io io, const char *name, struct rlx_buf buf);

/**
 * enum rlx_where - which memories have a value's bytes as they are now.
 * @RLX_WHERE_HOST:   the buffer that is bound, or the session's own
 * @RLX_WHERE_DEVICE: memory of the device's own, where the next run would find it without a copy
 */
enum rlx_where {
	RLX_WHERE_HOST		= 1,
	RLX_WHERE_DEVICE	= 2,
};

/**
 * rlx_session_where, rlx_session_where_at - tell where a value's bytes are.
 * @out: bits of enum rlx_where. 0: there is no value yet, or, of an output, none of the last run
 *       that should have written it: it failed, or what it wrote has become the input it feeds
 *
 * A param and a stable input are in both places once a run has brought them, and in the host's
 * alone from the word on that they changed; a param in a resident arena (rlx/resident.h) is in
 * both from the start. A param that is experts of a program with RLX_COMPILE_PLACE is in the
 * host's alone, whatever slots they have (rlx/moe.h). What a device keeps of a pair or a state
 * is there alone after a run, and in both places after rlx_session_get() or rlx_session_bound()
 * of it. Results are in the host's memory, and so is all on devices that use that.
 * Context: neither sleeps for the device nor allocates, and moves nothing
 * (rlx_session_transfers()). Return: RLX_ENOENT; RLX_EINVAL (no @out); RLX_EBUSY (a run is under
 * way); *@out is then not written.
 */
RLX_EXPORT enum rlx_status
rlx_session_where(struct rlx_session *s, enum rlx_io io, const char *name, uint32_t *out);
RLX_EXPORT enum rlx_status
rlx_session_where_at(struct rlx_session *s, enum rlx_io io, unsigned int i, uint32_t *out);

/**
 * rlx_session_bind_view, rlx_session_bind_view_at - use elements that need not lie densely for
 * an input or output from the next run on.
 * @view: where they are; all of them inside its buffer, whose arena is referenced as by
 *        rlx_session_bind(). Strides that are dense are bound so, and nothing is copied
 *
 * Kernels take dense tensors: before each run such an input is copied to memory of the
 * session's, after each run such an output from there, all its rows, which is counted
 * (rlx_stats: bytes_copied), and a run that is submitted has a thread of the session's. Where
 * the graph can say it, an op (transpose, slice, broadcast) often costs nothing. Views of
 * inputs and outputs may overlap: inputs are read before outputs are written.
 * rlx_session_bound() is the dense copy. Binding, setting or writing it by rlx_session_buf()
 * ends the view of an input.
 * Return: RLX_ENOENT; RLX_ERANGE (an element outside the buffer, or not aligned to its size);
 * RLX_EINVAL (a param or state; one that is fed; elements of an output that share a place);
 * RLX_EACCES (a strict session, or an output in a read-only arena); RLX_ENOMEM; RLX_EBUSY.
 */
RLX_EXPORT enum rlx_status
rlx_session_bind_view(struct rlx_session *s, enum rlx_io io, const char *name,
		      const struct rlx_view *view);
RLX_EXPORT enum rlx_status
rlx_session_bind_view_at(struct rlx_session *s, enum rlx_io io, unsigned int i,
			 const struct rlx_view *view);

/**
 * rlx_session_unbind - let go of the caller's inputs and outputs: the session has its
 * own memory there again, if it ever made some, and no reference to theirs.
 * Context: neither sleeps nor allocates. Return: RLX_EBUSY (a run is under way).
 */
RLX_EXPORT enum rlx_status rlx_session_unbind(struct rlx_session *s);

/**
 * rlx_session_buf - memory to write into: the caller's buffer that is bound, or the
 * session's own slot, made now if there is none. To look without an effect, ask
 * rlx_session_bound().
 *
 * An input or param counts as having a value from then on, and what a device keeps of
 * it is brought over anew by the next run: write before that. An output may be asked
 * for as well, to know where runs will write.
 * Context: allocates the first time. Return: empty, with the reason in
 * rlx_session_error(): no such name, no memory, a run is under way.
 */
RLX_EXPORT struct rlx_buf rlx_session_buf(struct rlx_session *s, enum rlx_io io,
					  const char *name);

/**
 * rlx_session_bound - look at the buffer that is there now, for reading.
 *
 * Nothing changes by it: what has no value has none after it, no memory is made, and a
 * device keeps what it has. Of a pair that is fed and kept by a device, its content is
 * brought to the buffer first (rlx_session_feed()).
 * Return: empty, with RLX_OK in rlx_session_error() if there is no memory yet, else
 * with the reason: no such name, a run is under way.
 */
RLX_EXPORT struct rlx_buf rlx_session_bound(struct rlx_session *s, enum rlx_io io,
					    const char *name);

/**
 * rlx_session_set, rlx_session_get - copy a whole tensor in or out.
 * @type: what @data holds; must be the input's type, only the dtype may differ
 *        among floats or among integers, and is then converted
 *
 * A device with memory of its own brings an input that was set once, and again when another
 * value is set: the session compares while it copies. For that the input must be in the
 * session's memory, and nobody have asked where (rlx_session_buf(), rlx_session_bound()): else
 * each run brings it. An input whose place an output takes is brought twice before it stays.
 * Return: RLX_ENOENT, RLX_ESHAPE, RLX_ETYPE, RLX_EACCES (a strict session).
 */
RLX_EXPORT enum rlx_status
rlx_session_set(struct rlx_session *s, enum rlx_io io, const char *name,
		struct rlx_type type, const void *data);
RLX_EXPORT enum rlx_status
rlx_session_get(struct rlx_session *s, enum rlx_io io, const char *name,
		struct rlx_type type, void *data);

/**
 * rlx_session_bind_at, rlx_session_buf_at, rlx_session_bound_at, rlx_session_set_at,
 * rlx_session_get_at - the same by index, without a search for the name.
 * @i: below rlx_program_io_count(), in its order: rlx_program_io_name() and
 *     rlx_program_io_type() tell the name, dtype and shape, rlx_program_io_find() the
 *     index of a name
 * Return: as by name; RLX_ENOENT (or empty) if there are not so many.
 */
RLX_EXPORT enum rlx_status
rlx_session_bind_at(struct rlx_session *s, enum rlx_io io, unsigned int i,
		    struct rlx_buf buf);
RLX_EXPORT struct rlx_buf rlx_session_buf_at(struct rlx_session *s, enum rlx_io io,
					     unsigned int i);
RLX_EXPORT struct rlx_buf rlx_session_bound_at(struct rlx_session *s, enum rlx_io io,
					       unsigned int i);
RLX_EXPORT enum rlx_status
rlx_session_set_at(struct rlx_session *s, enum rlx_io io, unsigned int i,
		   struct rlx_type type, const void *data);
RLX_EXPORT enum rlx_status
rlx_session_get_at(struct rlx_session *s, enum rlx_io io, unsigned int i,
		   struct rlx_type type, void *data);

/**
 * rlx_session_rows - copy rows [@first, @first + @n) of an output's leading axis.
 * @data:  dense, in the output's own dtype
 * @bytes: room at @data; must be n times the bytes of one row
 *
 * What a device has is brought to the host first.
 * Context: of the session, no run under way; may allocate. Return, the reason in
 * rlx_session_error(): RLX_ENOENT (no such output), RLX_EINVAL (NULL, or no run yet), RLX_EACCES
 * (the session is strict), RLX_ERANGE (rows that it has not, or another @bytes), RLX_EBUSY (a run
 * is under way), what copying from the device leaves.
 */
RLX_EXPORT enum rlx_status
rlx_session_rows(struct rlx_session *s, const char *output, int64_t first,
		 int64_t n, void *data, size_t bytes);

/**
 * rlx_session_want - compute only these outputs in later runs; NULL: all.
 * Steps that no wanted output needs are skipped. States whose next values are
 * computed together (AdamW's moments and weight, results of one op) are replaced
 * together, if a wanted output needs one of those. Unknown name: RLX_ENOENT and
 * nothing changes.
 */
RLX_EXPORT enum rlx_status
rlx_session_want(struct rlx_session *s, const char *const *outputs, unsigned int n);

/**
 * rlx_session_feed - after each run, output @output becomes input @input of the
 * next: the two exchange buffers, nothing is copied. For state: KV caches, RNN
 * states, optimiser moments. Both must have one type. NULL @output ends it.
 *
 * A device with memory of its own keeps the pair there from the first run on, in one
 * place, if the output replaces the input (attention over a cache it appends to, a sum
 * with the state). To see it, get it or ask for its buffer; to change it, set it, bind
 * it, or ask for the input's buffer anew. A run that fails may have changed it there
 * already; elsewhere it is as it was before.
 * Return: RLX_ENOENT, RLX_ESHAPE; RLX_EACCES if the input is bound to an arena that is
 * mapped read-only, as rlx_session_bind() does of an input that is fed; RLX_EINVAL if either
 * lies by strides (rlx_session_bind_view()). A call that
 * fails so leaves the feeds there are.
 */
RLX_EXPORT enum rlx_status
rlx_session_feed(struct rlx_session *s, const char *output, const char *input);

/**
 * rlx_session_extent - only the first @actual of @upper rows carry data.
 *
 * @upper is the leading dimension that the program was compiled for, @actual at
 * most that. Ops along the leading axis of inputs with that dimension (or a
 * multiple of it, rows times sequence) work on the first rows only. The other rows
 * of an output are left as they are, or hold what came of the other rows of the
 * inputs where an op was computed whole, or in tiles of several rows. @actual 0 turns
 * it off. A GPU reads the number where it runs: launches are captured once for all.
 * Return: RLX_ERANGE (@actual is not within 0 and @upper); RLX_ESHAPE (no input's
 * leading dimension is @upper or a multiple of it: its message lists them). Then the
 * extent is as it was.
 */
RLX_EXPORT enum rlx_status
rlx_session_extent(struct rlx_session *s, int64_t actual, int64_t upper);

/**
 * rlx_session_run - run to the end on the calling thread and the device's.
 * Context: sleeps for at most the device's own waits; takes no lock and
 * allocates nothing on "cpu" when all steps are native.
 * Return: RLX_OK; RLX_ERANGE and others from an op that met bad data (an index
 * out of range), with the op's name and the caller's file and line in
 * rlx_session_error(). The session can be run again.
 */
RLX_EXPORT enum rlx_status rlx_session_run(struct rlx_session *s);

/**
 * rlx_session_submit - queue a run and return at once.
 * @out_point: its place on the session's timeline, for rlx_session_wait()
 *
 * Buffers must not be touched until it is done. One run may be under way in a session;
 * those of several overlap. A GPU has the run when this returns, and no thread is
 * needed for it, if all its steps and buffers are the device's to use (steps that the
 * host takes, memory that could not be registered). Else a thread of the session's does
 * it, as on the CPU. The first one brings the params over and captures the launches,
 * before it returns where no thread does it.
 * Return: RLX_EBUSY (one is under way), RLX_ENOMEM; what the run would have given, if it
 * could not be begun (RLX_ELOST): then none is under way.
 */
RLX_EXPORT enum rlx_status
rlx_session_submit(struct rlx_session *s, uint64_t *out_point);

/**
 * rlx_session_wait - wait for a submitted run.
 * @point:      of rlx_session_submit(): the latest run's. Nothing is kept of those
 *              before: they are done, and what is returned is what is kept
 * @timeout_ns: < 0 waits for ever, 0 polls
 * Return: the run's own status, with its message in rlx_session_error(), or RLX_ETIME:
 * it goes on, wait again. RLX_EINVAL: no run of this session has that point.
 */
RLX_EXPORT enum rlx_status
rlx_session_wait(struct rlx_session *s, uint64_t point, int64_t timeout_ns);

/**
 * struct rlx_transfers - what a session's runs copied between host and device.
 * @in, @in_bytes:   to the device's memory: inputs and params staged there, results of
 *                   steps that the host takes
 * @out, @out_bytes: from it: outputs, what is kept there and asked for, operands of
 *                   steps that the host takes
 */
struct rlx_transfers {
	uint64_t in, in_bytes, out, out_bytes;
	uint64_t reserved[4];
};

/**
 * rlx_session_transfers - the counts since the session was made; all 0 on "cpu".
 *
 * Data of tensors is counted, by whoever moves it: the device's engines, its kernels, or
 * a CPU (that part is counted as copied as well, rlx_stats). Not counted: buffers that
 * kernels use in place in host memory, constants, which are the program's, but for those that are
 * experts (rlx/moe.h), and the few bytes of addresses, counts and status words that a run takes.
 * Context: not while a run is under way. Return: all 0 for NULL.
 */
RLX_EXPORT struct rlx_transfers rlx_session_transfers(const struct rlx_session *s);

/**
 * rlx_states_new - memory for all states of a program.
 * @arena: where; NULL: an arena of their own
 *
 * Sessions of several programs may share them, if their states are some of these by name and
 * type: one program trains, one evaluates, one adds up gradients. Runs of two of them must
 * not overlap unless both only read. A device with memory of its own has them there from the
 * first run on, for one session at a time; rlx_session_bound() and rlx_session_get() of a
 * state bring it back.
 *
 * A session without them has states of its own. Either way a state needs a value before the
 * first run: set it (RLX_IO_STATE), or write to its buffer. What an output is to it, see
 * rlx_state_next(); runs that rlx_session_want() restricts replace what their outputs need.
 * Context: allocates. Ownership: one reference. Return: RLX_ENOMEM, RLX_ERANGE.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_states_new(struct rlx_program *p, struct rlx_arena *arena, struct rlx_states **out,
	       struct rlx_error *err);
RLX_EXPORT struct rlx_states *rlx_states_get(struct rlx_states *s);
RLX_EXPORT void rlx_states_put(struct rlx_states *s);

/* How many, and the name and type of one, in the program's order; NULL beyond them. */
RLX_EXPORT unsigned int rlx_states_count(const struct rlx_states *s);
RLX_EXPORT const char *rlx_states_name(const struct rlx_states *s, unsigned int i);
RLX_EXPORT const struct rlx_type *rlx_states_type(const struct rlx_states *s, unsigned int i);
/* Index of a name, -1 if there is none. */
RLX_EXPORT int rlx_states_find(const struct rlx_states *s, const char *name);

/**
 * rlx_states_buf - memory of state @i, to write to before the first run of a session that has
 * them; it counts as having a value from then on. On "cpu" and "ref" it is what runs use.
 * Context: any thread, no run under way. Return: empty beyond the last one.
 */
RLX_EXPORT struct rlx_buf rlx_states_buf(struct rlx_states *s, unsigned int i);

/* The program, referenced by the session. */
RLX_EXPORT struct rlx_program *rlx_session_program(const struct rlx_session *s);

#ifdef __cplusplus
}
#endif
#endif
