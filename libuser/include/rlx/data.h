/* SPDX-License-Identifier: MIT */
/*
 * Data sets for training: record files, and a loader that reads them, and others, from the
 * disk into arena memory where programs use them.
 *
 *	struct rlx_loader_opts o = { .size = sizeof(o), .path = "train.rlxr", .batch = 64,
 *				     .shuffle = true, .seed = 1 };
 *	rlx_loader_open(&o, &ld, &err);
 *	x = rlx_loader_input(ld, g, "image");		the graph: u8[64,28,28]
 *	...
 *	rlx_loader_feed(ld, s);				each step: bind the next batch
 *	rlx_session_run(s);
 *
 * Where the file lies on a disk that takes direct I/O (O_DIRECT) no CPU copies any of it:
 * the disk writes to the arena, and the program's first ops pick the batch out of it.
 * struct rlx_loader_info counts what was read how, so that this can be checked.
 *
 * Part of librlx-train (-lrlx-train -lrlx).
 */
#ifndef RLX_DATA_H
#define RLX_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rlx/graph.h"
#include "rlx/run.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RLX_FIELDS_MAX = 16, RLX_FIELD_NAME = 24 };

/**
 * struct rlx_field - one tensor of each record.
 * @name: below RLX_FIELD_NAME bytes, letters, digits and _ - . alone, unique in the file
 * @type: of one record, without a batch axis
 */
struct rlx_field {
	char		name[RLX_FIELD_NAME];
	struct rlx_type	type;
};

/**
 * enum rlx_record_flags - kinds of record files.
 * @RLX_RECORD_STREAM:   one long sequence of scalars (tokens) in place of records: one
 *                       field of rank 0, elements one behind the other
 * @RLX_RECORD_VARIABLE: records of differing length: one field of rank 1, u8, whose
 *                       dimension is the longest allowed
 * @RLX_RECORD_CRC:      (reported) each record has a crc of its own, so that it is checked
 *                       where it is read by itself; set for records of 64 KiB and more
 */
enum rlx_record_flags {
	RLX_RECORD_STREAM	= 1 << 0,
	RLX_RECORD_CRC		= 1 << 1,
	RLX_RECORD_VARIABLE	= 1 << 2,
};

/**
 * struct rlx_record_opts - how to write a record file; zero is the default everywhere.
 * @size:        sizeof(struct rlx_record_opts)
 * @flags:       RLX_RECORD_STREAM or RLX_RECORD_VARIABLE
 * @chunk_bytes: of a chunk, which is read and checked as a whole: a power of two from
 *               64 KiB to 4 MiB; 0: 1 MiB, or what wastes least with large records
 */
struct rlx_record_opts {
	size_t		size;
	uint32_t	flags;
	uint64_t	chunk_bytes;
};

struct rlx_record_writer;

/**
 * rlx_record_create - begin a record file (docs/formats.md describes the format).
 * @path:  the file, which is there only after rlx_record_commit(); what was there before
 *         stays until then
 * @field: @n of them, 1 to RLX_FIELDS_MAX
 * @opts:  may be NULL
 *
 * Context: any thread; allocates one chunk, creates a file beside @path.
 * Ownership: ended by rlx_record_commit() or rlx_record_abort().
 * Return: RLX_EINVAL for a malformed field, name or option; RLX_EEXIST for a name that
 * comes twice; RLX_ERANGE for records that no chunk has room for (4 MiB); RLX_ENOENT,
 * RLX_EACCES, RLX_EIO for the file, RLX_EBADFD if @path is a device, FIFO or folder; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_record_create(const char *path, const struct rlx_field *field, unsigned int n,
		  const struct rlx_record_opts *opts, struct rlx_record_writer **out,
		  struct rlx_error *err);

/**
 * rlx_record_add - append a record, or of a stream some elements.
 * @data:  for each field a dense, row-major tensor of its type; copied
 * @count: 1; of a stream the elements at @data[0], of a variable record its bytes
 * Context: writes each chunk as it fills. After a failure the file can only be aborted.
 * Return: RLX_EINVAL, RLX_ERANGE (a variable record longer than its field), RLX_EIO,
 * RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_record_add(struct rlx_record_writer *w, const void *const *data, uint64_t count,
	       struct rlx_error *err);

/**
 * rlx_record_commit - write the index, flush to the disk, and give the file its name.
 * Ownership: ends @w, also on failure; then no file is left but what was there before.
 * Return: RLX_EIO, RLX_ENOMEM, RLX_EINVAL (no records).
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_record_commit(struct rlx_record_writer *w, struct rlx_error *err);
/* End @w and remove what was written. NULL is fine. */
RLX_EXPORT void rlx_record_abort(struct rlx_record_writer *w);

