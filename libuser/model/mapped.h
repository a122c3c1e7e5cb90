/* SPDX-License-Identifier: MIT */
/* What of this process's memory is a model's file, for whoever looks after it. */
#ifndef RLX_MODEL_MAPPED_H
#define RLX_MODEL_MAPPED_H

struct rlx_bert;
struct rlx_file;
struct rlx_model;

/*
 * The @i-th file that a model maps, for as long as it is open; NULL: there are no more.
 * One that is empty has no @map. Context: any thread; no allocation. Ownership: the model's.
 */
const struct rlx_file *rlx_model_mapped(const struct rlx_model *m, unsigned int i);
const struct rlx_file *rlx_bert_mapped(const struct rlx_bert *b, unsigned int i);

#endif
