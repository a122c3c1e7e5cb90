/* SPDX-License-Identifier: MIT */
/* An inference request of KServe between its JSON and its reply. */
#ifndef RLXD_INFER_H
#define RLXD_INFER_H

#include "tools/rlxd/model.h"
#include "tools/rlxd/region.h"
#include "tools/rlxd/req.h"

struct infer_out {
	unsigned int	 index;		/* of the model's outputs */
	bool		 binary;
	struct region	*region;	/* the result goes there */
	uint64_t	 offset, bytes;
};

struct infer {
	struct tensor	 in[MODEL_IO_MAX];
	void		*own[MODEL_IO_MAX];	/* converted, or copied to be aligned */
	struct region	*region[2 * MODEL_IO_MAX];
	unsigned int	 n_in, n_region;
	struct infer_out out[MODEL_IO_MAX];
	unsigned int	 n_out;
	bool		 binary;		/* what outputs are by default */
	size_t		 binary_at;		/* bytes of binary data taken so far */
	struct slice	 id;
	struct tensor	 result[MODEL_IO_MAX];
	float		*vectors;		/* of an encoder */
};

/* Read r->json into r->work. False: the reply says what is wrong. */
bool infer_read(struct req *r);
/* The reply of r->work's results, and how many bytes those are. */
void infer_reply(struct req *r);
size_t infer_result_bytes(const struct req *r);

#endif
