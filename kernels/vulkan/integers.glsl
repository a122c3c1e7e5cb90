// SPDX-License-Identifier: MIT
/* Integers of all types as 64 bits, u64 by its bits. */
int64_t load_int(const in uint type, const in uint64_t p, const in uint64_t i)
{
	if (type == I64 || type == U64)
		return int64_t(u64_p(p + i * 8).v);
	if (type == I32)
		return widen(int(u32_p(p + i * 4).v));
	if (type == U32)
		return widen(u32_p(p + i * 4).v);
	if (type == I16)
		return widen(bitfieldExtract(int(u16_p(p + i * 2).v), 0, 16));
	if (type == U16)
		return widen(uint(u16_p(p + i * 2).v));
	if (type == I8)
		return widen(bitfieldExtract(int(u8_p(p + i).v), 0, 8));
	return widen(uint(u8_p(p + i).v));
}

void store_int(const in uint type, const in uint64_t p, const in uint64_t i, const in int64_t x)
{
	if (type == I64 || type == U64)
		u64_p(p + i * 8).v = uint64_t(x);
	else if (type == I32 || type == U32)
		u32_p(p + i * 4).v = uint(x);
	else if (type == I16 || type == U16)
		u16_p(p + i * 2).v = uint16_t(x);
	else
		u8_p(p + i).v = uint8_t(x);
}

/* In the order of the type */
bool int_less(const in uint type, const in int64_t a, const in int64_t b)
{
	return type == U64 ? uint64_t(a) < uint64_t(b) : a < b;
}
