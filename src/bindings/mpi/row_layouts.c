// row_layouts.c: public functions that assign rows to ranks. They need no communicator.
#include <clattn/mpi.h>

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// The n-th of `parts` blocks. The first rows % parts of them have one row more.
static clattn_mpi_segment block(int64_t n, int64_t parts, int64_t rows) {
    const int64_t each = rows / parts, more = rows % parts;
    return (clattn_mpi_segment){n * each + least(n, more), each + (n < more)};
}

static void put(clattn_mpi_segment segment, clattn_mpi_segment *segments, int32_t capacity, int32_t *count) {
    if (segment.count <= 0) return;
    if (segments && *count < capacity) segments[*count] = segment;
    ++*count;
}

static bool is_right(int rank, int ranks, int64_t n) {
    return ranks > 0 && rank >= 0 && rank < ranks && n >= 0;
}

int32_t clattn_mpi_blocks(int rank, int ranks, int64_t n, clattn_mpi_segment *segments, int32_t capacity) {
    int32_t count = 0;
    if (is_right(rank, ranks, n)) put(block(rank, ranks, n), segments, capacity, &count);
    return count;
}

int32_t clattn_mpi_zigzag(int rank, int ranks, int64_t n, clattn_mpi_segment *segments, int32_t capacity) {
    int32_t count = 0;
    if (!is_right(rank, ranks, n)) return 0;
    const int64_t chunks = 2 * (int64_t)ranks;
    put(block(rank, chunks, n), segments, capacity, &count);
    put(block(chunks - 1 - rank, chunks, n), segments, capacity, &count);
    return count;
}

int32_t clattn_mpi_pages(int rank, int ranks, int64_t n, int64_t page_rows, clattn_mpi_segment *segments,
                         int32_t capacity) {
    int32_t count = 0;
    if (!is_right(rank, ranks, n) || page_rows < 1) return 0;
    for (int64_t start = rank * page_rows; start < n; start += ranks * page_rows)
        put((clattn_mpi_segment){start, least(page_rows, n - start)}, segments, capacity, &count);
    return count;
}

const char *clattn_mpi_strategy_name(clattn_mpi_strategy strategy) {
    static const char *const names[CLATTN_MPI_STRATEGY_COUNT] = {"auto", "ring", "all_to_all", "all_gather"};
    return (unsigned)strategy < CLATTN_MPI_STRATEGY_COUNT ? names[strategy] : "(unknown)";
}
