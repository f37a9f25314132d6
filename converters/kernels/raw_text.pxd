# The functions of raw_text.py in C, inline in each kernel that uses them. Numbers become digits two at a time, by table:
# digit by digit, they took longer than the text around them.
from .array_types cimport ConstU8, U8

cdef extern from *:
    """
    #include <string.h>

    #define HEXADECIMAL_PAIRS(d) \
        d "0" d "1" d "2" d "3" d "4" d "5" d "6" d "7" d "8" d "9" d "a" d "b" d "c" d "d" d "e" d "f"
    #define DECIMAL_PAIRS(d) d "0" d "1" d "2" d "3" d "4" d "5" d "6" d "7" d "8" d "9"

    static const char hexadecimal_pairs[] =
        HEXADECIMAL_PAIRS("0") HEXADECIMAL_PAIRS("1") HEXADECIMAL_PAIRS("2") HEXADECIMAL_PAIRS("3")
        HEXADECIMAL_PAIRS("4") HEXADECIMAL_PAIRS("5") HEXADECIMAL_PAIRS("6") HEXADECIMAL_PAIRS("7")
        HEXADECIMAL_PAIRS("8") HEXADECIMAL_PAIRS("9") HEXADECIMAL_PAIRS("a") HEXADECIMAL_PAIRS("b")
        HEXADECIMAL_PAIRS("c") HEXADECIMAL_PAIRS("d") HEXADECIMAL_PAIRS("e") HEXADECIMAL_PAIRS("f");
    static const char decimal_pairs[] =
        DECIMAL_PAIRS("0") DECIMAL_PAIRS("1") DECIMAL_PAIRS("2") DECIMAL_PAIRS("3") DECIMAL_PAIRS("4")
        DECIMAL_PAIRS("5") DECIMAL_PAIRS("6") DECIMAL_PAIRS("7") DECIMAL_PAIRS("8") DECIMAL_PAIRS("9");

    static inline void put_hexadecimal_pairs(unsigned char *out, unsigned long long value, long long digits) {
        while (digits > 1) {
            digits -= 2;
            memcpy(out + digits, hexadecimal_pairs + 2 * (value & 0xff), 2);
            value >>= 8;
        }
        if (digits > 0)
            out[0] = (unsigned char)hexadecimal_pairs[2 * (value & 0xf) + 1];
    }

    static inline void put_decimal_pairs(unsigned char *out, unsigned long long value, long long digits) {
        while (digits > 1) {
            digits -= 2;
            memcpy(out + digits, decimal_pairs + 2 * (value % 100), 2);
            value /= 100;
        }
        if (digits > 0)
            out[0] = (unsigned char)('0' + value % 10);
    }
    """
    void *memcpy(void *, const void *, size_t) noexcept nogil
    void put_hexadecimal_pairs(unsigned char *, unsigned long long, long long) noexcept nogil
    void put_decimal_pairs(unsigned char *, unsigned long long, long long) noexcept nogil


cdef inline long long copy_bytes(
    ConstU8 data, long long start, long long size, U8 out, long long at
) noexcept nogil:
    if size > 0:
        memcpy(&out[at], &data[start], size)
    return at + size


cdef inline long long write_digits(unsigned long long value, long long digits, U8 out, long long at) noexcept nogil:
    if digits > 0:
        put_hexadecimal_pairs(&out[at], value, digits)
    return at + digits


cdef inline long long write_decimal(unsigned long long value, long long digits, U8 out, long long at) noexcept nogil:
    if digits > 0:
        put_decimal_pairs(&out[at], value, digits)
    return at + digits


cdef inline long long hexadecimal_digits(unsigned long long value) noexcept nogil:
    cdef long long digits = 1
    while digits < 16 and value >> 4 * digits:
        digits += 1
    return digits


cdef inline long long decimal_digits(unsigned long long value) noexcept nogil:
    cdef long long digits = 1
    while value > 9:
        value //= 10
        digits += 1
    return digits
