// decode_tiles.cl: attention of many query rows on one key/value head, though each query head has few: latent and multi-query
// decode, on devices whose work-items are lanes of their own (GPUs). There it is a product of matrices, whose rows are those of
// all query heads that read the key/value head: flash_tiles.cl with such rows. A tile of rows reads each key and value once,
// which are 64 or 16 rows where decode_groups has four; of a latent, whose values are parts of its keys, the values come
// from the cache that the keys have just filled.
// Options that tell heads or rows apart (biases, masks, ALiBi, scales of heads), dropout and ragged batches are not here.
// Global size: (row tiles * splits * TILES_GROUP, key/value heads, batch).
#define HEAD_ROWS 1
#define TILES_KERNEL decode_tiles
#include "tiles/flash_tiles.cl"
