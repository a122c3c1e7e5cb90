// SPDX-License-Identifier: MIT
/* A plan of one step, made from the types of an op. */
#include "backends/common/trial.h"
#include "base/alloc.h"

bool rlx_lower_trial_init(struct rlx_lower_trial *t, const struct rlx_infer *q, bool constants)
{
	uint32_t n = q->n_in + q->n_out, i;

	*t = (struct rlx_lower_trial){ .id = rlx_calloc(n + 1, sizeof(*t->id)) };
	t->plan.val = rlx_calloc(n + 1, sizeof(*t->plan.val));
	t->plan.constant = rlx_calloc(n + 1, sizeof(*t->plan.constant));
	if (!t->plan.val || !t->plan.constant || !t->id)
		return false;
	for (i = 0; i < n; i++) {
		struct rlx_plan_val *v = &t->plan.val[i + 1];

		if (i < q->n_in && !q->in[i])
			continue;
		t->id[i] = i + 1;
		v->type = i < q->n_in ? *q->in[i] : q->out[i - q->n_in];
		v->root = i + 1;
		v->place.kind = i < q->n_in ? RLX_PLACE_INPUT : RLX_PLACE_OUTPUT;
		v->place.index = i < q->n_in ? i : i - q->n_in;
		if (!constants || i >= q->n_in || !q->constant || !q->constant[i])
			continue;
		v->place.kind = RLX_PLACE_CONST;
		t->plan.constant[i] = q->constant[i];
	}
	t->plan.n_constant = n;
	t->plan.n_val = n + 1;
	t->plan.step = &t->step;
	t->plan.n_step = 1;
	t->step = (struct rlx_plan_step){ .def = q->def, .args = q->args, .in = t->id,
					  .out = t->id + q->n_in, .n_in = q->n_in,
					  .n_out = q->n_out };
	return true;
}

void rlx_lower_trial_fini(struct rlx_lower_trial *t)
{
	rlx_free(t->plan.constant);
	rlx_free(t->plan.val);
	rlx_free(t->id);
}