/* An open record file; immutable, for any number of threads. */
struct rlx_record;

/**
 * struct rlx_record_info - what a record file is.
 * @records:     records, of a stream elements
 * @chunks:      of @chunk_bytes each
 * @stride:      bytes from a record to the next, 0 for variable ones
 * @data_offset: of the first chunk in the file
 * @bytes:       of the file
 * @flags:       enum rlx_record_flags
 * @fields:      in @field
 * @uuid:        made when the file was written
 * @fingerprint: differs between files of other content (rlx_loader_pos)
 */
struct rlx_record_info {
	uint64_t	 records, chunks, chunk_bytes, stride, data_offset, bytes;
	uint32_t	 flags, fields;
	struct rlx_field field[RLX_FIELDS_MAX];
	uint64_t	 offset[RLX_FIELDS_MAX];	/* of the field in its record */
	uint8_t		 uuid[16];
	uint64_t	 fingerprint;
	uint64_t	 reserved[8];
};

/**
 * rlx_record_open - open a record file and check its header and index.
 *
 * No data is read. Files that were cut short, or do not add up, are refused with the byte
 * and the reason. rlx_record_open_mem() takes the @len bytes of a file, which must stay.
 * Context: any thread; allocates 16 bytes a chunk, 12 a variable record.
 * Ownership: rlx_record_close().
 * Return: RLX_ENOENT, RLX_EACCES, RLX_EIO, RLX_EBADFD (no regular file); RLX_EPARSE;
 * RLX_ENOSUP for another version or an unknown flag; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_record_open(const char *path, struct rlx_record **out, struct rlx_error *err);
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_record_open_mem(const void *p, size_t len, struct rlx_record **out, struct rlx_error *err);
/* NULL is fine. */
RLX_EXPORT void rlx_record_close(struct rlx_record *r);
RLX_EXPORT void rlx_record_info(const struct rlx_record *r, struct rlx_record_info *out);

/**
 * rlx_record_read - copy the bytes of a record as they lie in the file: fields at their
 * offsets, or the variable record.
 * @i:         below the records; of a stream an element
 * @data:      @room bytes: the stride, or the longest variable record
 * @out_bytes: how many were written; may be NULL
 * Context: any thread; reads the file. Return: RLX_ERANGE (@i, @room), RLX_EIO.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_record_read(const struct rlx_record *r, uint64_t i, void *data, size_t room,
		uint64_t *out_bytes, struct rlx_error *err);

/**
 * rlx_record_verify - read all of it and check each crc.
 * Context: any thread; reads the whole file, allocates a chunk. Return: RLX_EIO naming
 * the first chunk and its records that are damaged; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_record_verify(const struct rlx_record *r, struct rlx_error *err);

/* ---- loader ---- */

struct rlx_loader;

/**
 * struct rlx_sample - one sample as a decode function gets it.
 * @record: its number in the data set
 * @sample: its place in the whole run, counted over epochs and all ranks: what random
 *          draws should depend on, so that they are the same in a run that was resumed
 * @seed:   the loader's
 * @n:      fields; @data and @bytes of each, in the order of rlx_loader_field()
 */
struct rlx_sample {
	uint64_t		 record, sample, seed;
	unsigned int		 n;
	const void		*data[RLX_FIELDS_MAX];
	uint64_t		 bytes[RLX_FIELDS_MAX];
};

/**
 * typedef rlx_decode_fn - make one sample's fields out of its record.
 * @out: for each of rlx_loader_opts.decoded where its row is; 64-byte aligned if a row is
 *       a multiple of 64 bytes
 * Context: several worker threads at once. Return: a failure with its reason in @err; the
 * record then counts as damaged.
 */
typedef enum rlx_status rlx_decode_fn(void *ctx, const struct rlx_sample *in,
				      void *const *out, struct rlx_error *err);

/**
 * struct rlx_augment - random changes of images, made in place by worker threads.
 * @size:  sizeof(struct rlx_augment)
 * @field: its name: u8[H,W], u8[H,W,C], or u8[C,H,W] if @planar
 * @planar: channels come first
 * @flip:  mirror left and right, every other image on average
 * @shift: move by up to so many pixels along both axes; what comes in is 0
 * @noise: add a whole number, uniform from -noise to noise, to each element, clamped
 *
 * What is drawn depends on the seed and the sample's place in the run alone
 * (Philox-4x32-10). In the program it costs no CPU: prefer that where ops can do it.
 */
