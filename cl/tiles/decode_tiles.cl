// decode_tiles.cl: attention of many query heads with few rows each on one key/value head, on GPUs:
// latent and multi-query decode. It is a matrix product whose rows are those of all query heads
// that share the key/value head: flash_tiles.cl with HEAD_ROWS.
//
// A tile of 16 or 64 rows reads each key and value once, where decode_groups.cl has four rows. In
// multi-head latent attention values are parts of keys, and come from the cache. Options that
// differ between heads or rows (biases, masks, ALiBi, head scales), dropout and ragged batches are
// unsupported. Global size: (row tiles * splits * TILES_GROUP, key/value heads, batch).
#define HEAD_ROWS 1
#define TILES_KERNEL decode_tiles
#include "tiles/flash_tiles.cl"
