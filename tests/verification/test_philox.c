// test_philox.c: the dropout mask of the reference (verification/reference/random.h): the published
// vectors of Philox 4x32-10, the rule of the threshold, and statistics of kept keys and neighbours.
// Needs no device.
#include "support/run_suite.h"

#include <check.h>
#include <math.h>

#include "verification/reference/random.h"

// kat_vectors of Random123 1.14: counter, key, words.
static const uint32_t known[][10] = {
    {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
    {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e,
     0xa20bc7c6, 0x6d5451fd},
    {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb,
     0x5001e420, 0x24126ea1},
};

START_TEST(published_vectors) {
    for (size_t n = 0; n < sizeof known / sizeof known[0]; n++) {
        uint32_t words[4];
        philox(known[n], known[n] + 4, words);
        for (int w = 0; w < 4; w++) ck_assert_uint_eq(words[w], known[n][6 + w]);
    }
}
END_TEST

// With seed 0 and row 0 the words of keys 0 to 3 are the first vector's: 0.3995, 0.8805, 0.7357,
// 0.6055 of 2^32.
START_TEST(thresholds) {
    ck_assert(philox_keeps(0.0f, 0, 0, 0, 0, 0));
    ck_assert(philox_keeps(0.39f, 0, 0, 0, 0, 0) && !philox_keeps(0.4f, 0, 0, 0, 0, 0));
    ck_assert(philox_keeps(0.88f, 0, 0, 0, 0, 1) && !philox_keeps(0.881f, 0, 0, 0, 0, 1));
    ck_assert(philox_keeps(0.73f, 0, 0, 0, 0, 2) && !philox_keeps(0.74f, 0, 0, 0, 0, 2));
    ck_assert(philox_keeps(0.6f, 0, 0, 0, 0, 3) && !philox_keeps(0.606f, 0, 0, 0, 0, 3));
    ck_assert_double_eq(philox_factor(0.75f, 0, 0, 0, 0, 0), 0.0);
    ck_assert_double_eq(philox_factor(0.75f, 0, 0, 0, 0, 1), 4.0);
    ck_assert_double_eq(philox_factor(0.0f, 0, 0, 0, 0, 1), 1.0);
}
END_TEST

// n places are kept with probability 1 - P each. Their share is within five standard deviations,
// and two neighbours along an axis are independent.
START_TEST(statistics) {
    static const float shares[] = {0.01f, 0.1f, 0.5f, 0.9f};
    const double keep = 1 - (double)shares[_i], n = 2 * 3 * 64 * 128;
    double kept = 0, pairs[4] = {0};
    for (int b = 0; b < 2; b++)
        for (int h = 0; h < 3; h++)
            for (int i = 0; i < 64; i++)
                for (int j = 0; j < 128; j++) {
                    const bool here = philox_keeps(shares[_i], 5, b, h, i, j);
                    kept += here;
                    pairs[0] += here && philox_keeps(shares[_i], 5, b, h, i, j + 1);
                    pairs[1] += here && philox_keeps(shares[_i], 5, b, h, i + 1, j);
                    pairs[2] += here && philox_keeps(shares[_i], 5, b, h + 3, i, j);
                    pairs[3] += here && philox_keeps(shares[_i], 5, b + 2, h, i, j);
                }
    ck_assert_double_le(fabs(kept - n * keep), 5 * sqrt(n * keep * (1 - keep)));
    for (int x = 0; x < 4; x++) {
        const double both = keep * keep;
        // Neighbouring pairs share a place: at most three times the variance of separate pairs.
        ck_assert_double_le(fabs(pairs[x] - n * both), 5 * sqrt(3 * n * both * (1 - both)));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("philox");
    TCase *all = tcase_create("words and masks");
    tcase_add_test(all, published_vectors);
    tcase_add_test(all, thresholds);
    tcase_add_loop_test(all, statistics, 0, 4);
    suite_add_tcase(suite, all);
    return run_suite(suite, CK_FORK_GETENV);
}
