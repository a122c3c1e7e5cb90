/* SPDX-License-Identifier: MIT */
/*
 * How plan files lie on the disk (docs/formats.md), and one that is open.
 *
 * Metadata first: header, tables, the text of the graphs; a copy of it is what is checked and
 * read. Then, from a page on, the arrays, which stay where they are.
 */
#ifndef RLX_MODEL_PLAN_FILE_H
#define RLX_MODEL_PLAN_FILE_H

#include <stdatomic.h>

#include "io/formats/file.h"
#include "ir/graph.h"
#include "ir/store.h"
#include "rlx/aot.h"

enum {
	PLAN_FORMAT = 1, PLAN_ENDIAN = 0x01020304,
	PLAN_PAGE = 4096,
	PLAN_ALIGN = 64,	/* of arrays, and what may be read beyond one */
	PLAN_BIG = 65536,	/* arrays from this size on begin at a page */
	PLAN_SMALL = 4096,	/* contents of fewer bytes are never left out */
	PLAN_SOURCES = 32,
};

#define PLAN_MAGIC	"RLXPLAN\n"	/* without its 0 */

/* @meta: bytes from the start of the file; tables lie in them. */
struct plan_header {
	char		magic[8];
	uint32_t	format, endian;
	uint64_t	bytes, meta;
	uint64_t	hash[2];	/* of the metadata, these as zeros */
	uint32_t	flags;		/* of enum rlx_compile_flags */
	uint32_t	threads;
	uint32_t	n_graph, n_blob, n_entry, zero;
	uint64_t	graph, blob, entry;	/* where those tables are */
	uint8_t		sources[PLAN_SOURCES];	/* see plan_file_sources */
	char		version[32], layout[32];
};

/* The text of a graph, in the metadata. */
struct plan_graph {
	uint64_t	at, bytes;
};

/* A constant; @at 0: its contents are left out. */
struct plan_blob {
	uint64_t	at, bytes, hash;
};

/* What was prepared of a constant: as in a store. */
struct plan_entry {
	uint64_t	at, bytes, hash;
	int64_t		param[4];
	char		kind[RLX_STORE_KIND_BYTES];
	uint64_t	blob;
};

struct rlx_plan_file {
	atomic_uint		 refs;
	struct rlx_file		 file;
	struct plan_header	*h;		/* a copy of the metadata */
	void			*zeros;		/* contents of what is left out */
	uint64_t		 n_zero;
};

/* Its graphs, the program's first. Begins as zeros. */
struct plan_graphs {
	struct rlx_blob_list	 blobs;		/* referenced */
	struct rlx_graph	**g;
	uint32_t		 n;
};

/* SHA-256 of the sources of ops, lowerings and kernels, which say what all of it means. */
extern const uint8_t plan_file_sources[PLAN_SOURCES];

/* Both halves of the metadata's hash; h->hash is taken as zeros. */
void plan_file_hash(const struct plan_header *h, uint64_t out[2]);

/* Does @path begin as a plan file does? */
bool rlx_is_plan_file(const char *path);

/* Map @path and check its metadata, but not for which machine it is. Ownership: put. */
enum rlx_status rlx_plan_file_open(const char *path, struct rlx_plan_file **out,
				   struct rlx_error *err);
void rlx_plan_file_put(struct rlx_plan_file *f);
/* RLX_ENOSUP unless it is of these sources and for @device; NULL: the device that it names. */
enum rlx_status rlx_plan_file_fits(const struct rlx_plan_file *f, const char *path,
				   const char *device, struct rlx_error *err);
/* Of a file that fits. plan_graphs_fini() ends them, after failures as well. */
enum rlx_status rlx_plan_file_graphs(struct rlx_plan_file *f, struct plan_graphs *out,
				     struct rlx_error *err);
void plan_graphs_fini(struct plan_graphs *g);
/* Read all weights and compare their hashes. */
enum rlx_status rlx_plan_file_verify(const struct rlx_plan_file *f, const char *path,
				     struct rlx_error *err);
/* As rlx_program_file_info() does; @path is its name. */
void rlx_plan_file_info(const struct rlx_plan_file *f, const char *path,
			struct rlx_program_file_info *out);
/* A program for @opts, which are complete. */
enum rlx_status rlx_plan_file_program(struct rlx_plan_file *f, const char *path,
				      const struct rlx_load_opts *opts,
				      struct rlx_program **out, struct rlx_error *err);

#endif