struct rlx_augment {
	size_t		 size;
	const char	*field;
	bool		 planar, flip;
	unsigned int	 shift, noise;
};

/**
 * enum rlx_loader_layout - how a batch lies in memory.
 * @RLX_LAYOUT_AUTO:     RESIDENT up to rlx_loader_opts.resident bytes, ROWS for records of
 *                       64 KiB and more and for streams, else CHUNKS
 * @RLX_LAYOUT_RESIDENT: the whole data set stays in the arena; a batch is the numbers of
 *                       its rows. Read once. To the program the data is a param, so that a
 *                       GPU keeps a copy
 * @RLX_LAYOUT_CHUNKS:   windows of chunks are read, records drawn from within a window
 * @RLX_LAYOUT_ROWS:     each record is read by itself, straight to its row of the batch
 */
enum rlx_loader_layout {
	RLX_LAYOUT_AUTO, RLX_LAYOUT_RESIDENT, RLX_LAYOUT_CHUNKS, RLX_LAYOUT_ROWS,
};

/**
 * enum rlx_verify - when crcs of a record file are checked. Other formats have none.
 * @RLX_VERIFY_READ: as chunks are read, by the workers. ROWS: of records that have one
 * @RLX_VERIFY_OPEN: of the whole file at rlx_loader_open(), and as READ
 * @RLX_VERIFY_NONE: never
 */
enum rlx_verify { RLX_VERIFY_READ, RLX_VERIFY_OPEN, RLX_VERIFY_NONE };

/**
 * enum rlx_loader_flags
 * @RLX_LOADER_SKIP:     a damaged record is replaced by another of its batch and counted,
 *                       up to a thousandth of the records (at least one); without it, it
 *                       is an error
 * @RLX_LOADER_DENSE:    workers copy each field to a dense [batch, ..] of its own. For small
 *                       records on a device of its own memory, where the copy is less than
 *                       moving a whole window; counted in bytes_copied
 * @RLX_LOADER_NO_RING:  read by a pool of threads even where io_uring is to be had
 * @RLX_LOADER_BUFFERED: through the page cache even where direct I/O is to be had
 * @RLX_LOADER_GUARD:    no CPU may touch a batch from when its reading begins until
 *                       rlx_loader_next() gives it out: its pages are PROT_NONE, and any
 *                       touch is SIGSEGV. Proves that none does. Wants a ring with
 *                       registered memory, RLX_VERIFY_NONE, and nothing that touches data
 */
enum rlx_loader_flags {
	RLX_LOADER_SKIP		= 1 << 0,
	RLX_LOADER_DENSE	= 1 << 1,
	RLX_LOADER_NO_RING	= 1 << 2,
	RLX_LOADER_BUFFERED	= 1 << 3,
	RLX_LOADER_GUARD	= 1 << 4,
};

/**
 * struct rlx_loader_opts - zero is the default of all but @path and @batch.
 * @size:     sizeof(struct rlx_loader_opts)
 * @path:     a data set: a .rlxr file; an .npz, whose arrays are fields; a .safetensors
 *            file, whose tensors are; an .npy or IDX file, a field by the name "data"; the
 *            last two and members of an .npz also gzipped or deflated; or several with
 *            names of fields, "image=train-images-idx3-ubyte.gz,label=..." (a '=' behind a '/'
 *            is of a file's name). All fields have the same first dimension, that of records
 * @batch:    rows of this rank's batch
 * @sample:   of a stream, or an array of rank 1: elements of a row
 * @step:     elements from the begin of a row to the begin of the next; 0: @sample.
 *            sample - 1 makes the last element of a row the first of the next
 * @window:   chunks of which records are shuffled (CHUNKS); 0: 16 MiB of them
 * @depth:    batches made ahead; 0: 4
 * @workers:  threads that check, decode and augment; 0: 1. Batches do not depend on it
 * @rank, @world: this loader gives rows rank * batch and on of each global batch of
 *            world * batch; world 0: 1
 * @verify:   enum rlx_verify
 * @layout:   enum rlx_loader_layout
 * @flags:    enum rlx_loader_flags
 * @seed:     of the order and of @augment
 * @resident: bytes up to which a data set is kept in memory; 0: 256 MiB
 * @shuffle:  another order in each epoch; false: that of the file
 * @keep_last: the epoch ends with a batch that is not full (rlx_batch.rows); false: what
 *            does not fill a global batch is left out of the epoch
 * @arena:    where batches lie; NULL: an arena of the loader's own
 * @augment:  may be NULL; kept
 * @decode, @ctx: may be NULL. With it fields are those of @decoded
 * @decoded:  @n_decoded fields that @decode makes; copied
 */
