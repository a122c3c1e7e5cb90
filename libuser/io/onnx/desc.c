// SPDX-License-Identifier: MIT
/* onnx.proto as tables: one row for each field that is read. */
#include "io/onnx/desc.h"

#define ONE(T, mem, no, k)						\
	{ .name = #mem, .num = no, .kind = k, .off = offsetof(T, mem) }
#define REP(T, mem, cnt, no, k)						\
	{ .name = #mem, .num = no, .kind = k, .rep = true,		\
	  .off = offsetof(T, mem), .off_n = offsetof(T, cnt) }
#define SUB(T, mem, no, m)						\
	{ .name = #mem, .num = no, .kind = PB_MSG, .sub = &m,		\
	  .off = offsetof(T, mem) }
#define SUBS(T, mem, cnt, no, m)					\
	{ .name = #mem, .num = no, .kind = PB_MSG, .rep = true,		\
	  .sub = &m, .off = offsetof(T, mem), .off_n = offsetof(T, cnt) }
#define MSG(var, label, T, fields, fin)					\
	const struct pb_msg var = {					\
		.name = label, .field = fields,				\
		.nfield = sizeof(fields) / sizeof(fields[0]),		\
		.size = sizeof(T), .finish = fin,			\
	};								\
	_Static_assert(sizeof(fields) / sizeof(fields[0]) <=		\
		       PB_MAX_FIELDS, label " has too many rows")

static const struct pb_msg msg_type, msg_graph, msg_attr;

static const struct pb_field kv_fields[] = {
	ONE(struct onnx_kv, key, 1, PB_STR),
	ONE(struct onnx_kv, value, 2, PB_STR),
};
static MSG(msg_kv, "StringStringEntryProto", struct onnx_kv, kv_fields, NULL);

static const struct pb_field tensor_fields[] = {
	REP(struct onnx_tensor, dims, ndims, 1, PB_I64),
	ONE(struct onnx_tensor, dtype, 2, PB_I64),
	REP(struct onnx_tensor, strings, nstrings, 6, PB_STR),
	ONE(struct onnx_tensor, name, 8, PB_STR),
	ONE(struct onnx_tensor, raw, 9, PB_STR),
	SUBS(struct onnx_tensor, external, nexternal, 13, msg_kv),
	ONE(struct onnx_tensor, location, 14, PB_I64),
};
MSG(onnx_msg_tensor, "TensorProto", struct onnx_tensor, tensor_fields,
    onnx_tensor_finish);

static const struct pb_field dim_fields[] = {
	ONE(struct onnx_dim, value, 1, PB_I64),
	ONE(struct onnx_dim, param, 2, PB_STR),
};
static MSG(msg_dim, "TensorShapeProto.Dimension", struct onnx_dim, dim_fields,
	   NULL);

static const struct pb_field shape_fields[] = {
	SUBS(struct onnx_shape, dims, ndims, 1, msg_dim),
};
static MSG(msg_shape, "TensorShapeProto", struct onnx_shape, shape_fields,
	   NULL);

static const struct pb_field tensor_type_fields[] = {
	ONE(struct onnx_tensor_type, elem, 1, PB_I64),
	SUB(struct onnx_tensor_type, shape, 2, msg_shape),
};
static MSG(msg_tensor_type, "TypeProto.Tensor", struct onnx_tensor_type,
	   tensor_type_fields, NULL);

static const struct pb_field elem_type_fields[] = {
	SUB(struct onnx_elem_type, elem, 1, msg_type),
};
static MSG(msg_elem_type, "TypeProto.Sequence", struct onnx_elem_type,
	   elem_type_fields, NULL);

static const struct pb_field map_type_fields[] = {
	ONE(struct onnx_map_type, key, 1, PB_I64),
	SUB(struct onnx_map_type, value, 2, msg_type),
};
static MSG(msg_map_type, "TypeProto.Map", struct onnx_map_type,
	   map_type_fields, NULL);

static const struct pb_field type_fields[] = {
	SUB(struct onnx_type, tensor, 1, msg_tensor_type),
	SUB(struct onnx_type, sequence, 4, msg_elem_type),
	SUB(struct onnx_type, map, 5, msg_map_type),
	SUB(struct onnx_type, sparse, 8, msg_tensor_type),
	SUB(struct onnx_type, optional, 9, msg_elem_type),
};

/* The members are a oneof in the schema. */
static enum rlx_status type_finish(struct onnx_pb *pb, void *msg,
				   struct rlx_str body)
{
	const struct onnx_type *t = msg;

	if (!!t->tensor + !!t->sequence + !!t->map + !!t->sparse +
	    !!t->optional > 1)
		return pb_fail(pb, &msg_type, NULL, body.p,
			       "several kinds of type in one");
	return RLX_OK;
}

static MSG(msg_type, "TypeProto", struct onnx_type, type_fields, type_finish);

static const struct pb_field info_fields[] = {
	ONE(struct onnx_value_info, name, 1, PB_STR),
	SUB(struct onnx_value_info, type, 2, msg_type),
};
static MSG(msg_info, "ValueInfoProto", struct onnx_value_info, info_fields,
	   NULL);

static const struct pb_field attr_fields[] = {
	ONE(struct onnx_attr, name, 1, PB_STR),
	ONE(struct onnx_attr, f, 2, PB_F32),
	ONE(struct onnx_attr, i, 3, PB_I64),
	ONE(struct onnx_attr, s, 4, PB_STR),
	SUB(struct onnx_attr, t, 5, onnx_msg_tensor),
	SUB(struct onnx_attr, g, 6, msg_graph),
	REP(struct onnx_attr, floats, nfloats, 7, PB_F32),
	REP(struct onnx_attr, ints, nints, 8, PB_I64),
	REP(struct onnx_attr, strings, nstrings, 9, PB_STR),
	SUBS(struct onnx_attr, tensors, ntensors, 10, onnx_msg_tensor),
	SUBS(struct onnx_attr, graphs, ngraphs, 11, msg_graph),
	SUB(struct onnx_attr, tp, 14, msg_type),
	ONE(struct onnx_attr, type, 20, PB_I64),
	ONE(struct onnx_attr, ref, 21, PB_STR),
};

/* Which field number of AttributeProto carries a value of each type. */
static const uint8_t attr_field_of[] = {
	[ONNX_ATTR_FLOAT] = 2,	 [ONNX_ATTR_INT] = 3,
	[ONNX_ATTR_STRING] = 4,	 [ONNX_ATTR_TENSOR] = 5,
	[ONNX_ATTR_GRAPH] = 6,	 [ONNX_ATTR_FLOATS] = 7,
	[ONNX_ATTR_INTS] = 8,	 [ONNX_ATTR_STRINGS] = 9,
	[ONNX_ATTR_TENSORS] = 10, [ONNX_ATTR_GRAPHS] = 11,
	[ONNX_ATTR_TYPE] = 14,
};

/*
 * IR versions before 3 had no type field: the field that is set says it. A
 * scalar of value zero and an empty list may be left out of the file, but a
 * tensor, graph or type said to be there must be.
 */
static enum rlx_status attr_finish(struct onnx_pb *pb, void *msg,
				   struct rlx_str body)
{
	struct onnx_attr *a = msg;
	uint8_t i;

	if (a->type == ONNX_ATTR_NONE)
		for (i = 1; i < sizeof(attr_field_of); i++)
			if (attr_field_of[i] &&
			    a->has & 1ull << attr_field_of[i])
				a->type = i;
	if (a->type < 0 || a->type > ONNX_ATTR_TYPES)
		return pb_fail(pb, &msg_attr, "type", body.p, "attribute "
			       "'%.*s' has type %lld, which is none",
			       ONNX_STR(a->name), (long long)a->type);
	if (a->ref.n)
		return RLX_OK;
	if ((a->type == ONNX_ATTR_TENSOR && !a->t) ||
	    (a->type == ONNX_ATTR_GRAPH && !a->g) ||
	    (a->type == ONNX_ATTR_TYPE && !a->tp))
		return pb_fail(pb, &msg_attr, "type", body.p, "attribute "
			       "'%.*s' has type %lld but no such value",
			       ONNX_STR(a->name), (long long)a->type);
	return RLX_OK;
}

static MSG(msg_attr, "AttributeProto", struct onnx_attr, attr_fields,
	   attr_finish);

static const struct pb_field node_fields[] = {
	REP(struct onnx_node, inputs, ninputs, 1, PB_STR),
	REP(struct onnx_node, outputs, noutputs, 2, PB_STR),
	ONE(struct onnx_node, name, 3, PB_STR),
	ONE(struct onnx_node, op_type, 4, PB_STR),
	SUBS(struct onnx_node, attrs, nattrs, 5, msg_attr),
	ONE(struct onnx_node, domain, 7, PB_STR),
	ONE(struct onnx_node, overload, 8, PB_STR),
};

/* What is looked through for each node, and each time that one is imported. */
enum { MOST_ATTRS = 64, MOST_OPSETS = 64 };

static enum rlx_status too_many(struct onnx_pb *pb, const struct pb_msg *m, struct rlx_str body,
				size_t n, int most, const char *what)
{
	return rlx_fail(pb->err, RLX_ENOSUP, "%s: byte %llu, %s: %zu %s, at most %d are supported",
			pb->file, (unsigned long long)((const uint8_t *)body.p - pb->base),
			m->name, n, what, most);
}

static enum rlx_status node_finish(struct onnx_pb *pb, void *msg, struct rlx_str body);
static MSG(msg_node, "NodeProto", struct onnx_node, node_fields, node_finish);

static enum rlx_status node_finish(struct onnx_pb *pb, void *msg, struct rlx_str body)
{
	const struct onnx_node *n = msg;

	return n->nattrs > MOST_ATTRS ?
	       too_many(pb, &msg_node, body, n->nattrs, MOST_ATTRS, "attributes") : RLX_OK;
}

static const struct pb_field graph_fields[] = {
	SUBS(struct onnx_graph, nodes, nnodes, 1, msg_node),
	ONE(struct onnx_graph, name, 2, PB_STR),
	SUBS(struct onnx_graph, initializers, ninitializers, 5,
	     onnx_msg_tensor),
	SUBS(struct onnx_graph, inputs, ninputs, 11, msg_info),
	SUBS(struct onnx_graph, outputs, noutputs, 12, msg_info),
	SUBS(struct onnx_graph, value_info, nvalue_info, 13, msg_info),
};

#define SPARSE_INITIALIZER	15

static enum rlx_status graph_finish(struct onnx_pb *pb, void *msg,
				    struct rlx_str body)
{
	const uint8_t *p = (const uint8_t *)body.p, *end = p + body.n;
	struct pb_item it;
	enum rlx_status st;

	while (p < end) {
		st = pb_next(pb, &msg_graph, &p, end, &it);
		if (st)
			return st;
		if (it.num == SPARSE_INITIALIZER)
			return rlx_fail(pb->err, RLX_ENOSUP, "%s: byte %llu, "
				"GraphProto.sparse_initializer: sparse "
				"initializers are not supported", pb->file,
				(unsigned long long)(it.tag - pb->base));
	}
	return RLX_OK;
}

static MSG(msg_graph, "GraphProto", struct onnx_graph, graph_fields,
	   graph_finish);

static const struct pb_field opset_fields[] = {
	ONE(struct onnx_opset, domain, 1, PB_STR),
	ONE(struct onnx_opset, version, 2, PB_I64),
};
static MSG(msg_opset, "OperatorSetIdProto", struct onnx_opset, opset_fields,
	   NULL);

static const struct pb_field function_fields[] = {
	ONE(struct onnx_function, name, 1, PB_STR),
	REP(struct onnx_function, inputs, ninputs, 4, PB_STR),
	REP(struct onnx_function, outputs, noutputs, 5, PB_STR),
	REP(struct onnx_function, attr_names, nattr_names, 6, PB_STR),
	SUBS(struct onnx_function, nodes, nnodes, 7, msg_node),
	SUBS(struct onnx_function, opsets, nopsets, 9, msg_opset),
	ONE(struct onnx_function, domain, 10, PB_STR),
	SUBS(struct onnx_function, attrs, nattrs, 11, msg_attr),
	ONE(struct onnx_function, overload, 13, PB_STR),
};
static enum rlx_status function_finish(struct onnx_pb *pb, void *msg, struct rlx_str body);
static MSG(msg_function, "FunctionProto", struct onnx_function,
	   function_fields, function_finish);

static enum rlx_status function_finish(struct onnx_pb *pb, void *msg, struct rlx_str body)
{
	const struct onnx_function *f = msg;

	if (f->nattrs > MOST_ATTRS)
		return too_many(pb, &msg_function, body, f->nattrs, MOST_ATTRS, "attributes");
	return f->nopsets > MOST_OPSETS ?
	       too_many(pb, &msg_function, body, f->nopsets, MOST_OPSETS, "opset imports") : RLX_OK;
}

static const struct pb_field model_fields[] = {
	ONE(struct onnx_model, ir_version, 1, PB_I64),
	ONE(struct onnx_model, producer, 2, PB_STR),
	ONE(struct onnx_model, producer_version, 3, PB_STR),
	ONE(struct onnx_model, domain, 4, PB_STR),
	ONE(struct onnx_model, model_version, 5, PB_I64),
	SUB(struct onnx_model, graph, 7, msg_graph),
	SUBS(struct onnx_model, opsets, nopsets, 8, msg_opset),
	SUBS(struct onnx_model, metadata, nmetadata, 14, msg_kv),
	SUBS(struct onnx_model, functions, nfunctions, 25, msg_function),
};

static enum rlx_status model_finish(struct onnx_pb *pb, void *msg,
				    struct rlx_str body)
{
	const struct onnx_model *m = msg;

	if (!m->graph)
		return pb_fail(pb, &onnx_msg_model, "graph", body.p,
			       "no graph; is this an ONNX model?");
	if (m->ir_version < 1)
		return pb_fail(pb, &onnx_msg_model, "ir_version", body.p,
			       "%lld; is this an ONNX model?",
			       (long long)m->ir_version);
	if (m->nopsets > MOST_OPSETS)
		return too_many(pb, &onnx_msg_model, body, m->nopsets, MOST_OPSETS,
				"opset imports");
	return RLX_OK;
}

MSG(onnx_msg_model, "ModelProto", struct onnx_model, model_fields,
    model_finish);

static const struct pb_field seq_fields[] = {
	ONE(struct onnx_seq_value, name, 1, PB_STR),
	ONE(struct onnx_seq_value, elem, 2, PB_I64),
	SUBS(struct onnx_seq_value, tensors, ntensors, 3, onnx_msg_tensor),
	SUBS(struct onnx_seq_value, seqs, nseqs, 5, onnx_msg_seq),
	SUBS(struct onnx_seq_value, opts, nopts, 7, onnx_msg_opt),
};
MSG(onnx_msg_seq, "SequenceProto", struct onnx_seq_value, seq_fields, NULL);

static const struct pb_field opt_fields[] = {
	ONE(struct onnx_opt_value, name, 1, PB_STR),
	ONE(struct onnx_opt_value, elem, 2, PB_I64),
	SUB(struct onnx_opt_value, tensor, 3, onnx_msg_tensor),
	SUB(struct onnx_opt_value, seq, 5, onnx_msg_seq),
	SUB(struct onnx_opt_value, opt, 7, onnx_msg_opt),
};
MSG(onnx_msg_opt, "OptionalProto", struct onnx_opt_value, opt_fields, NULL);
