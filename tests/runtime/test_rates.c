// test_rates.c: the meaning of repeated times of probes, and of contradictory rates of one device,
// with made-up numbers. Plans that follow from them are in test_plan_widths.c.
#include "probe/rates.h"

#include <check.h>
#include <stdlib.h>

static void keep(probe_results *results, probe_id id, float rate) {
    if (rate != 0.0f) results->ran |= 1u << id;
    if (rate > 0.0f) results->proven |= 1u << id, results->rate[id] = rate;
}

// A rate far below other rates of the same engine is measured again. The first row is a machine
// with other work during the measurement of vectors of 16.
START_TEST(disturbed_rates) {
    static const struct {
        const char *word;
        uint32_t width;
        float fma, dot, lanes_4, lanes_8, lanes_16, wide, tall;
        unsigned doubtful;
        probe_id best;
    } cases[] = {
        {"Zen 4, vectors of 16 disturbed", 16, 117, 233, 59, 119.3f, 74.9f, 118, 117, 1u << PROBE_LANES_16,
         PROBE_LANES_8},
        {"Zen 4, multiply-adds disturbed", 16, 70.4f, 232, 58, 119, 118, 118, 118, 1u << PROBE_FMA,
         PROBE_LANES_8},
        {"Zen 4, multiply-adds alone known", 16, 70.4f, 232, 0, 0, 0, 0, 0, 1u << PROBE_FMA, PROBE_DOT_BF16},
        {"Zen 4, the dot product disturbed", 16, 117, 120, 58, 119, 118, 118, 119.5f, 1u << PROBE_DOT_BF16,
         PROBE_LOADS_4X6},
        {"Zen 4, two disturbed", 16, 60, 232, 58, 119, 118, 80, 118, 1u << PROBE_FMA | 1u << PROBE_LOADS_2X8,
         PROBE_LANES_8},
        {"Zen 4, quiet", 16, 117, 231, 58, 117, 116, 118, 117, 0, PROBE_LOADS_2X8},
        {"Zen 5", 16, 243, 450, 120, 230, 233, 238, 233, 0, PROBE_FMA},
        // The rate is real: a second measurement finds it again.
        {"Sapphire Rapids", 16, 150, 74, 50, 98, 130, 124, 137, 1u << PROBE_DOT_BF16, PROBE_FMA},
        {"AVX2", 8, 100, 0, 55, 100, 90, 0, 0, 0, PROBE_FMA},
        {"AVX2, its own width disturbed", 8, 100, 0, 55, 60, 90, 0, 0, 1u << PROBE_LANES_8, PROBE_FMA},
        {"PoCL on aarch64", 1, 40, 0, 34, 35, 20, 0, 0, 0, PROBE_FMA},
        {"eight is wrong", 8, 100, 0, 55, -1, 0, 0, 0, 0, PROBE_FMA},
        {"nothing known", 16, 0, 0, 0, 0, 0, 0, 0, 0, PROBE_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const clattn_capabilities device = {.is_cpu = true, .float_vector_width = cases[i].width};
        probe_results found = {.ran = 0};
        probe_id best;
        keep(&found, PROBE_FMA, cases[i].fma);
        keep(&found, PROBE_DOT_BF16, cases[i].dot);
        keep(&found, PROBE_LANES_4, cases[i].lanes_4);
        keep(&found, PROBE_LANES_8, cases[i].lanes_8);
        keep(&found, PROBE_LANES_16, cases[i].lanes_16);
        keep(&found, PROBE_LOADS_2X8, cases[i].wide);
        keep(&found, PROBE_LOADS_4X6, cases[i].tall);
        const unsigned doubtful = cla_rates_doubtful(&device, &found, &best);
        ck_assert_msg(doubtful == cases[i].doubtful && best == cases[i].best, "%s: %#x, best %d",
                      cases[i].word, doubtful, best);
    }
}
END_TEST

// Two measurements of a rate, and the best rate of the other probes beside each of them.
START_TEST(second_looks) {
    static const struct {
        const char *word;
        float first, again, best, best_again;
        bool again_sure, sure;
        float rate;
    } cases[] = {
        {"the first was disturbed", 74.9f, 117, 119, 118, true, true, 117},
        {"it is so", 74, 73, 150, 149, true, true, 74},
        {"the machine is still busy", 74.9f, 75, 119, 77, true, false, 75},
        {"the second was disturbed", 74.9f, 50, 119, 118, true, false, 74.9f},
        {"the second's runs differ", 74.9f, 100, 119, 118, false, false, 100},
        {"the second failed", 74.9f, 0, 119, 118, false, false, 74.9f},
        {"the best failed", 74.9f, 117, 119, 0, true, false, 117},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const probe_rate first = {.gflops = cases[i].first, .sure = true},
                         again = {.gflops = cases[i].again, .sure = cases[i].again_sure},
                         rate = cla_probe_combine_rates(&first, &again, cases[i].best, cases[i].best_again);
        ck_assert_msg(rate.gflops == cases[i].rate && rate.sure == cases[i].sure &&
                          rate.settled == cases[i].sure,
                      "%s: %g, %d", cases[i].word, (double)rate.gflops, rate.sure);
    }
}
END_TEST

// The distance between the two least times, in any order.
START_TEST(times_scatter) {
    static const struct {
        double times[4], launch;
        float spread;
    } cases[] = {
        {{100, 300, 104, 200}, 0, 0.04f}, {{300, 104, 200, 100}, 0, 0.04f}, {{100, 100, 100, 100}, 50, 0.0f},
        {{100, 150, 200, 250}, 0, 0.5f},  {{100, 104, 300, 200}, 60, 0.1f}, {{100, 250, 300, 400}, 0, 1.0f},
        {{40, 60, 60, 60}, 50, 0.5f},     {{400, 300, 200, 100}, 0, 1.0f},
    };
    rate_times one = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rate_times t = {0};
        for (int n = 0; n < 4; n++) cla_rates_time(&t, cases[i].times[n]);
        const float spread = cla_rates_spread(&t, cases[i].launch);
        ck_assert_msg(spread > cases[i].spread - 1e-6f && spread < cases[i].spread + 1e-6f, "%d: %g", (int)i,
                      (double)spread);
        ck_assert_int_eq(t.runs, 4);
    }
    cla_rates_time(&one, 100);
    ck_assert(cla_rates_spread(&one, 0) == 1.0f);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("rates");
    TCase *group = tcase_create("rates");
    tcase_add_test(group, disturbed_rates);
    tcase_add_test(group, second_looks);
    tcase_add_test(group, times_scatter);
    suite_add_tcase(suite, group);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
