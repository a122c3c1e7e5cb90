/* SPDX-License-Identifier: MIT */
/*
 * A data set: files of several formats seen as one thing, records of fields at known places.
 * A part is one array or one record file; each record is one run of bytes in each part.
 */
#ifndef RLX_TRAIN_DATASET_H
#define RLX_TRAIN_DATASET_H

#include <sys/stat.h>

#include "rlx/npy.h"
#include "train/record.h"

enum { DATASET_PARTS_MAX = RLX_FIELDS_MAX };

/* How a part's bytes lie in the file. */
enum dataset_codec { DATASET_PLAIN, DATASET_GZIP, DATASET_DEFLATE };

struct dataset_part {
	char			*path;
	int			 fd;
	bool			 direct;	/* @fd is for direct I/O */
	bool			 owns_fd;	/* parts of one .npz share one */
	uint32_t		 align;		/* of offsets and lengths of reads */
	struct stat		 id;
	enum dataset_codec	 codec;
	uint64_t		 packed, packed_bytes;	/* in the file, if it has a codec */
	uint64_t		 base, stride;	/* of record 0; to the next. 0: variable */
	uint64_t		 bytes;		/* of a record, without what may follow it */
	uint64_t		 end;		/* behind the last byte that records take */
};

struct dataset_field {
	struct rlx_field	 field;
	unsigned int		 part;
	uint64_t		 offset;	/* in the record */
};

struct dataset {
	struct dataset_part	 part[DATASET_PARTS_MAX];
	struct dataset_field	 field[RLX_FIELDS_MAX];
	unsigned int		 parts, fields;
	uint64_t		 records;
	uint64_t		 per_chunk, chunks;	/* per_chunk 0: variable records */
	uint64_t		 fingerprint;
	struct rlx_record	*file;		/* of a record file, else NULL */
	uint64_t		 elements;	/* of a stream, as it is before it is cut to rows */
	bool			 stream;
};

/*
 * Open what rlx_loader_opts.path names; headers are read and checked. @buffered: not by
 * direct I/O. On failure @out is closed.
 */
enum rlx_status __rlx_must_check
dataset_open(struct dataset *out, const char *path, bool buffered, struct rlx_error *err);
void dataset_close(struct dataset *d);

/* Cut the stream, or the array of rank 1, to rows of @sample elements every @step ones. */
enum rlx_status __rlx_must_check
dataset_cut(struct dataset *d, unsigned int sample, unsigned int step, struct rlx_error *err);

/* Where record @i lies in @part's (decoded) bytes. */
void dataset_at(const struct dataset *d, unsigned int part, uint64_t i, uint64_t *offset,
		uint64_t *bytes);
/* Where chunk @c lies: the bytes of its records, of a record file all of it. */
void dataset_chunk(const struct dataset *d, unsigned int part, uint64_t c, uint64_t *offset,
		   uint64_t *bytes);
/* Its first record and how many it has. */
void dataset_chunk_records(const struct dataset *d, uint64_t c, uint64_t *first, uint64_t *n);

/* RLX_ESTALE if a file is no longer what was opened. */
enum rlx_status __rlx_must_check
dataset_unchanged(const struct dataset *d, struct rlx_error *err);

/* Write @part, which has a codec, decoded to @to, bytes [from, from + bytes) of it. */
enum rlx_status __rlx_must_check
dataset_unpack(const struct dataset *d, unsigned int part, uint8_t *to, struct rlx_error *err);

/* ---- between the files of dataset_*.c ---- */

/* A file being opened, and what was found in it. */
struct dataset_source {
	struct dataset		*d;
	const char		*path, *name;	/* name: of the field; NULL: the file's own */
	bool			 buffered;
	struct rlx_error	*err;
	const uint8_t		*map;		/* the file, mapped for its headers */
	uint64_t		 size;
};

/* One more array of @n rows: RLX_ERANGE if there are too many, RLX_EEXIST for the name. */
struct dataset_array {
	const char		*name;
	struct rlx_type		 type;		/* the first axis is that of records */
	uint64_t		 offset;	/* of the elements, in the decoded bytes */
	enum dataset_codec	 codec;
	uint64_t		 packed, packed_bytes;
};
enum rlx_status __rlx_must_check
dataset_add_array(const struct dataset_source *s, const struct dataset_array *a);

/* Arrays of an .npz. */
enum rlx_status __rlx_must_check dataset_zip(const struct dataset_source *s);
/* One array: .npy, IDX, also in gzip. @len: what is there of the decoded bytes. */
enum rlx_status __rlx_must_check
dataset_array_head(const struct dataset_source *s, const uint8_t *p, uint64_t len,
		   uint64_t whole, struct dataset_array *a);

#endif
