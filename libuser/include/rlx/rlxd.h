/* SPDX-License-Identifier: MIT */
/*
 * What rlxd understands over a channel (rlx/serve.h): a client asks it about models,
 * and has them run on slices of its own arena, in place.
 *
 *	struct rlxd_ask ask = { .model = "vision", .size = { 1 } };
 *	struct rlx_request rq = { .opcode = RLXD_INFER, .nr_slices = 2,
 *				  .inline_len = sizeof(ask) };
 *
 *	memcpy(rq.inline_data, &ask, sizeof(ask));
 *	rlx_channel_slice(ch, x, RLX_ACCESS_READ, &rq.slice[0]);
 *	rlx_channel_slice(ch, y, RLX_ACCESS_WRITE, &rq.slice[1]);
 *	rlx_channel_call(ch, &rq, &reply, RLX_NO_DEADLINE);
 *
 * The result of a request is 0 or one of
 *
 *	-ENOENT      no such model here, or not for this client
 *	-EINVAL      the request is malformed: opcode, inline data, number of slices
 *	-EDOM        sizes that the model does not take
 *	-ERANGE      a slice is too short or does not begin at a multiple of 64 bytes;
 *	             an input holds an index outside of what it refers to; or there are
 *	             more rows than max_queue of the configuration ever allows, more
 *	             elements than max_elements, or a run takes more than max_run_memory
 *	-EACCES      a slice does not allow what it is for, or an output lies where an
 *	             input does
 *	-EOPNOTSUPP  this model cannot be run in place: a size in it depends on its data
 *	-EBUSY       more under way than max_rows of the configuration allows
 *	-EAGAIN      the queue of the model is full; later it may work
 *	-ETIME       not begun by its deadline, or within request_timeout
 *	-ECANCELED   taken back before it was begun
 *	-ENOMEM, ... what else running the model can end with
 *
 * The log of the server tells more. No request, whatever is in it, ends the channel.
 */
#ifndef RLX_RLXD_H
#define RLX_RLXD_H

#include <stdint.h>

#include <rlx/type.h>

enum {
	RLXD_NAME	= 40,	/* bytes of a model's name */
	RLXD_SIZES	= 6,	/* free sizes that a request can give */
	RLXD_TENSORS	= 16,	/* inputs of a model, and outputs */
	RLXD_LENGTHS	= 16,
};

/**
 * enum rlxd_opcode - of a request.
 * @RLXD_MODEL: tell about a model, the one named or else the ask.size[0]-th of those
 *              that this client may use: slice[0] is written to, as much of a struct
 *              rlxd_model as fits. The reply's aux is how many there are
 * @RLXD_INFER: run it. The slices are its inputs, in order, without optional ones at
 *              their end that shall be missing, and then all its outputs. Each begins
 *              at a multiple of 64 bytes of its arena. ask.size holds the sizes of all
 *              inputs' free dimensions, in order
 */
enum rlxd_opcode {
	RLXD_MODEL	= 1,
	RLXD_INFER	= 2,
};

/**
 * struct rlxd_ask - the inline data of a request, all of it.
 * @model: its name, zeros behind it
 * @size:  see enum rlxd_opcode; zeros behind them
 */
struct rlxd_ask {
	char		model[RLXD_NAME];
	uint32_t	size[RLXD_SIZES];
};

/**
 * struct rlxd_tensor - an input or output of a model.
 * @name:     cut to fit, with a zero behind it
 * @dtype:    enum rlx_dtype
 * @optional: an input that may be left out
 * @dim:      -1: free
 */
struct rlxd_tensor {
	char		name[64];
	uint32_t	dtype, rank, optional, reserved;
	int64_t		dim[RLX_MAX_RANK];
};

/**
 * struct rlxd_model - what a model takes and gives.
 * @name:     with zeros behind it, none if it has 40 bytes
 * @in_place: 0: it has more free sizes, inputs or outputs than a request can give
 * @nr_in, @nr_out: how many of @in and @out
 * @nr_length: of an encoder, which takes input_ids of shape [rows, length]: how many
 *             of @length; 0 for any other model
 * @length:    the lengths it takes
 * @rows_max:  rows an encoder takes at once. With more than one, each slice has room
 *             for so many. Ids that do not count, behind the end that attention_mask
 *             tells or behind the rows of the request, must be ids nonetheless, 0 for
 *             one; outputs behind those rows hold anything afterwards
 */
struct rlxd_model {
	char		name[RLXD_NAME];
	uint32_t	in_place, nr_in, nr_out, nr_length, rows_max, reserved;
	uint32_t	length[RLXD_LENGTHS];
	struct rlxd_tensor in[RLXD_TENSORS], out[RLXD_TENSORS];
};

#endif
