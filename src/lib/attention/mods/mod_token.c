// mod_token.c: see mod_token.h.
#include "attention/mods/mod_token.h"

#include <limits.h>
#include <string.h>

#define NUMBER_LONGEST 64

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

const char *cla_mod_skip(const char *at) {
    for (;;) {
        at += strspn(at, " \t\r\n");
        if (at[0] != '/' || (at[1] != '/' && at[1] != '*')) return at;
        if (at[1] == '/') {
            at += strcspn(at, "\n");
        } else {
            const char *end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
        }
    }
}

int cla_mod_word_length(const char *at) {
    int n = 0;
    while (is_letter(at[n]) || (n && is_digit(at[n]))) n++;
    return n;
}

int cla_mod_operator_length(const char *at) {
    static const char *const longer[] = {"<<=", ">>=", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++",
                                         "--",  "+=",  "-=", "*=", "/=", "%=", "&=", "|=", "^=", "->"};
    for (size_t n = 0; n < sizeof longer / sizeof longer[0]; n++)
        if (!strncmp(at, longer[n], strlen(longer[n]))) return (int)strlen(longer[n]);
    return *at && strchr("+-*/%<>&|^!~?:=.,()[]{}", *at) ? 1 : 0;
}

bool cla_mod_begins_number(const char *at) {
    return is_digit(*at) || (*at == '.' && is_digit(at[1]));
}

// Number of digits in this base.
static int digits(const char *at, int base) {
    static const char all[] = "0123456789abcdef";
    int n = 0;
    for (; at[n]; n++) {
        const char small = at[n] >= 'A' && at[n] <= 'F' ? (char)(at[n] - 'A' + 'a') : at[n];
        if (!memchr(all, small, (size_t)base)) break;
    }
    return n;
}

// Read an integer in base 8, 10 or 16. False: more than 64 bits.
static bool value_of(const char *at, int length, int base, unsigned long long *value) {
    *value = 0;
    for (int n = 0; n < length; n++) {
        const char c = at[n];
        const unsigned digit = (unsigned)(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
        if (*value > (ULLONG_MAX - digit) / (unsigned)base) return false;
        *value = *value * (unsigned)base + digit;
    }
    return true;
}

// The first C type that holds the value. Without the suffix u, only octal and hexadecimal numbers
// may be unsigned.
static mod_type type_of(unsigned long long value, int base, bool no_sign, bool is_long) {
    const bool may_be_unsigned = no_sign || base != 10;
    if (!is_long && !no_sign && value <= INT_MAX) return MOD_INT;
    if (!is_long && may_be_unsigned && value <= UINT_MAX) return MOD_UINT;
    return !no_sign && value <= LLONG_MAX ? MOD_LONG : MOD_ULONG;
}

// Read 12, 0x1F or 017, with suffixes u, l or both.
static void read_whole(const char *at, mod_number *n) {
    const bool hex = at[0] == '0' && (at[1] | 0x20) == 'x';
    const int first = hex ? 2 : 0, base = hex ? 16 : at[0] == '0' ? 8 : 10;
    int end = first + digits(at + first, base);
    unsigned long long value;
    if (end == first || !value_of(at + first, end - first, base, &value)) return;
    bool no_sign = false, is_long = false;
    for (; end < n->length; end++) {
        bool *const suffix = (at[end] | 0x20) == 'u' ? &no_sign : (at[end] | 0x20) == 'l' ? &is_long : NULL;
        if (!suffix || *suffix) return;
        *suffix = true;
    }
    n->valid = no_sign || base != 10 || value <= LLONG_MAX;
    n->whole = !is_long && value <= (no_sign ? UINT_MAX : INT_MAX);
    n->type = type_of(value, base, no_sign, is_long);
    n->value = n->whole ? (long long)value : 0;
}

// Read 1.5, .5, 1., 1e-3 or 0x1p3. Without the suffix f it is a double.
static void read_real(const char *at, mod_number *n) {
    const bool hex = at[0] == '0' && (at[1] | 0x20) == 'x';
    const int base = hex ? 16 : 10;
    int end = hex ? 2 : 0, count = digits(at + end, base);
    end += count;
    if (at[end] == '.') {
        const int more = digits(at + end + 1, base);
        end += 1 + more, count += more;
    }
    if (!count) return;
    const bool has_power = (at[end] | 0x20) == (hex ? 'p' : 'e');
    if (has_power) {
        end += 1 + (at[end + 1] == '+' || at[end + 1] == '-');
        const int power = digits(at + end, 10);
        if (!power) return;
        end += power;
    }
    const bool is_float = end < n->length && (at[end] | 0x20) == 'f';
    n->valid = end + is_float == n->length && (has_power || !hex);
    n->type = is_float && !hex ? MOD_FLOAT : MOD_DOUBLE;
}

mod_number cla_mod_number(const char *at) {
    mod_number n = {.length = 0};
    const bool hex = at[0] == '0' && (at[1] | 0x20) == 'x';
    bool real = false;
    for (char c = at[0]; is_digit(c) || is_letter(c) || c == '.'; c = at[++n.length]) {
        const bool power =
            (c | 0x20) == 'e' || (c | 0x20) == 'p'; // C includes a sign after the exponent letter
        real |= c == '.' || (c | 0x20) == (hex ? 'p' : 'e');
        if (power && (at[n.length + 1] == '+' || at[n.length + 1] == '-')) n.length++;
    }
    if (n.length > NUMBER_LONGEST) return n;
    if (real)
        read_real(at, &n);
    else
        read_whole(at, &n);
    return n;
}
