/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints' inside. The caller's thread copies tensors into a slot, laid out as the files
 * will be; one thread writes slots in order. A slot is the caller's while FREE, the writer's
 * while FULL; the list of steps is the writer's while it has a slot, else the caller's.
 */
#ifndef RLX_TRAIN_CKPT_H
#define RLX_TRAIN_CKPT_H

#include <limits.h>
#include <pthread.h>
#include <unistd.h>

#include "base/json.h"
#include "rlx/ckpt.h"
#include "rlx/safetensors.h"
#include "train/reader.h"

enum {
	CKPT_FILES	= 2,		/* behind these parts are counted */
	CKPT_PARTS_MAX	= 256,		/* ranks */
	CKPT_BLOCK	= 16 << 20,	/* bytes for each of the manifest's crcs */
	CKPT_PAGE	= 4096,
	CKPT_KEY_MAX	= 64,
	CKPT_BLOB_MAX	= 1 << 20,
	CKPT_MANIFEST_MAX = 64 << 20,
	CKPT_IN_FLIGHT	= 16,
};

/* A file as it lies, or shall lie, in memory: whole pages, the last one filled with zeros. */
struct ckpt_image {
	uint8_t		*base;
	uint64_t	 bytes;		/* of the file */
	uint32_t	 crc, blocks;
	uint32_t	*block_crc;
	struct rlx_safetensor *tensor;	/* what the header is made of */
	uint64_t	*offset;	/* of each tensor in the file */
	unsigned int	 n;
};

struct ckpt_blob {
	char		 key[CKPT_KEY_MAX];
	uint8_t		*data;
	size_t		 bytes;
};

struct ckpt_slot {
	bool		 full;
	uint64_t	 sequence, step, graph_hash;
	bool		 has_metric;
	double		 metric;
	struct rlx_arena *arena;
	struct rlx_buf	 memory;
	struct ckpt_image image[CKPT_FILES];
	struct ckpt_image *part;	/* the rank's own; of a load, those that it wants */
	unsigned int	 n_part, cap_part;
	struct ckpt_image *all;		/* of all ranks, as the manifest has them: no memory */
	unsigned int	 n_all;
	struct ckpt_blob *blob;
	unsigned int	 n_blob;
	struct reader_req *req;
	uint64_t	 n_req;
	struct reader	*reader;
};

struct ckpt_step {
	uint64_t	step;
	bool		has_metric;
	double		metric;
};

struct rlx_ckpt {
	char			*dir;
	struct rlx_ckpt_opts	 o;
	int			 lock_fd;
	uint32_t		 pid;	/* of the rank whose folder all write to; 0: the own one */
	struct ckpt_step	*step;	/* those on the disk, the oldest first */
	uint32_t		 steps, cap_steps;

	pthread_mutex_t		 mutex;
	pthread_cond_t		 work, idle;
	pthread_t		 thread;
	bool			 running, stop;
	struct ckpt_slot	*slot;
	uint64_t		 queued, written;	/* sequences */
	struct rlx_error	 untold;	/* the first failure that no call told yet */
	struct rlx_error	 err;
	struct rlx_ckpt_info	 info;
};

/* What a manifest says. */
struct ckpt_manifest {
	struct rlx_json	 json;
	uint64_t	 step, graph_hash;
	bool		 has_metric;
	double		 metric;
	uint32_t	 blobs;		/* node of the object */
	unsigned int	 ranks;		/* that have parts; 0: none */
	uint64_t	 bytes[CKPT_FILES + CKPT_PARTS_MAX];
	uint32_t	 blocks[CKPT_FILES + CKPT_PARTS_MAX];	/* node of the list of crcs */
	uint32_t	 crc[CKPT_FILES + CKPT_PARTS_MAX];
};

/* A checkpoint in memory, checked. */
struct ckpt_loaded {
	struct ckpt_manifest	 m;
	struct rlx_safetensors	*file[CKPT_FILES], *part[CKPT_PARTS_MAX];
};

/* The name of file @f, which is a part's from CKPT_FILES on, of @ranks. */
const char *ckpt_file_name(char to[40], unsigned int f, unsigned int ranks);
/* The image of it in @s. */
static inline struct ckpt_image *ckpt_image(struct ckpt_slot *s, unsigned int f)
{
	return f < CKPT_FILES ? &s->image[f] : &s->part[f - CKPT_FILES];
}

/* DIR, DIR/step-<step>, DIR/<what><step>-<pid>; then /<file>, if there is one. */
void ckpt_path(char out[PATH_MAX], const struct rlx_ckpt *ck, const char *what, uint64_t step,
	       const char *file);
/* The step that a folder of that name holds; false: none. */
bool ckpt_parse_name(const char *name, uint64_t *step);

