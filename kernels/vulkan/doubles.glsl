// SPDX-License-Identifier: MIT
/* Doubles: their memory, and how they become narrower. */
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer f64_p { double v; };

/* A double as a float that rounds right once more: to odd */
float f64_to_odd(const in double x)
{
	const float f = float(x);
	const uint u = floatBitsToUint(f);

	if (double(f) == x || x != x || (u & 0x7f800000u) == 0x7f800000u)
		return f;
	return uintBitsToFloat(((double(f) > x) == (x > 0.0lf) ? u - 1 : u) | 1u);
}
