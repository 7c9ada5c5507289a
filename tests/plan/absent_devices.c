// absent_devices.c: the records. Each figure has its published source; "assumed" marks figures of a
// related device, or without any source. The planner never uses names.
//
//   benchmark N: github.com/ProjectPhysX/OpenCL-Benchmark/issues/N, the device's own output
//   fluid 8: github.com/ProjectPhysX/FluidX3D/issues/8
//   course: github.com/GPGPUCourse/GPGPUTasks2025 or 2026, pull requests with device output
#include "plan/absent_devices.h"

#include "args/args.h"
#include "probe/probe.h"
#include "probe/subgroups.h"

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)

#define COMMON .platform = "made up", .available = true, .little_endian = true, .float_vector_width = 1
#define BIG COMMON, .version = "OpenCL 3.0", .address_bits = 64, .out_of_order = true
#define GPU BIG, .is_gpu = true

// NVIDIA, all devices. Work-groups of 1024, items 1024 x 1024 x 64
// (github.com/bottlerocket-os/bottlerocket/pull/3873). 48 KiB of local memory on every chip, a
// quarter of the memory in one buffer (fluid 8). No sub-groups, no cl_khr_fp16 (course 2026 pull
// 8). 4352 bytes of arguments (CUDA C Programming Guide: 4 KiB; assumed to be more).
#define NVIDIA                                                                                               \
    GPU, .vendor = "NVIDIA Corporation", .double_arithmetic = true, .local_memory_is_local = true,           \
         .max_work_group = 1024, .max_work_item = {1024, 1024, 64}, .local_memory_bytes = KIB(48),           \
         .max_argument_bytes = 4352

// AMD under ROCm, all devices. Work-groups of 256, although the hardware supports 1024
// (github.com/ROCm/ROCR-Runtime/issues/180). 64 KiB of local memory, native vectors of one float,
// cl_khr_fp16. cl_khr_subgroups without shuffles and 1024 bytes of arguments are assumed.
#define AMD                                                                                                  \
    COMMON, .vendor = "Advanced Micro Devices, Inc.", .version = "OpenCL 2.0", .is_gpu = true,               \
            .address_bits = 64, .out_of_order = true, .half_arithmetic = true, .double_arithmetic = true,    \
            .subgroups = true, .subgroup_ways = SUBGROUPS_KHR, .local_memory_is_local = true,                \
            .max_work_group = 256, .max_work_item = {1024, 1024, 1024}, .local_memory_bytes = KIB(64),       \
            .max_argument_bytes = 1024

// Intel's GPUs: 64 KiB of local memory (benchmark 10), native vectors of one float, cl_khr_fp16
// (github.com/openvinotoolkit/openvino/issues/20012); 2048 bytes of arguments: assumed.
#define INTEL_WAYS (SUBGROUPS_KHR | SUBGROUPS_INTEL | SUBGROUPS_SHUFFLE_KHR | SUBGROUPS_SIZE_INTEL)
// With matrix engines, for sub-groups of 8, or of 16 on devices without 8: the specification of
// cl_intel_subgroup_matrix_multiply_accumulate.
#define INTEL_XMX (INTEL_WAYS | CLATTN_SUBGROUPS_MATRIX_INTEL)
#define INTEL                                                                                                \
    GPU, .vendor = "Intel(R) Corporation", .half_arithmetic = true, .subgroups = true,                       \
         .local_memory_is_local = true, .local_memory_bytes = KIB(64), .max_argument_bytes = 2048

