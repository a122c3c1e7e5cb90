/* SPDX-License-Identifier: MIT */
/* Record files (.rlxr): what stands where. docs/formats.md describes the format. */
#ifndef RLX_TRAIN_RECORD_H
#define RLX_TRAIN_RECORD_H

#include "rlx/data.h"

enum {
	RECORD_VERSION	= 1,
	RECORD_HEAD	= 4096,		/* bytes of the header, where chunks begin */
	RECORD_CHUNK_MIN = 64 << 10,
	RECORD_CHUNK_MAX = 4 << 20,
	RECORD_LARGE	= 64 << 10,	/* from this stride on records are read by themselves */
	RECORD_ALIGN	= 64,		/* of records and fields */
};

/* On the disk, little-endian. */
struct record_disk_field {
	char		name[RLX_FIELD_NAME];
	uint32_t	dtype, rank;
	int64_t		dim[RLX_MAX_RANK];
	uint64_t	offset;
	uint32_t	codec, reserved;
};

struct record_disk_head {
	char		magic[8];
	uint32_t	version, flags;
	uint64_t	records, data, chunk_bytes, chunks, index, index_bytes;
	uint8_t		uuid[16];
	uint32_t	fields, reserved;
	struct record_disk_field field[RLX_FIELDS_MAX];
	uint32_t	stride, crc;	/* of all bytes before it; 0 follows */
};

struct record_disk_chunk {
	uint64_t	first;
	uint32_t	records, crc;
};

/* A variable record: from its chunk's begin on. */
struct record_disk_span {
	uint32_t	offset, bytes;
};

#define RECORD_MAGIC	"RLXREC1"

struct rlx_record {
	struct rlx_record_info		 info;
	char				*path;
	int				 fd;	/* -1: in memory */
	const uint8_t			*mem;
	void				*index;	/* as on the disk; the rest points into it */
	const struct record_disk_chunk	*chunk;
	const struct record_disk_span	*span;	/* variable records, else NULL */
	const uint32_t			*record_crc;	/* or NULL */
	uint64_t			 per_chunk;	/* records; 0: variable */
	bool				 direct;	/* @fd was opened by O_DIRECT */
};

/* Where record @i lies in the file, and its chunk. */
void record_at(const struct rlx_record *r, uint64_t i, uint64_t *offset, uint64_t *bytes,
	       uint64_t *chunk);
/* Offsets of fields and the stride they give; false if that is over @max. */
bool record_layout(const struct rlx_field *field, unsigned int n, uint64_t max,
		   uint64_t *offset, uint64_t *out_stride);
/* What is wrong with fields, or NULL; shared by who writes and who reads them. */
const char *record_bad_field(const struct rlx_field *field, unsigned int n, uint32_t flags);

#endif
