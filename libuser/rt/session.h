/* SPDX-License-Identifier: MIT */
/* A session's private struct, shared by session.c, slot.c and submit.c. */
#ifndef RLX_RT_SESSION_H
#define RLX_RT_SESSION_H

#include <pthread.h>
#include <stdatomic.h>

#include "rt/rt.h"

/* A session's own memory for a param, which clones go on using when that session has gone. */
struct rlx_own {
	atomic_uint	refs;
	struct rlx_buf	buf;
};

/* Where output @i is. */
struct rlx_span {
	uintptr_t	begin, end;
	unsigned int	i;
};

/* One input, param or output of a session. */
struct rlx_slot {
	const char	*name;		/* of the program, as are type and bytes */
	const struct rlx_type *type;
	uint64_t	 bytes;
	struct rlx_buf	 buf;		/* bound now; arena NULL: none yet */
	struct rlx_buf	 own;		/* what the session made, if it did */
	struct rlx_own	*shared;	/* of a param own, or what buf is of a clone's; else NULL */
	struct rlx_buf	 stage;		/* copy of an input that an output overlaps */
	struct rlx_view	*view;		/* the caller's, copied from or to buf; NULL: none */
	bool		 bound;		/* by the caller */
	/* to the device's memory: buf's addresses are, and own is what the host has for it */
	bool		 device;
	bool		 blank;		/* own is there for that alone, and has no value */
	bool		 filled;	/* an input or param that has a value */
	bool		 staged;
	bool		 stable;	/* an input, of which the caller tells when it changes */
	bool		 shown;		/* the caller knows where own is, and may write there */
	bool		 computed;	/* an output, to which the last run that should wrote */
	bool		 fetched;	/* it is kept, and buf has it as well */
	int		 feeds;		/* outputs: index of the input it becomes; -1 */
	/*
	 * A state is an input and an output of one buffer, the input's: of either the index of
	 * the other, -1 for a state that stays. Memory of a struct rlx_states has its mark.
	 */
	bool		 state;
	int		 other;
	bool		*given;
};

/* The thread that runs what was submitted; started by the first one that needs it. */
struct rlx_runner {
	pthread_t	 thread;
	pthread_mutex_t	 lock;		/* guards all below; see rlx_runner_busy() */
	pthread_cond_t	 work, done;
	bool		 started, stop, todo;
	uint64_t	 asked;
	_Atomic uint64_t finished;
	enum rlx_status	 result;
	/* Of the session's own thread: the device has the run, and no thread of ours. */
	bool		 away;
	uint64_t	 point;		/* of the exec, if it has */
	struct rlx_error err;		/* what came of such a run */
};

struct rlx_session {
	struct rlx_program	*p;
	struct rlx_arena	*arena;		/* where own buffers come from */
	bool			 strict;
	struct rlx_slot		*slot[3];
	struct rlx_buf		 work;
	bool			 work_given;	/* by the caller */
	struct rlx_exec		*exec;
	void			**ptr[3];	/* exec->ptr; behind them exec->at */
	struct rlx_arena	**arenas[3];	/* exec->arena; not referenced */
	/*
	 * Which steps runs leave out, as exec->skip: those that no output needs of @want, by root
	 * of values (NULL: all), and those whose results are @fresh, kept since params changed.
	 */
	uint8_t			*skip, *want, *fresh, *need;
	bool			 skip_stale;	/* want or fresh is another since then */
	struct rlx_states	*states;	/* referenced; NULL: states are its own */
	bool			 states_apart;	/* the device has them in memory of its own */
	bool			*persistent;		/* per output: it is fed, and the device keeps it */
	struct rlx_content	*content;	/* exec->content */
	struct rlx_placement	*placement;	/* exec->placement */
	uint64_t		 versions;	/* the last number given */
	struct rlx_span		*placed;	/* outputs by place, of the last look at them */
	unsigned int		 n_placed;
	bool			 ready;		/* every buffer is there */
	struct rlx_error	 err;
	struct rlx_runner	 runner;
};

/* One list of the plan's, in which states are inputs and their next values outputs. */
static inline unsigned int rlx_slot_count(const struct rlx_session *s, enum rlx_io list)
{
	return s->p->plan->n_io[list];
}

/*
 * slot.c: find by name (message in s->err), give it memory, tell the backend. @io: as callers
 * see it; becomes the list that it is in.
 */
