/* os_cpu.c: identifies the CPU, on any system. */
#include "base/os.h"

#include <stdio.h>
#include <string.h>

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
#include <cpuid.h>

/* CPUID words that are the same on every core. Words with a core's number, or set only by the
 * hypervisor, are left out. */
void cla_os_cpu_model(char text[OS_CPU_MODEL_BYTES]) {
    unsigned word[16] = {0}, a, b, c, d;
    if (!__get_cpuid(0, &a, &word[0], &word[1], &word[2])) a = 0;
    /* Leaf 1, ECX bit 27 is OSXSAVE: XGETBV may be executed. */
    if (a >= 1 && __get_cpuid(1, &word[3], &b, &word[4], &word[5]) && (word[4] >> 27 & 1u))
        /* Register sets saved by the system. */
        __asm__ volatile("xgetbv" : "=a"(word[6]), "=d"(d) : "c"(0));
    if (a >= 7 && __get_cpuid_count(7, 0, &b, &word[7], &word[8], &word[9]) && b >= 1)
        (void)__get_cpuid_count(7, 1, &word[10], &b, &c, &d);
    char name[49] = "";
    for (unsigned leaf = 0; leaf < 3; leaf++) {
        unsigned part[4] = {0};
        if (__get_cpuid(0x80000002u + leaf, &part[0], &part[1], &part[2], &part[3]))
            memcpy(name + 16 * leaf, part, sizeof part);
    }
    int used = snprintf(text, OS_CPU_MODEL_BYTES, "%.48s", name);
    for (int i = 0; i < 11; i++)
        used += snprintf(text + used, (size_t)(OS_CPU_MODEL_BYTES - used), " %x", word[i]);
}

/* VNNI on 512-bit vectors (AVX512_VNNI), or on 256-bit vectors (AVX-VNNI: leaf 7.1, EAX bit 4). */
int cla_os_cpu_dot_i8_lanes(void) {
    unsigned a, b, c, d;
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw")) return 16;
    if (!__builtin_cpu_supports("avx2") || !__get_cpuid_count(7, 1, &a, &b, &c, &d)) return 0;
    return a >> 4 & 1u ? 8 : 0;
}
#else
int cla_os_cpu_dot_i8_lanes(void) {
    return 0;
}
#endif

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
#elif defined(__linux__)

/* An FNV-1a digest of /proc/cpuinfo without the clock frequencies, which change all the time.
 * The file itself is too long on machines with many cores. */
void cla_os_cpu_model(char text[OS_CPU_MODEL_BYTES]) {
    unsigned long long digest = 0xcbf29ce484222325u;
    char line[512];
    FILE *list = fopen("/proc/cpuinfo", "re");
    while (list && fgets(line, sizeof line, list)) {
        if (strstr(line, "MHz")) continue;
        for (const char *p = line; *p; p++) digest = (digest ^ (unsigned char)*p) * 0x100000001b3u;
    }
    if (list) (void)fclose(list);
    (void)snprintf(text, OS_CPU_MODEL_BYTES, "%llx", digest);
}
#else
void cla_os_cpu_model(char text[OS_CPU_MODEL_BYTES]) {
    text[0] = 0;
}
#endif
