// SPDX-License-Identifier: MIT
/*
 * Resizing by tables of taps (struct rlx_k_resize): a thread has an element of the result.
 * Elements of the nearest are moved, of any type; others are f32.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "args.glsl"

layout(constant_id = 1) const bool NEAREST = false;
layout(constant_id = 2) const uint SIZE = 4;

/* Which input position tap @t of position @o reads, and by which weight; -1: outside */
int tap(const in resize_axis_t a, const in uint64_t o, const in uint64_t t, out float weight)
{
	weight = a.weight != 0 ? f32_p(a.weight + (o * a.taps + t) * 4).v : 1.0;
	return a.index != 0 ? int(u32_p(a.index + (o * a.taps + t) * 4).v) : int(o);
}

void main()
{
	resize_t r = resize_t(push.args);
	resize_axis_t a = resize_axis_t(push.args + RESIZE_AXIS_0);
	resize_axis_t b = resize_axis_t(push.args + RESIZE_AXIS_1);
	resize_axis_t c = resize_axis_t(push.args + RESIZE_AXIS_2);
	const uint64_t each = a.out_ * b.out_ * c.out_, n = r.planes * each;

	for (uint64_t i = LANE; i < n; i += LANES) {
		const uint64_t plane = i / each, at = i - plane * each, oc = at % c.out_;
		const uint64_t ob = at / c.out_ % b.out_, oa = at / (c.out_ * b.out_);
		const uint64_t from = plane * a.in_ * b.in_ * c.in_;
		float wa, wb, wc, sum = 0.0;
		int ia = tap(a, oa, 0, wa), ib = tap(b, ob, 0, wb), ic = tap(c, oc, 0, wc);

		if (NEAREST) {
			move(SIZE, r.y + i * SIZE, r.x + (from + (uint64_t(ia) * b.in_ +
			     uint64_t(ib)) * c.in_ + uint64_t(ic)) * SIZE);
			continue;
		}
		if (ia < 0 || ib < 0 || ic < 0) {
			f32_p(r.y + i * 4).v = r.outside;
			continue;
		}
		for (uint64_t ta = 0; ta < a.taps; ta++)
			for (uint64_t tb = 0; tb < b.taps; tb++) {
				ia = tap(a, oa, ta, wa);
				ib = tap(b, ob, tb, wb);

				const uint64_t row = from + (uint64_t(ia) * b.in_ +
							     uint64_t(ib)) * c.in_;

				for (uint64_t tc = 0; tc < c.taps; tc++) {
					ic = tap(c, oc, tc, wc);
					sum += wa * wb * wc *
					       f32_p(r.x + (row + uint64_t(ic)) * 4).v;
				}
			}
		f32_p(r.y + i * 4).v = sum;
	}
}
