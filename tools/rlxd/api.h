/* SPDX-License-Identifier: MIT */
/* The handlers that routes name: true: the reply is made; false: it comes later. */
#ifndef RLXD_API_H
#define RLXD_API_H

#include <stdbool.h>

#include "tools/rlxd/region.h"

struct req;

/* False: models are being loaded, or it drains: the reply says so. */
bool api_is_ready(struct req *r);
bool api_healthz(struct req *r);
bool api_livez(struct req *r);
bool api_startupz(struct req *r);
bool api_metrics(struct req *r);

bool openai_models(struct req *r);
bool openai_model(struct req *r);
bool openai_embeddings(struct req *r);
void openai_embeddings_clean(struct req *r);
void openai_embeddings_finish(struct req *r);
size_t openai_embeddings_bytes(const struct req *r);

bool kserve_server(struct req *r);
bool kserve_live(struct req *r);
bool kserve_ready(struct req *r);
bool kserve_index(struct req *r);
bool kserve_model(struct req *r);
bool kserve_model_ready(struct req *r);
bool kserve_config(struct req *r);
/* Whose regions a request may name. Any thread, while the request lives. */
struct region_owner shm_owner(const struct req *r);
bool shm_status(struct req *r);
bool shm_register(struct req *r);
bool shm_unregister(struct req *r);
bool kserve_infer(struct req *r);
void kserve_infer_clean(struct req *r);

#endif
