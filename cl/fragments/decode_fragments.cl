// decode_fragments.cl: attention of many query heads with few rows each on one key/value head, on a
// GPU's matrix engine: decode with eight or more query heads per key/value head. It is
// flash_fragments.cl with HEAD_ROWS. A tile has rows of all query heads of the key/value head, and
// reads each key and value once.
//
// Options that differ between heads or rows (biases, masks, ALiBi, head scales), dropout and ragged
// batches are unsupported. Global size: (row tiles * splits * FRAGMENT_GROUP, key/value heads,
// batch).
#define HEAD_ROWS 1
#define FRAGMENTS_KERNEL decode_fragments
#include "fragments/flash_fragments.cl"