const absent_device absent_devices[] = {
    // 132 multiprocessors: NVIDIA H100 Tensor Core GPU Architecture, the SXM5 board; clock assumed.
    {"h100",
     {NVIDIA, .name = "NVIDIA H100 80GB HBM3", .compute_units = 132, .clock_mhz = 1980,
      .compute_capability = 90, .global_memory_bytes = MIB(81090), .max_allocation_bytes = MIB(81090) / 4},
     0},
    // 108 at 1410 MHz, 40536 MB, 10134 MB in one buffer: fluid 8.
    {"a100",
     {NVIDIA, .name = "NVIDIA A100-SXM4-40GB", .compute_units = 108, .clock_mhz = 1410,
      .compute_capability = 80, .global_memory_bytes = MIB(40536), .max_allocation_bytes = MIB(10134)},
     0},
    // 24 units, work-groups of 1024, 7802 MB: course 2026 pull 90 and 2025 pull 28; clock assumed.
    {"rtx4060",
     {NVIDIA, .name = "NVIDIA GeForce RTX 4060", .compute_units = 24, .clock_mhz = 2505,
      .compute_capability = 89, .global_memory_bytes = MIB(7802), .max_allocation_bytes = MIB(7802) / 4},
     0},
    // 304 units at 2100 MHz: github.com/ROCm/legacy-rocm-build/issues/4021; 200998912 KB, 64 KiB:
    // its neighbour github.com/ROCm/rocprof-compute-viewer/issues/29; the largest buffer assumed,
    // as of its relatives.
    {"mi300x",
     {AMD, .name = "gfx942", .wavefront_width = 64, .assembly = CLATTN_ASSEMBLY_AMD, .compute_units = 304,
      .clock_mhz = 2100, .global_memory_bytes = KIB(200998912),
      .max_allocation_bytes = KIB(200998912) / 100 * 85},
     .subgroups = 64},
    // 48 (pairs of) units at 2304 MHz, 24560 MB, 20876 MB in one buffer, 64 KB: benchmark 7.
    {"rx7900xtx",
     {AMD, .name = "gfx1100", .wavefront_width = 32, .assembly = CLATTN_ASSEMBLY_AMD, .compute_units = 48,
      .clock_mhz = 2304, .global_memory_bytes = MIB(24560), .max_allocation_bytes = MIB(20876)},
     .subgroups = 32},
    // 4 GB in one buffer: github.com/intel/compute-runtime/issues/627. 16 GB. 512 units at 2400
    // MHz, from an A750 with 448 (benchmark 10). Work-groups of 1024: 128 sub-groups of 8 (openvino
    // issue 20012).
    {"arc-a770",
     {INTEL, .name = "Intel(R) Arc(TM) A770 Graphics", .compute_units = 512, .clock_mhz = 2400,
      .subgroup_ways = INTEL_XMX, .subgroup_sizes = 8 | 16 | 32, .max_work_group = 1024,
      .max_work_item = {1024, 1024, 1024}, .global_memory_bytes = MIB(15473),
      .max_allocation_bytes = GIB(4) - 4096},
     .subgroups = 8 | 16 | 32},
    // 448 units: github.com/intel/llvm/issues/20695; work-groups of 1024:
    // github.com/intel/torch-xpu-ops/pull/542; sub-groups of 16 and 32, registers of 64 bytes:
    // oneAPI GPU Optimization Guide, Xe-HPC; clock and memory: assumed.
    {"max-1100",
     {INTEL, .name = "Intel(R) Data Center GPU Max 1100", .compute_units = 448, .clock_mhz = 1550,
      .subgroup_ways = INTEL_XMX, .subgroup_sizes = 16 | 32, .max_work_group = 1024,
      .max_work_item = {1024, 1024, 1024}, .global_memory_bytes = GIB(48),
      .max_allocation_bytes = GIB(48) / 100 * 95},
     .subgroups = 16 | 32},
    // 96 units: github.com/intel/llvm/issues/6313; work-groups of 512, clock and memory: assumed.
    {"iris-xe",
     {INTEL, .name = "Intel(R) Iris(R) Xe Graphics", .compute_units = 96, .clock_mhz = 1300,
      .subgroup_ways = INTEL_WAYS, .subgroup_sizes = 8 | 16 | 32, .max_work_group = 512,
      .max_work_item = {512, 512, 512}, .global_memory_bytes = MIB(12700),
      .max_allocation_bytes = GIB(4) - 4096},
     .subgroups = 8 | 16 | 32},
    // 32 KiB of local memory, 1024 bytes of arguments, out-of-order queues:
    // github.com/BOINC/boinc/issues/3613 (an older one); OpenCL 3.0:
    // github.com/Oblomov/clinfo/issues/92 (an Adreno 750). Units, work-group, memory: assumed.
    {"adreno830",
     {GPU, .name = "QUALCOMM Adreno(TM) 830", .vendor = "QUALCOMM", .half_arithmetic = true,
      .subgroups = true, .subgroup_ways = SUBGROUPS_KHR | SUBGROUPS_SHUFFLE_QCOM | SUBGROUPS_SIZE_QCOM,
      .local_memory_is_local = true, .compute_units = 12, .clock_mhz = 1100, .max_work_group = 1024,
      .max_work_item = {1024, 1024, 1024}, .local_memory_bytes = KIB(32), .global_memory_bytes = GIB(8),
      .max_allocation_bytes = GIB(2), .max_argument_bytes = 1024},
     .subgroups = 64},
    // Local memory is global (github.com/MichaIng/DietPi/issues/4101), cl_khr_fp16, all memory in
    // one buffer (github.com/hominoids/sgminer-arm/issues/12, a Mali-G610). Work-group, units, 32
    // KiB: assumed from the same.
    {"mali-g720",
     {GPU, .name = "Mali-G720", .vendor = "ARM", .half_arithmetic = true, .subgroups = true,
      .subgroup_ways = SUBGROUPS_KHR, .compute_units = 12, .clock_mhz = 1300, .max_work_group = 1024,
      .max_work_item = {1024, 1024, 1024}, .local_memory_bytes = KIB(32), .global_memory_bytes = KIB(7614532),
      .max_allocation_bytes = KIB(7614532), .max_argument_bytes = 1024},
     .subgroups = 16},
    // 8 units, work-groups of 256, 12124 MB: course 2025 pull 148; 32 KB of local memory, 1000 MHz,
    // 2048 of 10922 MB in one buffer: benchmark 18 (an M4). OpenCL 1.2; no sub-groups, no half:
    // hashcat issue 2976 (an M1).
    {"apple-m2",
     {COMMON, .name = "Apple M2", .vendor = "Apple", .is_gpu = true, .address_bits = 64,
      .version = "OpenCL 1.2", .local_memory_is_local = true, .compute_units = 8, .clock_mhz = 1000,
      .max_work_group = 256, .max_work_item = {256, 256, 256}, .local_memory_bytes = KIB(32),
      .global_memory_bytes = MIB(12124), .max_allocation_bytes = MIB(12124) / 5, .max_argument_bytes = 4096},
     0},
    // A CPU that reports vectors of one float. Mesa 22.3 of Debian 12 reports 1024 work-items and
    // 32 KiB; the rest is assumed.
    {"llvmpipe",
     {BIG, .name = "llvmpipe", .vendor = "Mesa/X.org", .is_cpu = true, .double_arithmetic = true,
      .local_memory_is_local = true, .compute_units = 2, .clock_mhz = 300, .max_work_group = 1024,
      .max_work_item = {1024, 1024, 1024}, .local_memory_bytes = KIB(32), .global_memory_bytes = GIB(24),
      .max_allocation_bytes = GIB(2), .max_argument_bytes = 1576},
     0},
    // The minimum of an OpenCL 1.2 embedded profile (OpenCL 1.2 specification, section 10, table of
    // minima): 1 KB of local memory, a work-group of 1, 1 MB in one buffer. Only the arguments
    // exceed the minimum, because clattn needs 1024 bytes.
    {"embedded",
     {COMMON, .name = "the least of an embedded profile", .vendor = "none", .version = "OpenCL 1.2",
      .is_gpu = true, .compute_units = 1, .clock_mhz = 100, .max_work_group = 1, .max_work_item = {1, 1, 1},
      .address_bits = 32, .local_memory_bytes = KIB(1), .global_memory_bytes = MIB(4),
      .max_allocation_bytes = MIB(1), .max_argument_bytes = 1024},
     0},
    // The same with the local memory and the work-group of small GPUs: the smallest device that
    // clattn must support well.
    {"small",
     {COMMON, .name = "32 KiB and 64 work-items", .vendor = "none", .version = "OpenCL 1.2", .is_gpu = true,
      .compute_units = 4, .clock_mhz = 500, .max_work_group = 64, .max_work_item = {64, 64, 64},
      .address_bits = 32, .local_memory_is_local = true, .local_memory_bytes = KIB(32),
      .global_memory_bytes = GIB(1), .max_allocation_bytes = MIB(256), .max_argument_bytes = 1024},
     0},
};
const int absent_device_count = (int)(sizeof absent_devices / sizeof absent_devices[0]);

unsigned absent_device_proves(const absent_device *device) {
    unsigned probes = 0;
    for (int size = 8; size <= 64; size *= 2)
        if (device->subgroups & (unsigned)size && cla_subgroup_possible(&device->is, size))
            probes |= 1u << cla_subgroup_probe(size);
    for (int id = PROBE_NONE + 1; id < PROBE_COUNT; id++)
        if (PROBES_FRAGMENTS >> id & 1u && cla_probes[id].applies(&device->is)) probes |= 1u << id;
    // Integer dot products: all of these chips have them, and check_offline.sh runs their
    // compilers.
    if (device->is.compute_capability || device->is.wavefront_width ||
        device->is.subgroup_ways & CLATTN_SUBGROUPS_INTEL)
        probes |= 1u << PROBE_DOT_I8_OWN;
    return probes;
}
