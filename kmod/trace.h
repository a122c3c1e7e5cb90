/* SPDX-License-Identifier: GPL-2.0-only */
/* Tracepoints rlx:*: ids and numbers, no strings, no addresses. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rlx

#if !defined(RLX_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define RLX_TRACE_H

#include <linux/tracepoint.h>
#include <linux/types.h>

/* The beginning and the end of an arena. */
DECLARE_EVENT_CLASS(rlx_arena,
	TP_PROTO(u64 arena, u64 size, unsigned long nr_huge),
	TP_ARGS(arena, size, nr_huge),
	TP_STRUCT__entry(
		__field(u64, arena)
		__field(u64, size)
		__field(unsigned long, nr_huge)
	),
	TP_fast_assign(
		__entry->arena = arena;
		__entry->size = size;
		__entry->nr_huge = nr_huge;
	),
	TP_printk("arena=%llu size=%llu huge=%lu",
		  __entry->arena, __entry->size, __entry->nr_huge)
);

#define RLX_ARENA_EVENT(name)						\
DEFINE_EVENT(rlx_arena, name,						\
	TP_PROTO(u64 arena, u64 size, unsigned long nr_huge),		\
	TP_ARGS(arena, size, nr_huge))

RLX_ARENA_EVENT(rlx_arena_create);
RLX_ARENA_EVENT(rlx_arena_free);

TRACE_EVENT(rlx_export,
	TP_PROTO(u64 arena, u64 offset, u64 length),
	TP_ARGS(arena, offset, length),
	TP_STRUCT__entry(
		__field(u64, arena)
		__field(u64, offset)
		__field(u64, length)
	),
	TP_fast_assign(
		__entry->arena = arena;
		__entry->offset = offset;
		__entry->length = length;
	),
	TP_printk("arena=%llu offset=%llu length=%llu",
		  __entry->arena, __entry->offset, __entry->length)
);

TRACE_EVENT(rlx_attach,
	TP_PROTO(u64 arena, u32 channel, u32 handle, u32 access),
	TP_ARGS(arena, channel, handle, access),
	TP_STRUCT__entry(
		__field(u64, arena)
		__field(u32, channel)
		__field(u32, handle)
		__field(u32, access)
	),
	TP_fast_assign(
		__entry->arena = arena;
		__entry->channel = channel;
		__entry->handle = handle;
		__entry->access = access;
	),
	TP_printk("arena=%llu channel=%u handle=%u access=%u",
		  __entry->arena, __entry->channel, __entry->handle,
		  __entry->access)
);

/* A step of a request's life; its time is the trace's own. */
DECLARE_EVENT_CLASS(rlx_request,
	TP_PROTO(u32 channel, u32 tag, u64 seq, s32 result),
	TP_ARGS(channel, tag, seq, result),
	TP_STRUCT__entry(
		__field(u64, seq)
		__field(u32, channel)
		__field(u32, tag)
		__field(s32, result)
	),
	TP_fast_assign(
		__entry->seq = seq;
		__entry->channel = channel;
		__entry->tag = tag;
		__entry->result = result;
	),
	TP_printk("channel=%u tag=%u seq=%llu result=%d",
		  __entry->channel, __entry->tag, __entry->seq, __entry->result)
);

#define RLX_REQUEST_EVENT(name)						\
DEFINE_EVENT(rlx_request, name,						\
	TP_PROTO(u32 channel, u32 tag, u64 seq, s32 result),		\
	TP_ARGS(channel, tag, seq, result))

RLX_REQUEST_EVENT(rlx_submit);
RLX_REQUEST_EVENT(rlx_ready);
RLX_REQUEST_EVENT(rlx_fetch);
RLX_REQUEST_EVENT(rlx_commit);
RLX_REQUEST_EVENT(rlx_cancel);

/* An executor (with its generation) or a channel (0) came to its end. */
TRACE_EVENT(rlx_death,
	TP_PROTO(u64 id, u64 generation, u32 lost),
	TP_ARGS(id, generation, lost),
	TP_STRUCT__entry(
		__field(u64, id)
		__field(u64, generation)
		__field(u32, lost)
	),
	TP_fast_assign(
		__entry->id = id;
		__entry->generation = generation;
		__entry->lost = lost;
	),
	TP_printk("id=%llu generation=%llu lost=%u",
		  __entry->id, __entry->generation, __entry->lost)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