struct rlx_loader_opts {
	size_t			  size;
	const char		 *path;
	unsigned int		  batch, sample, step, window, depth, workers, rank, world;
	uint32_t		  verify, layout, flags;
	uint64_t		  seed, resident;
	bool			  shuffle, keep_last;
	struct rlx_arena	 *arena;
	const struct rlx_augment *augment;
	rlx_decode_fn		 *decode;
	void			 *ctx;
	const struct rlx_field	 *decoded;
	unsigned int		  n_decoded;
};

/**
 * rlx_loader_open - open a data set and begin to read ahead.
 *
 * Context: any thread; allocates the ring of batches in the arena, starts 1 + workers
 * threads. Ownership: rlx_loader_close().
 * Return: RLX_EINVAL for an option; RLX_ENOENT, RLX_EACCES, RLX_EIO for a file; RLX_EPARSE
 * if one is not what it claims to be, with the byte and the reason; RLX_ESHAPE if fields
 * have differing numbers of records, or there are fewer than a global batch; RLX_ENOSUP for
 * a dtype, order or compression that is not read in place ('rlx data convert' makes a
 * record file of it); RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_loader_open(const struct rlx_loader_opts *opts, struct rlx_loader **out,
		struct rlx_error *err);

/**
 * rlx_loader_close - stop reading and free all. NULL is fine.
 * Context: waits for reads under way. No batch may be in use: a session it was fed to must
 * have ended its runs; its inputs stay bound to the memory, which lives until it lets go.
 */
RLX_EXPORT void rlx_loader_close(struct rlx_loader *ld);

/* The failure of the last call, or one with RLX_OK. Context: the consumer's thread. */
RLX_EXPORT const struct rlx_error *rlx_loader_error(const struct rlx_loader *ld);

/* Field @i of a sample; NULL if there are not so many. Of a stream "tokens", [sample]. */
RLX_EXPORT const struct rlx_field *rlx_loader_field(const struct rlx_loader *ld,
						    unsigned int i);

/**
 * rlx_loader_input - the value of a field, [batch, ..].
 *
 * Emits into @g the inputs (or params) that batches are bound to and the ops that pick the
 * field out of them: a gather by the numbers of rows, a slice and a reshape. Fields share
 * what they can. Names begin with "data".
 * Context: one thread per graph. Return: none, with the graph's error: no such field.
 */
RLX_EXPORT rlx_value rlx_loader_input(const struct rlx_loader *ld, struct rlx_graph *g,
				      const char *field);

enum { RLX_BATCH_INPUTS_MAX = 2 * RLX_FIELDS_MAX };

/**
 * struct rlx_batch - one batch: what to bind.
 * @sequence: 0 for the first since open or seek
 * @epoch, @sample: where its first row stands: its epoch, its place in the whole run
 * @rows:    that carry data: the loader's batch, fewer at the end of an epoch with
 *           keep_last, where the other rows repeat records
 * @n:       inputs: @io (RLX_IO_INPUT or RLX_IO_PARAM), @name, @type and @buf of each
 */
struct rlx_batch {
	uint64_t	sequence, epoch, sample;
	unsigned int	rows, n;
	struct {
		enum rlx_io	io;
		const char	*name;
		struct rlx_type	type;
		struct rlx_buf	buf;
	} input[RLX_BATCH_INPUTS_MAX];
};

/**
 * rlx_loader_next - wait for the next batch.
 * @timeout_ns: < 0 waits for ever, 0 polls
 *
 * Batches come in order, and are the consumer's until rlx_loader_done(); at most depth may
 * be out at once. After a failure the position stays where it is: rlx_loader_seek() begins
 * again there.
 * Context: one consumer thread; sleeps. Return: RLX_ETIME; RLX_EAGAIN if all are out;
 * RLX_EIO for a failed or short read, or damaged data, with file, chunk and records;
 * RLX_ESTALE if a file was replaced, changed or removed since it was opened (RESIDENT has
 * read it, and does not look again).
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_loader_next(struct rlx_loader *ld, struct rlx_batch *out, int64_t timeout_ns);

/* The run that read @batch has ended: its memory is free again. In order. */
RLX_EXPORT void rlx_loader_done(struct rlx_loader *ld, const struct rlx_batch *batch);