struct rlx_slot *rlx_slot_find(struct rlx_session *s, enum rlx_io *io,
			       const char *name, unsigned int *out_i);
/* states.c: bind all states of @s to those of @states; keep them on the device. */
enum rlx_status rlx_states_attach(struct rlx_session *s, struct rlx_states *states,
				  struct rlx_error *err);
void rlx_states_detach(struct rlx_session *s);
/* How messages call an entry of the plan's lists. */
const char *rlx_slot_kind(const struct rlx_session *s, enum rlx_io list, unsigned int i);
struct rlx_slot *rlx_slot_at(struct rlx_session *s, enum rlx_io *io, unsigned int *i);
/* Is it an input that an output becomes? Its buffer is written to from then on. */
bool rlx_slot_is_fed(const struct rlx_session *s, enum rlx_io io, unsigned int i);
/* Is it a fed output that the device keeps, or the input that it becomes? */
bool rlx_slot_is_persistent(const struct rlx_session *s, enum rlx_io io, unsigned int i);
enum rlx_status rlx_slot_bind(struct rlx_session *s, enum rlx_io io, unsigned int i,
			      struct rlx_buf buf);
/* The same of memory of the device's own; not of a param, a state, or what is fed. */
enum rlx_status rlx_slot_bind_device(struct rlx_session *s, enum rlx_io io, unsigned int i,
				     struct rlx_buf buf);
void rlx_slot_unbind(struct rlx_session *s, enum rlx_io io, unsigned int i);
/* content.c: what is in slot @i of @list may be another; the caller knows where it is. */
void rlx_content_changed(struct rlx_session *s, enum rlx_io list, unsigned int i);
void rlx_content_shown(struct rlx_session *s, enum rlx_io list, unsigned int i);
/* A run has ended so, of which outputs are to be told. */
void rlx_content_ran(struct rlx_session *s, enum rlx_status st);
/* RLX_EBUSY while a run is under way; clears the last error. */
enum rlx_status rlx_session_not_busy(struct rlx_session *s);
/* view.c */
void rlx_slot_drop_view(struct rlx_slot *slot);
void rlx_session_copy_views(struct rlx_session *s, enum rlx_io io);
enum rlx_status rlx_slot_own(struct rlx_session *s, enum rlx_io io, unsigned int i);
void rlx_slot_apply(struct rlx_session *s, enum rlx_io io, unsigned int i);
/* The buffer of a state is that of its next value, too: if @io's @i is one, say so. */
void rlx_slot_mirror(struct rlx_session *s, enum rlx_io io, unsigned int i);
void rlx_slot_fini(struct rlx_slot *slot);
/* The clone's param @to is what @from is, whoever made that. */
void rlx_slot_share(struct rlx_slot *to, const struct rlx_slot *from);
/* All inputs filled, all outputs have memory, no harmful overlap. */
enum rlx_status rlx_slots_ready(struct rlx_session *s);

/*
 * overlap.c: no output lies over another one or a param. Then whether one has all bytes of input
 * @i, RLX_EINVAL if some.
 */
enum rlx_status rlx_outputs_disjoint(struct rlx_session *s);
enum rlx_status rlx_input_over_outputs(struct rlx_session *s, unsigned int i, bool *out_hit);

/* submit.c */
bool rlx_runner_busy(struct rlx_session *s);
void rlx_runner_fini(struct rlx_session *s);
/* session.c: the run itself, on whichever thread, and what comes after it. */
enum rlx_status rlx_exec_run(struct rlx_exec *exec);
enum rlx_status rlx_session_run_now(struct rlx_session *s);
enum rlx_status rlx_session_ended(struct rlx_session *s, enum rlx_status st);
bool rlx_session_stages(const struct rlx_session *s);
/* experts.c: what is kept of layers of experts: all are resident at first. */
enum rlx_status rlx_placements_init(struct rlx_session *s, struct rlx_error *err);
void rlx_placements_copy(struct rlx_session *s, const struct rlx_session *like);
void rlx_placements_fini(struct rlx_session *s);
/* skip.c: allocate; which steps the next run leaves out; it has ended well; a param changed. */
enum rlx_status rlx_skip_init(struct rlx_session *s, struct rlx_error *err);
void rlx_skip_begin(struct rlx_session *s);
void rlx_skip_ran(struct rlx_session *s);
void rlx_skip_param_changed(struct rlx_session *s);
void rlx_skip_fini(struct rlx_session *s);

#endif