/* ---- ckpt_image.c ---- */
/* Room in @s for files of these many bytes and @parts behind; keeps what is enough. */
enum rlx_status __rlx_must_check
ckpt_slot_reserve(struct rlx_ckpt *ck, struct ckpt_slot *s, const uint64_t *bytes,
		  unsigned int parts, struct rlx_error *err);
/* So many parts in @s. False: no memory. */
bool ckpt_slot_parts(struct ckpt_slot *s, unsigned int parts);
/* Copy @set into @s. */
enum rlx_status __rlx_must_check
ckpt_snapshot(struct rlx_ckpt *ck, struct ckpt_slot *s, const struct rlx_ckpt_set *set,
	      struct rlx_error *err);
void ckpt_slot_fini(struct ckpt_slot *s);
void ckpt_image_crc(struct ckpt_image *m);

/* ---- ckpt_manifest.c ---- */
/* The text, ended by a crc of itself; libc's to free. NULL: no memory. */
char *ckpt_manifest_text(const struct ckpt_slot *s, size_t *len);
/* RLX_EPARSE: damaged, or none. @text is changed. */
enum rlx_status __rlx_must_check
ckpt_manifest_parse(struct ckpt_manifest *m, char *text, size_t len, const char *path,
		    struct rlx_error *err);
/* Read and parse that of @step. */
enum rlx_status __rlx_must_check
ckpt_manifest_read(const struct rlx_ckpt *ck, uint64_t step, struct ckpt_manifest *m,
		   struct rlx_error *err);
/* The blob @key to @data; RLX_ESHAPE if it is not there or has another length. */
enum rlx_status __rlx_must_check
ckpt_manifest_blob(const struct ckpt_manifest *m, const struct rlx_ckpt_blob *b, bool copy,
		   struct rlx_error *err);

/* ---- ckpt_parts.c ---- */
unsigned int ckpt_ranks(const struct rlx_ckpt *ck);
/* Is it another rank that writes all but this one's part? */
bool ckpt_follows(const struct rlx_ckpt *ck);
/* Is there no way on with the other ranks? */
bool ckpt_lost(const struct rlx_ckpt *ck);
/*
 * Wait for all ranks, and go by the same status: @st if it is all of theirs. Without others it is
 * @st.
 */
enum rlx_status __rlx_must_check
ckpt_together(struct rlx_ckpt *ck, struct ckpt_slot *s, enum rlx_status st, struct rlx_error *err);
/* What all ranks' parts are, into @s->all. */
enum rlx_status __rlx_must_check
ckpt_gather_parts(struct rlx_ckpt *ck, struct ckpt_slot *s, struct rlx_error *err);
void ckpt_drop_all(struct ckpt_slot *s);
/* Is @t, if it is one, the part that each rank has? An error says what that would be. */
bool ckpt_is_cut(const struct rlx_ckpt *ck, const struct rlx_ckpt_tensor *t);
enum rlx_status ckpt_miscut(const struct rlx_ckpt *ck, const struct rlx_ckpt_tensor *t,
			    struct rlx_error *err);
/* Is tensor @t, or what it is a part of, there in parts? */
bool ckpt_in_parts(const struct ckpt_loaded *l, const struct rlx_ckpt_tensor *t);
/* Is it there, as @t has it? RLX_ESHAPE, naming what there is and what is wanted. */
enum rlx_status __rlx_must_check
ckpt_fits(const struct ckpt_loaded *l, const struct rlx_ckpt_tensor *t, struct rlx_error *err);
/* To where @t has it, which it fits. */
void ckpt_take(const struct rlx_ckpt *ck, const struct ckpt_loaded *l,
	       const struct rlx_ckpt_tensor *t);

/* ---- ckpt_load.c ---- */
/* Damaged means that an older one may serve; anything else ends the search. */
bool ckpt_is_damage(enum rlx_status st);
/* RLX_ESHAPE, naming file, tensor, have and want (NULL: none). */
enum rlx_status ckpt_differ(const struct ckpt_loaded *l, unsigned int f, const char *name,
			    const struct rlx_type *have, const struct rlx_type *want,
			    struct rlx_error *err);

/* ---- ckpt_write.c ---- */
/* All of a save from the folder's making to retention. */
enum rlx_status __rlx_must_check
ckpt_write(struct rlx_ckpt *ck, struct ckpt_slot *s, struct rlx_error *err);
/* The same by all ranks at once, each of which writes its part; all go by what came of it. */
enum rlx_status __rlx_must_check
ckpt_write_together(struct rlx_ckpt *ck, struct ckpt_slot *s, struct rlx_error *err);
/* Remove a folder of a checkpoint's files and all in it, by the name that it has. */
void ckpt_remove(const char *path);
enum rlx_status __rlx_must_check ckpt_list(struct rlx_ckpt *ck, struct rlx_error *err);

/* ---- ckpt_transfer.c ---- */
/* Move a whole image from or to @fd. 0 or an errno. */
int ckpt_transfer(struct ckpt_slot *s, const struct ckpt_image *m, int fd, bool write);

#endif