/**
 * rlx_loader_feed - bind the next batch to a session by name, and give back the one fed
 * before, whose run must have ended.
 *
 * Inputs that the program does not have, because nothing reads their fields, are left out.
 * A batch that is not full sets rlx_session_extent(), a full one takes that back.
 * Context: the consumer's thread, no run under way. Return: as rlx_loader_next() and
 * rlx_session_bind(); the reason is in rlx_loader_error().
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_loader_feed(struct rlx_loader *ld, struct rlx_session *s);

/**
 * rlx_loader_prefetch - have the session's device bring the batch that rlx_loader_feed() binds
 * next, beside a submitted run that is under way (rlx_session_prefetch()).
 *
 *	rlx_session_submit(s, &run);
 *	rlx_loader_prefetch(ld, s);
 *	rlx_session_wait(s, run, -1);
 *	rlx_loader_feed(ld, s);
 *
 * A batch that is not there yet is not waited for, and of a depth of 1 none is there: then
 * rlx_loader_feed() takes it as ever. Back-pressure, order and positions are the same.
 * Context: the consumer's thread, of the session that rlx_loader_feed() is called with. Return:
 * RLX_OK, also where nothing was brought; as rlx_loader_next() and rlx_session_prefetch(), then
 * rlx_loader_feed() tells the same.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_loader_prefetch(struct rlx_loader *ld, struct rlx_session *s);

/**
 * rlx_batch_row - where a field of one row lies, for the CPU to read.
 * @row: below the batch
 * Context: while the batch is out. Return: NULL if there is no such field or row.
 */
RLX_EXPORT const void *rlx_batch_row(const struct rlx_loader *ld,
				     const struct rlx_batch *batch, const char *field,
				     unsigned int row);

/**
 * struct rlx_loader_pos - where a run stands; 48 bytes that a checkpoint keeps.
 * @magic:       RLX_LOADER_POS
 * @fingerprint: of the data set
 * @seed:        of the order
 * @samples:     records of the data set
 * @epoch, @position: global samples of that epoch that were done
 */
#define RLX_LOADER_POS	0x31736f7078726c72ull
struct rlx_loader_pos {
	uint64_t magic, fingerprint, seed, samples, epoch, position;
};

/* The place behind the last batch given back by rlx_loader_done(). */
RLX_EXPORT void rlx_loader_tell(const struct rlx_loader *ld, struct rlx_loader_pos *out);

/**
 * rlx_loader_seek - go on from a place that rlx_loader_tell() told, also in another process,
 * with other workers, depth or layout of memory.
 *
 * The seed of @pos is taken over. The order within an epoch depends on the window (CHUNKS),
 * so that has to be the same for equal batches.
 * Context: the consumer's thread; no batch may be out. Stops and starts reading.
 * Return: RLX_EINVAL (no position, or not at the begin of a global batch of batch * world);
 * RLX_ESTALE (of another data set, or it changed); RLX_EBUSY (a batch is out); RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_loader_seek(struct rlx_loader *ld, const struct rlx_loader_pos *pos);

/**
 * struct rlx_loader_info - what a loader does, and counts since it was opened.
 * @records, @epoch_batches: of the data set; batches in an epoch
 * @layout:        the one in use
 * @bytes_arena:   of the arena that it took
 * @bytes_direct:  read by O_DIRECT, past the page cache
 * @bytes_buffered: read through the page cache, which a CPU copied
 * @bytes_decoded: written by workers: decoded or augmented
 * @bytes_copied:  copied by workers: RLX_LOADER_DENSE, and replaced rows
 * @batches:       made
 * @waits:         calls of rlx_loader_next() that had to wait
 * @skipped:       records that were replaced (RLX_LOADER_SKIP)
 * @reader:        how files are read, and why not by a ring of io_uring
 * @direct:        "direct", or why direct I/O is not used for all files
 */
struct rlx_loader_info {
	uint64_t	records, epoch_batches;
	uint32_t	layout;
	uint64_t	bytes_arena, bytes_direct, bytes_buffered, bytes_decoded, bytes_copied;
	uint64_t	batches, waits, skipped;
	char		reader[160], direct[224];
	uint64_t	reserved[8];
};

/* Context: any thread. */
RLX_EXPORT void rlx_loader_info(const struct rlx_loader *ld, struct rlx_loader_info *out);

#ifdef __cplusplus
}
#endif
#endif
