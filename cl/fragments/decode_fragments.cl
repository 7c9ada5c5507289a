// decode_fragments.cl: attention of many query rows on one key/value head, though each query head has few: decode of heads that share
// keys by eights and more, multi-query decode, on a matrix engine that a warp shares. It is flash_fragments.cl whose rows are those of
// all query heads that read the key/value head, as decode_tiles.cl's are: a tile of rows reads each key and value once.
// Options that tell heads or rows apart (biases, masks, ALiBi, scales of heads), dropout and ragged batches are not here.
// Global size: (row tiles * splits * FRAGMENT_GROUP, key/value heads, batch).
#define HEAD_ROWS 1
#define FRAGMENTS_KERNEL decode_fragments
#include "fragments/flash_fragments.cl"
