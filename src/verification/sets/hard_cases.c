// hard_cases.c: see hard_cases.h.
#include "verification/sets/hard_cases.h"

#include <string.h>

#include "verification/device/allocate.h"

const struct hard_case hard_cases[] = {
    {"plain", "attend-f32-b2-h2-n33-nkv65-d64-full-lse"},
    {"causal", "attend-f32-b1-h3-n65-nkv49-d64-causal-lse"},
    {"grouped", "attend-f32-b2-h6-hkv2-n7-nkv130-d64-full-lse-kvlen130:43-hiddennan"},
    {"window", "attend-f32-b1-h2-n50-nkv70-d64-full-lse-window9:3"},
    {"hidden-nan", "attend-f32-b2-h2-n16-nkv90-d64-causal-offset20-lse-kvlen90:30-hiddennan"},
    {"empty-rows", "attend-f32-b1-h2-n16-nkv5-d64-causal-lse"},
    {"huge-scores", "attend-f32-b1-h1-n16-nkv40-d64-full-lse-huge"},
    {"everything",
     "attend-f32-b2-h4-hkv2-n15-nkv77-d64-causal-offset50-lse-softcap5-maskqk-biasqk-alibi-sinks-"
     "kvlen77:25-hiddennan"},
    {"odd-sizes-f16", "attend-f16-b1-h2-n13-nkv67-d41-dv23-full-lse"},
    {"long-bf16", "attend-bf16-b1-h4-hkv1-n2-nkv1030-d128-full-lse"},

    // Each option by itself, with few enough rows for decode.
    {"top-left", "attend-f32-b1-h2-n33-nkv70-d64-causal-topleft-lse"},
    {"negative-offset", "attend-f32-b1-h2-n16-nkv33-d64-causal-offsetm9-lse"},
    {"offsets", "attend-f32-b3-h2-n9-nkv33-d64-causal-lse-offsetsm4:0:13"},
    {"q-lengths", "attend-f32-b3-h2-n20-nkv33-d64-full-lse-qlen20:0:7-hiddennan"},
    {"kv-lengths", "attend-f32-b3-h2-n20-nkv33-d64-full-lse-kvlen9:33:0-hiddennan"},
    {"softcap", "attend-f32-b1-h2-n16-nkv33-d64-full-lse-softcap1.5"},
    {"scale", "attend-f32-b1-h2-n16-nkv33-d64-full-lse-scalem0.3"},
    {"mask", "attend-f32-b2-h2-n16-nkv33-d64-full-lse-maskbhqk"},
    {"bias", "attend-f32-b2-h2-n16-nkv33-d64-full-lse-bias1hqk"},
    {"key-mask", "attend-f32-b2-h2-n16-nkv33-d64-full-lse-maskb11k"},
    {"bf16-bias", "attend-f32-b2-h2-n16-nkv33-d64-full-lse-biashqk:bf16"},
    {"alibi", "attend-f32-b1-h4-n16-nkv33-d64-causal-lse-alibi"},
    {"sinks", "attend-f32-b1-h4-n16-nkv33-d64-full-lse-sinks"},
    {"device-sinks", "attend-bf16-b2-h4-hkv2-n16-nkv33-d64-causal-lse-sinks-kvlen9:33-devicesinks"},
    {"huge-sinks", "attend-f32-b1-h2-n12-nkv33-d64-full-lse-sinks10000:m10000"},
    {"rope", "attend-f32-b2-h4-hkv2-n9-nkv33-d64-causal-lse-ropehalf-ropepos1000"},
    {"positions", "attend-f32-b2-h4-hkv2-n9-nkv33-d64-causal-lse-ropehalf-positions"},
    {"sections",
     "attend-f32-b2-h4-hkv2-n9-nkv33-d64-causal-lse-ropehalf-positions-sectiont12-sectionh10-sectionw10-"
     "sectionsmixed"},
    {"append", "attend-f32-b2-h4-hkv2-n9-nkv33-d64-causal-lse-kvlen33:9-ropehalf-append9"},
    {"append-i8", "decode-f32-b2-h8-hkv2-n1-nkv300-d64-causal-kvi8-lse-kvlen300:17-append1-hiddennan"},
    {"append-past",
     "attend-f32-b2-h4-hkv2-n9-nkv65-d64-causal-lse-past32:32:20-kvlen50:29-ropehalf-ropepos3-append9"},
    {"rope-part", "attend-f32-b1-h2-n9-nkv33-d40-causal-lse-ropeinterleaved-rotary24"},
    {"bshd", "attend-f32-b2-h3-n9-nkv33-d40-full-bshd-lse"},
    {"padded", "attend-f32-b2-h3-n9-nkv33-d40-full-padded-lse"},
    {"packed", "attend-f32-b2-h4-hkv2-n21-d32-causal-packed-lse"},
    {"no-lse", "attend-f32-b1-h2-n16-nkv33-d64-full"},
    {"weights", "attend-f32-b2-h2-n16-nkv33-d64-causal-lse-weights"},
    {"weights-f16", "attend-f32-b2-h2-n16-nkv33-d64-full-lse-weightsf16-sinks"},
    {"raw-scores", "attend-f32-b1-h2-n16-nkv33-d64-full-lse-scoresraw-softcap3"},
    {"masked-scores", "attend-f32-b1-h2-n16-nkv33-d64-causal-lse-scoresmasked"},
    {"mixed-types", "attend-f32-b1-h2-n16-nkv33-d32-full-kvbf16-lse"},

// Each host array with numbers from the seed, in float32, and in bfloat16 with grouped heads.
#define HOST(name, key, of_heads, per, low, high, field, option, help)                                       \
    {"any-" key, "attend-f32-b3-h4-n16-nkv33-d64-full-lse-" key},                                            \
        {"any-" key "-bf16", "attend-bf16-b2-h4-hkv2-n40-nkv70-d64-causal-lse-" key},
#include "verification/sets/hosts.def"
#undef HOST

    // Expressions that replace all options that they can express.
    {"mods",
     "attend-f32-b2-h4-hkv2-n15-nkv77-d64-causal-offset50-lse-softcap5-maskqk-biasqk-alibi-sinks-mods"},
    {"mods-lengths", "attend-bf16-b3-h2-n40-nkv90-d64-full-lse-kvlen9:90:0-mods-hiddennan"},
    {"mods-weights", "attend-f32-b1-h2-n20-nkv33-d64-causal-lse-weights-alibi-mods"},
    {"mods-taps", "attend-f32-b1-h2-n16-nkv33-d64-causal-lse-scoresmasked-biasqk-mods"},
    {"blocks", "attend-f32-b2-h2-n150-nkv333-d64-causal-lse-window90:0-maskhqk-mods-blocks"},
    {"blocks-causal", "attend-f16-b1-h2-n200-nkv260-d40-causal-bshd-lse-alibi-sinks-mods-blocks"},
    {"mods-layer", "layer-f32-b2-h4-hkv2-n19-d16-m48-causal-native-alibi-kvlen19:4-mods"},

    // Dropped weights.
    {"dropout", "attend-f32-b2-h4-hkv2-n15-nkv77-d64-causal-offset50-lse-window40:m1-alibi-sinks-kvlen77:25-"
                "dropout0.3:7-"
                "hiddennan"},
    {"dropout-weights", "attend-bf16-b1-h4-hkv2-n9-nkv130-d64-full-lse-weights-dropout0.5:1"},

    // Packed sequences, with NaN in every unused row.
    {"ragged", "attend-f32-b4-h4-hkv2-n15-nkv77-d64-causal-lse-sinks-qlen15:0:4:1-kvlen77:25:0:9-raggedhost"},
    {"ragged-device",
     "attend-bf16-b4-h4-hkv2-n16-nkv140-d64-causal-bshd-lse-window60:0-alibi-qlen9:16:1:3-kvlen77:140:5:3-"
     "raggedgapsdevice"},

    {"ragged-pages",
     "attend-f32-b4-h4-hkv2-n15-nkv80-d64-causal-lse-pages16-sinks-qlen15:0:4:1-kvlen77:25:0:9-"
     "raggedcachedevice"},
    {"ragged-past",
     "attend-bf16-b4-h4-hkv2-n15-nkv77-d64-causal-lse-past40:40:7:0:33-alibi-qlen15:0:4:1-kvlen77:25:0:40-"
     "ropehalf-raggedgapsdevice"},
    {"ragged-append",
     "attend-f32-b3-h4-hkv2-n15-nkv60-d64-causal-lse-pages12-qlen1:15:5-kvlen60:33:9-ropehalf-positions-"
     "append15-raggedcache"},

    // Keys and values as i8 with one scale for each row, in kernels, layouts and combinations.
    {"i8", "attend-f32-b2-h4-hkv2-n33-nkv65-d64-full-kvi8-lse"},
    {"f8e4m3", "attend-bf16-b1-h4-hkv2-n13-nkv67-d41-dv23-causal-kvf8e4m3-padded-lse"},
    {"f8e5m2", "decode-f32-b2-h8-hkv2-n1-nkv300-d128-full-kvf8e5m2-lse"},
    {"f8-append", "decode-f32-b2-h8-hkv2-n1-nkv300-d64-causal-kvf8e4m3-lse-kvlen300:17-append1-hiddennan"},
    {"i8-decode", "decode-f32-b2-h8-hkv2-n1-nkv1031-d128-full-kvi8-lse"},
    {"i8-odd", "attend-bf16-b1-h2-n13-nkv67-d41-dv23-causal-kvi8-padded-lse"},
    {"i8-hidden-nan",
     "attend-f32-b2-h4-hkv2-n15-nkv77-d64-causal-offset50-kvi8-spaced-lse-softcap5-maskqk-biasqk-alibi-"
     "sinks-kvlen77:25-hiddennan"},
    {"i8-weights", "attend-f16-b1-h2-n16-nkv33-d80-full-kvi8-bshd-lse-weights"},
    // Blocks of 32 numbers.
    {"q8_0", "attend-f32-b2-h4-hkv2-n33-nkv65-d64-full-kvq8_0-lse"},
    {"q4_0-decode", "decode-f32-b2-h8-hkv2-n1-nkv1031-d128-full-kvq4_0-lse"},
    {"q4_1", "attend-bf16-b1-h4-hkv2-n13-nkv67-d96-dv32-causal-kvq4_1-padded-lse-kvlen40-hiddennan"},
    {"q8_0-append", "decode-f32-b2-h8-hkv2-n1-nkv300-d64-causal-kvq8_0-lse-kvlen300:17-append1-hiddennan"},
    {"q4_0-past", "attend-f16-b3-h4-hkv2-n2-nkv77-d64-dv32-causal-kvq4_0-bshd-lse-past70-sharedpast"},
    {"q8_0-latent",
     "attend-f32-b1-h20-hkv1-n3-nkv77-d96-dv64-full-kvq8_0-padded-latent-lse-softcap5-window40:m1-sinks"},
    // Stored with a Hadamard transform.
    {"rotated",
     "attend-f32-b2-h4-hkv2-n15-nkv77-d64-dv32-causal-offset50-kvq4_0-lse-krotation64-vrotation16-sinks-"
     "qlen15:4-kvlen77:25-hiddennan"},
    {"rotated-append",
     "decode-bf16-b2-h8-hkv2-n1-nkv300-d64-causal-lse-krotation32-vrotation64-kvlen300:17-ropehalf-append1"},
    {"rotated-ragged",
     "attend-f16-b3-h4-hkv2-n15-nkv60-d96-dv64-causal-lse-pages12-krotation32-vrotation64-qlen1:15:5-"
     "kvlen60:33:9-ropehalf-positions-append15-raggedcache"},
    {"rotated-latent", "attend-f32-b1-h20-hkv1-n3-nkv77-d96-dv64-full-kvq8_0-latent-lse-krotation32-"
                       "vrotation32-kvlen50-hiddennan"},
    {"rotated-groups",
     "decode-f32-b2-h8-hkv2-n1-nkv300-d64-causal-kvu4-groups32-scalesf16-zeros-lse-krotation64-"
     "vrotation32-kvlen300:17-"
     "append1-hiddennan"},
    // Groups of a row's numbers with a scale each, zero points, and 4-bit numbers.
    {"i4-groups", "attend-f32-b2-h4-hkv2-n33-nkv65-d64-full-kvi4-groups32-scalesf16-lse"},
    {"i4-groups-decode", "decode-f32-b2-h8-hkv2-n1-nkv1031-d128-full-kvi4-groups32-scalesf16-lse"},
    {"u4-zeros-decode",
     "decode-bf16-b2-h8-hkv2-n2-nkv300-d128-causal-kvu4-groups64-scalesf16-zeros-padded-lse"},
    {"i4-rows", "attend-f16-b1-h2-n13-nkv67-d42-dv22-causal-kvi4-padded-lse-kvlen40-hiddennan"},
    {"i8-groups",
     "attend-bf16-b1-h4-hkv2-n13-nkv67-d96-dv64-causal-kvi8-groups32-valuegroups64-scattered-lse-softcap5-"
     "kvlen40-hiddennan"},
    {"f8-zeros-past",
     "attend-f16-b3-h4-hkv2-n2-nkv77-d64-dv32-causal-kvf8e4m3-groups32-zeros-bshd-lse-past70-sharedpast"},
    {"i4-values-pages",
     "decode-f16-b2-h4-hkv2-n1-nkv112-d64-full-valuesi4-groups32-scalesbf16-zeros-padded-lse-pages16-"
     "kvlen112:35"},
    {"i4-append",
     "decode-f32-b2-h8-hkv2-n1-nkv300-d64-causal-kvi4-groups32-scalesf16-lse-kvlen300:17-append1-hiddennan"},
    {"u4-append",
     "decode-f32-b2-h8-hkv2-n2-nkv60-d64-causal-kvu4-groups32-scalesf16-zeros-lse-past20-kvlen60:37-append2"},
    {"i4-latent",
     "attend-f32-b1-h20-hkv1-n3-nkv77-d96-dv64-full-kvi4-groups32-scalesf16-zeros-padded-latent-lse-"
     "window40:m1"},
    {"i8-zeros-ragged",
     "attend-f32-b4-h4-hkv2-n15-nkv77-d64-causal-kvi8-groups32-scalesf16-zeros-lse-qlen15:0:4:1-"
     "kvlen77:25:0:9-raggedhost"},
    // 16-bit queries and results with quantised keys: both products can use integers.
    {"integers", "decode-bf16-b2-h8-hkv2-n3-nkv1031-d128-causal-kvi8-lse-softcap5-kvlen1031:70"},
    {"integers-blocks", "decode-f16-b2-h8-hkv2-n1-nkv300-d128-dv64-full-kvq4_0-padded-lse-window200:0-sinks"},
    {"integers-nan", "decode-f16-b2-h4-n1-nkv77-d64-full-kvq8_0-lse-seennan"},
    {"i8-taps", "attend-f32-b1-h2-n12-nkv33-d64-full-kvi8-lse-scoresmasked-window9:3-seennan"},

    // Past rows before the new ones, and pages; test_past.c has more.
    {"past", "attend-f32-b2-h4-hkv2-n9-nkv130-d64-causal-lse-past121:121:40-ropehalf-ropepos3"},
    {"past-everything",
     "attend-bf16-b2-h4-hkv2-n15-nkv77-d64-causal-padded-lse-softcap5-past50:50:7-window60:0-maskqk-biasqk-"
     "alibi-sinks-kvlen77:20"},
    {"past-i8", "attend-f16-b3-h4-hkv2-n2-nkv77-d41-dv23-causal-kvi8-bshd-lse-past70-sharedpast"},
    {"cascade",
     "attend-f32-b3-h4-hkv2-n1-nkv90-d64-causal-lse-softcap5-past70-sharedpast-cascadealways-maskb1qk-biasqk-"
     "sinks-kvlen90:75:81"},
    {"cascade-i8", "decode-bf16-b5-h4-hkv2-n1-nkv77-d64-causal-kvi8-lse-past60-sharedpast-cascadealways"},
    // Equal scores of 6e6 in both parts, computed by one kernel: the weights of 400 and 200 keys
    // must be 2 to 1.
    {"cascade-huge-flash",
     "attend-f32-b2-h6-hkv2-n16-nkv600-d40-full-flash-kvi8-lse-past400-sharedpast-cascadealways-huge"},
    {"cascade-huge-decode",
     "attend-f32-b2-h6-hkv2-n16-nkv600-d40-full-decode-lse-past400-sharedpast-cascadealways-hugeneg"},
    {"pages", "attend-f32-b3-h4-hkv2-n9-nkv144-d64-causal-bshd-lse-pages16-kvlen144:33:70"},
    {"pages-odd", "attend-bf16-b2-h2-n5-nkv105-d64-causal-padded-lse-pages7-maskqk-kvlen105:50-ropehalf"},

    // Many query heads with one latent key/value head, whose v is a view of k.
    {"latent", "decode-f32-b2-h18-hkv1-n2-nkv130-d72-dv64-causal-latent-lse-kvlen130:43-hiddennan"},
    {"latent-bf16", "decode-bf16-b1-h40-hkv1-n1-nkv301-d96-dv64-full-latent-lse-seennan"},
    {"latent-i8",
     "attend-f32-b1-h20-hkv1-n3-nkv77-d40-dv33-full-kvi8-padded-latent-lse-softcap5-window40:m1-sinks"},

    {"latent-options",
     "attend-f32-b2-h17-hkv1-n3-nkv77-d40-dv32-causal-latent-lse-window60:0-maskhqk-biasbhqk-alibi-sinks-"
     "headscales-dropout0.2:5"},
    {"latent-pages", "attend-bf16-b2-h16-hkv1-n1-nkv112-d96-dv64-causal-latent-lse-pages16-kvlen112:35"},

    // Sizes at the edges of tiles, vectors and splits.
    {"one-key", "attend-f32-b2-h3-n1-d64-full-lse"},
    {"one-row", "attend-f32-b2-h3-n1-nkv127-d80-full-lse"},
    {"long-row", "attend-f32-b1-h4-hkv2-n1-nkv1031-d64-causal-lse"},
    {"tiny-heads", "attend-f32-b1-h2-n10-nkv37-d1-full-lse"},
    {"wide-heads", "attend-f32-b1-h1-n10-nkv37-d256-causal-lse"},
    {"splits", "decode-f32-b2-h4-hkv2-n1-nkv1031-d32-full-decode-lse-splits7"},

    // Equal scores of 1e7, in splits that see different numbers of keys.
    {"splits-huge-negative", "attend-f32-b1-h2-n1-nkv600-d64-full-decode-lse-splits7-maskhqk-hugeneg"},
    {"splits-huge-flash", "attend-f32-b1-h1-n9-nkv1100-d64-full-flash-lse-maskqk-huge"},

    // Dangerous pairs of options.
    {"window-causal", "attend-f32-b1-h2-n40-nkv70-d64-causal-lse-window5:m1"},
    {"window-lengths", "attend-f32-b3-h2-n20-nkv33-d64-full-bottomright-lse-window4:0-kvlen9:33:0-hiddennan"},
    {"empty-with-sink", "attend-f32-b1-h2-n33-nkv17-d64-causal-lse-sinks"},
    {"lengths-both", "attend-f32-b2-h2-n12-nkv33-d32-causal-lse-qlen12:5-kvlen33:17-hiddennan"},
    {"mask-window", "attend-f32-b2-h2-n20-nkv33-d64-full-lse-window3:3-maskqk-alibi"},
    {"softcap-huge", "attend-f32-b1-h2-n12-nkv33-d64-full-lse-softcap30-huge"},
    {"huge-negative", "attend-f32-b1-h2-n12-nkv33-d64-causal-lse-hugeneg"},
    {"dominant", "attend-f32-b1-h2-n12-nkv100-d64-full-lse-dominant"},
    {"seen-nan", "attend-f32-b1-h2-n40-d64-causal-lse-seennan"},
    {"row-nan", "attend-f32-b1-h2-n12-nkv33-d64-full-lse-rownan"},
    {"nan-weights", "attend-f32-b1-h2-n12-nkv33-d64-causal-lse-weights-maskqk-rownan"},
    {"inf-bias", "attend-f32-b2-h2-n12-nkv33-d64-full-lse-biasqk-infbias"},
    {"inf-bias-sinks", "attend-f32-b2-h2-n12-nkv33-d64-full-lse-biasqk-sinks-infbias"},
    {"f16-everything",
     "attend-f16-b2-h4-hkv2-n15-nkv77-d64-causal-offset50-spaced-lse-window40:m1-maskbhqk-biashqk:f16-"
     "alibi-sinks-qlen15:4-kvlen77:25-hiddennan"},
    {"layer", "layer-f32-b2-h4-hkv2-n9-d16-m48-causal-native-biases-kvlen9:4-ropehalf"},
    {"cross-layer-bf16", "layer-bf16-b2-h4-n9-nkv21-d16-m31-full-native-my40-mo57-biasesqv-padded-qlen9:5"},
    {"layer-norm", "layer-f32-b2-h4-hkv2-n9-d16-m48-causal-native-biases-normheads-normplus-ropehalf"},
    {"layer-norm-width", "layer-bf16-b2-h4-hkv2-n9-nkv21-d16-m48-full-native-my40-normwidth-normeps0.001"},
    {"layer-gate", "layer-f32-b2-h4-hkv2-n9-d16-m48-causal-native-gateall-gatebias-kvlen9:4"},
    {"layer-ready",
     "layer-f32-b2-h4-hkv2-n9-nkv21-d16-m48-causal-native-biasesqv-normheads-normplain-ready-sinks-ropehalf"},
    {"layer-rotated",
     "layer-f32-b2-h4-hkv2-n9-nkv21-d16-m48-causal-native-normheads-normplain-ready-krotation16-vrotation8-"
     "ropehalf-positions"},
    {"layer-ragged", "layer-f32-b3-h4-hkv2-n9-d16-m48-causal-native-normheads-normplain-gateall-qlen9:0:4-"
                     "kvlen9:0:4-ropehalf-"
                     "raggedgapsdevice"},
    {"linear", "linear-f16-b2-h1-n9-d45-m67-full-native-matrixbf16-biases"},
    {"linear-row", "linear-bf16-b1-h1-n1-d131-m67-full-native-biases"},
    {"linear-rows", "linear-f32-b2-h1-n8-d64-m130-full-native-matrixbf16"},
    {"linear-many", "linear-f32-b1-h1-n70-d96-m131-full-native-biases"},
    {"linear-packed", "linear-bf16-b1-h2-n70-d48-m131-full-native-packed-biases"},
    {"linear-split", "linear-f32-b2-h1-n35-d70-m300-full-native-split-packed-biases"},
    {"layer-split", "layer-f32-b1-h4-hkv2-n37-d32-m96-causal-native-split-biases-ropehalf"},
    {"linear-many-f16", "linear-f16-b2-h1-n45-d45-m64-full-native"},
    {"linear-blocks", "linear-f32-b2-h1-n5-d45-m96-full-native-matrixq4_0-biases"},
    {"linear-groups", "linear-f32-b2-h1-n2-d45-m96-full-native-matrixu4-groups32-scalesf16-zeros-scattered"},
    {"linear-groups-many", "linear-f16-b2-h1-n45-d45-m67-full-native-matrixi8-padded"},
    {"linear-blocks-many", "linear-bf16-b2-h1-n45-d45-m96-full-native-matrixq8_0-padded"},
    {"bf16-rope-decode",
     "decode-bf16-b2-h8-hkv2-n1-nkv300-d64-causal-lse-sinks-kvlen300:17-ropehalf-hiddennan"},

    // Gradients: every option alone, rows and keys that are not visible, and sizes between tiles.
    {"backward", "backward-f32-b2-h2-n33-nkv65-d64-full"},
    {"backward-causal", "backward-f32-b1-h3-n65-nkv49-d64-causal-dlse"},
    {"backward-grouped", "backward-f32-b2-h6-hkv2-n7-nkv130-d64-full-dlse-kvlen130:43-hiddennan"},
    {"backward-f16", "backward-f16-b1-h2-n13-nkv67-d41-dv23-full-dlse"},
    {"backward-bf16", "backward-bf16-b1-h4-hkv1-n130-nkv70-d64-causal-dlse"},
    {"backward-mixed", "backward-f16-b1-h2-n16-nkv33-d32-full-kvf32-outbf16-gradf32"},
    {"backward-bf16-f32", "backward-bf16-b1-h4-hkv2-n40-nkv70-d128-causal-gradf32"},
    {"backward-top-left", "backward-f32-b1-h2-n33-nkv70-d64-causal-topleft-dlse"},
    {"backward-empty-rows", "backward-f32-b1-h2-n16-nkv5-d64-causal-dlse-unseennan"},
    {"backward-offsets", "backward-f32-b3-h2-n9-nkv33-d64-causal-dlse-offsetsm4:0:13-unseennan"},
    {"backward-window", "backward-f32-b1-h2-n50-nkv70-d64-full-window9:3-unseennan"},
    {"backward-unseen-keys", "backward-f32-b1-h2-n9-nkv90-d64-causal-offset50-dlse-window20:m1-unseennan"},
    {"backward-lengths", "backward-f32-b3-h2-n20-nkv33-d64-causal-dlse-qlen20:0:7-kvlen9:33:0-hiddennan"},
    {"backward-mask", "backward-f32-b2-h2-n16-nkv33-d64-full-dlse-maskbhqk-unseennan"},
    {"backward-key-mask", "backward-f32-b2-h2-n16-nkv33-d64-full-maskb11k-unseennan"},
    {"backward-softcap", "backward-f32-b1-h2-n16-nkv33-d64-full-dlse-softcap1.5"},
    {"backward-huge-softcap", "backward-f32-b1-h2-n12-nkv33-d64-full-softcap30-huge"},
    {"backward-scale", "backward-f32-b1-h2-n16-nkv33-d64-full-scalem0.3"},
    {"backward-bias", "backward-f32-b2-h2-n16-nkv33-d64-full-dlse-biasbhqk"},
    {"backward-bias-rows", "backward-f32-b2-h4-hkv2-n16-nkv33-d64-causal-dlse-biasqk:bf16-unseennan"},
    {"backward-bias-keys", "backward-f32-b3-h4-hkv2-n16-nkv33-d64-causal-biask"},
    {"backward-bias-items", "backward-bf16-b2-h2-n16-nkv33-d64-full-biasb1qk"},
    {"backward-bias-heads", "backward-f32-b2-h2-n40-nkv70-d64-full-bias1h1k:f16"},
    {"backward-inf-bias", "backward-f32-b2-h2-n12-nkv33-d64-full-dlse-biasqk-infbias"},
    {"backward-alibi", "backward-f32-b2-h4-hkv2-n16-nkv33-d64-causal-dlse-alibi"},
    {"backward-sinks", "backward-f32-b1-h4-n33-nkv17-d64-causal-dlse-sinks-unseennan"},
    {"backward-device-sinks",
     "backward-bf16-b2-h4-hkv2-n16-nkv33-d64-causal-dlse-sinks-kvlen9:33-devicesinks-hiddennan"},
    {"backward-huge-sinks", "backward-f32-b1-h2-n12-nkv33-d64-full-dlse-sinks10000:m10000"},
    {"backward-head-scales", "backward-f32-b2-h4-hkv2-n16-nkv33-d64-full-dlse-softcap5-headscales"},
    {"backward-dropout",
     "backward-f32-b2-h4-hkv2-n15-nkv77-d64-causal-offset50-dlse-kvlen77:25-dropout0.3:7"},
    {"backward-rope", "backward-f32-b2-h4-hkv2-n9-nkv33-d64-causal-dlse-headscales-ropehalf-ropepos1000"},
    {"backward-rope-bf16", "backward-bf16-b2-h4-hkv2-n40-nkv70-d64-causal-dlse-biasqk-alibi-sinks-ropehalf"},
    {"backward-rope-pairs",
     "backward-f32-b2-h4-hkv2-n9-nkv33-d64-causal-dlse-ropeinterleaved-ropescalepairs-ropeattention1.19"},
    {"backward-rope-yarn",
     "backward-f32-b1-h2-n9-nkv33-d40-causal-ropeinterleaved-rotary24-ropescaleyarn-ropefactor8-"
     "ropeoriginal16-ropeattention1.5"},
    {"backward-positions", "backward-f32-b2-h4-hkv2-n9-nkv33-d64-causal-ropehalf-positions"},
    {"backward-sections",
     "backward-f32-b2-h4-hkv2-n9-nkv33-d64-causal-ropehalf-positions-sectiont12-sectionh10-sectionw10-"
     "sectionsmixed"},
    {"backward-bshd", "backward-f32-b2-h3-n9-nkv33-d40-full-bshd-dlse"},
    {"backward-padded", "backward-f16-b2-h3-n9-nkv33-d40-dv24-full-padded-dlse-biasqk-sinks"},
    {"backward-scattered", "backward-f32-b2-h4-hkv2-n9-nkv33-d40-causal-scattered-dlse-biashqk-alibi"},
    {"backward-packed", "backward-f32-b2-h4-hkv2-n21-d32-causal-packed-dlse"},
    {"backward-latent", "backward-f32-b2-h18-hkv1-n3-nkv70-d72-dv64-causal-latent-dlse"},
    {"backward-only-q", "backward-f32-b1-h2-n33-nkv65-d64-causal-dlse-onlyq-biasqk"},
    {"backward-only-k", "backward-f32-b1-h4-hkv2-n33-nkv65-d64-causal-onlyk"},
    {"backward-only-v", "backward-bf16-b1-h4-hkv2-n33-nkv65-d64-causal-onlyv"},
    {"backward-only-sums", "backward-f32-b1-h2-n33-nkv65-d64-causal-onlybsah-biasqk-alibi-sinks-headscales"},
    {"backward-mods",
     "backward-f32-b2-h4-hkv2-n15-nkv77-d64-causal-offset50-dlse-softcap5-maskqk-biasqk-alibi-"
     "sinks-mods"},
    {"backward-mods-lengths", "backward-bf16-b3-h2-n40-nkv90-d64-full-kvlen9:90:0-mods-hiddennan"},
    {"backward-mods-gradient",
     "backward-f32-b2-h4-hkv2-n15-nkv77-d64-causal-offset50-dlse-softcap5-biasqk-mods-modsread-modsgradient"},
    {"backward-blocks", "backward-f32-b2-h2-n150-nkv333-d64-causal-window90:0-maskhqk-mods-blocks"},
    {"backward-ragged",
     "backward-f32-b4-h4-hkv2-n15-nkv77-d64-causal-dlse-sinks-qlen15:0:4:1-kvlen77:25:0:9-raggedhost"},
    {"backward-ragged-device",
     "backward-bf16-b4-h4-hkv2-n16-nkv140-d64-causal-bshd-dlse-window60:0-alibi-qlen9:16:1:3-kvlen77:140:5:3-"
     "raggedgapsdevice"},
    {"backward-ragged-cache",
     "backward-f32-b3-h4-hkv2-n15-nkv60-d64-causal-dlse-biasqk-qlen1:15:5-kvlen60:33:9-ropehalf-positions-"
     "raggedcache"},
    {"backward-seen-nan", "backward-f32-b1-h2-n40-d64-causal-dlse-seennan"},
    {"backward-row-nan", "backward-f32-b1-h2-n12-nkv33-d64-causal-sinks-rownan"},
    {"backward-dropout-nan", "backward-f32-b1-h2-n12-nkv33-d64-causal-dlse-dropout0.5:7-rownan"},
    {"backward-dropout-seen-nan", "backward-f32-b1-h4-hkv2-n40-d64-causal-dropout0.5:7-seennan"},
    {"backward-dominant", "backward-f32-b1-h2-n12-nkv100-d64-full-dlse-dominant"},
    {"backward-one-key", "backward-f32-b2-h3-n1-d64-full-dlse"},
    {"backward-one-row", "backward-f32-b2-h6-hkv3-n1-nkv127-d80-full-dlse"},
    {"backward-long", "backward-f32-b1-h4-hkv1-n300-nkv530-d32-causal-dlse-window200:0"},
    {"backward-tiny-heads", "backward-f32-b1-h2-n10-nkv37-d1-full-dlse"},
    {"backward-wide-heads", "backward-f32-b1-h1-n10-nkv37-d256-causal-dlse"},
    {"backward-everything",
     "backward-f16-b2-h4-hkv2-n15-nkv77-d64-dv40-causal-offset50-spaced-dlse-softcap5-window40:m1-maskbhqk-"
     "biashqk:f16-alibi-sinks-headscales-qlen15:4-kvlen77:25-ropehalf-dropout0.2:5-unseennan"},
};
const int hard_case_count = (int)(sizeof hard_cases / sizeof hard_cases[0]);

struct test_case hard_case(int number) {
    struct test_case test;
    char why[256];
    if (!case_parse(hard_cases[number].name, &test, why))
        evidence_end("hard case %s: %s", hard_cases[number].alias, why);
    test.name = hard_cases[number].alias;
    return test;
}

int hard_case_find(const char *text) {
    for (int n = 0; n < hard_case_count; n++)
        if (strcmp(hard_cases[n].alias, text) == 0 || strcmp(hard_cases[n].name, text) == 0) return n;
    return -1;
}
