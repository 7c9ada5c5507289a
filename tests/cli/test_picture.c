/* The pictures themselves: the palette and its scales, cells of several weights, letters, and the
 * two file back ends. Pure C, so Check may fork: each test has its own process. */
#define _XOPEN_SOURCE 700
#include "support/run_suite.h"
#include "support/temporary_folder.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef CLATTN_HAVE_PNG
#include <png.h>
#endif

#include "cli/heatmap/font.h"
#include "cli/heatmap/picture.h"

static reason error;

static void read_back(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "rb");
    size_t length = file ? fread(text, 1, size - 1, file) : 0;
    text[length] = '\0';
    if (file) fclose(file);
}

START_TEST(palette_and_scale) {
    unsigned char rgb[3];
    int darkest = 0;
    for (int index = COLOUR_LEAST; index <= COLOUR_GREATEST; index++) {
        picture_colour(index, rgb);
        int light = 299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2];
        /* each colour may be darker by one rounding step */
        ck_assert_int_ge(light, darkest - 1000);
        darkest = light > darkest ? light : darkest;
    }
    ck_assert(rgb[0] == 0xfd && rgb[1] == 0xe7 && rgb[2] == 0x25);
    ck_assert_int_eq(picture_colour_index(0, 0, 1), COLOUR_LEAST);
    ck_assert_int_eq(picture_colour_index(1, 0, 1), COLOUR_GREATEST);
    ck_assert_int_eq(picture_colour_index(3, 3, 3), COLOUR_LEAST);
    ck_assert_int_eq(picture_colour_index(NAN, 0, 1), COLOUR_NOT_FINITE);
    ck_assert_int_eq(picture_colour_index(3e38f, -3e38f, 3e38f), COLOUR_GREATEST);
}
END_TEST

#ifdef CLATTN_HAVE_PNG
/* A picture with cells of known colours. Each must fill its square, which is 32 pixels wide in a
 * picture this small. */
START_TEST(png_pixels) {
    const float weights[] = {0, 1, NAN, 0.5f};
    const picture p = {.title = "t",
                       .weights = weights,
                       .head_stride = 4,
                       .row_stride = 2,
                       .heads = 1,
                       .rows = 2,
                       .columns = 2,
                       .head_numbers = (int[]){0}};
    const int expected[] = {COLOUR_GREATEST, COLOUR_NOT_FINITE, picture_colour_index(0.5f, 0, 1)};
    png_image image = {.version = PNG_IMAGE_VERSION};
    ck_assert_msg(picture_png(&p, in_folder("p.png"), error), "%s", error);
    ck_assert(png_image_begin_read_from_file(&image, in_folder("p.png")));
    image.format = PNG_FORMAT_RGB;
    unsigned char *pixels = malloc(PNG_IMAGE_SIZE(image));
    ck_assert(pixels && png_image_finish_read(&image, NULL, pixels, 0, NULL));
    for (int e = 0; e < 3; e++) {
        unsigned char rgb[3];
        int found = 0;
        picture_colour(expected[e], rgb);
        for (size_t k = 0; k < PNG_IMAGE_SIZE(image); k += 3) found += memcmp(pixels + k, rgb, 3) == 0;
        ck_assert_int_ge(found, 32 * 32);
        ck_assert_int_le(found, 32 * 32 + 22); /* the colour bar may add one line of pixels */
    }
    free(pixels);
    picture large = p;
    large.heads = 65536, large.rows = large.columns = 65536;
    large.row_stride = large.head_stride = 0;
    ck_assert(!picture_png(&large, in_folder("large.png"), error) && strstr(error, "fewer heads"));
    ck_assert_int_ne(access(in_folder("large.png"), F_OK), 0);
}
END_TEST
#endif

static picture picture_of(const float *weights, int rows, int columns) {
    static const int heads[] = {0, 1};
    return (picture){.title = "t",
                     .weights = weights,
                     .head_stride = rows * columns,
                     .row_stride = columns,
                     .heads = 1,
                     .rows = rows,
                     .columns = columns,
                     .head_numbers = heads};
}

START_TEST(scales_place_weights) {
    const float weights[] = {1e-26f, 0.01f, 0.0f, 1.0f, 0.25f, 0.5f, 0.125f, 0.0f};
    picture p = picture_of(weights, 2, 2);
    p.heads = 2;
    picture_scale s = picture_scale_of(&p, 1);
    ck_assert(s.least == 0 && s.greatest == 1 && picture_share(&s, 0.25f) == 0.25 &&
              picture_share(&s, NAN) < 0);
    p.by_head = true;
    s = picture_scale_of(&p, 1);
    ck_assert(s.greatest == 0.5f && picture_share(&s, 0.25f) == 0.5);
    p.by_head = false, p.most = 0.1f;
    s = picture_scale_of(&p, 0);
    ck_assert(s.greatest == p.most && picture_share(&s, 1.0f) == 1);
    p.most = 0, p.logarithmic = true;
    s = picture_scale_of(&p, 0);
    ck_assert_double_eq_tol(picture_share(&s, 0.01f), 0.5, 1e-6);
    ck_assert(picture_share(&s, 1e-26f) == 0 && picture_share(&s, 0) == 0 && picture_share(&s, 1) == 1);
    ck_assert_int_ne(picture_index(&p, &s, 0), COLOUR_HIDDEN);
    p.hides_zero = true;
    ck_assert_int_eq(picture_index(&p, &s, 0), COLOUR_HIDDEN);
    ck_assert_int_eq(picture_index(&p, &s, 1e-26f), COLOUR_LEAST);
    ck_assert_int_eq(picture_index(&p, &s, -INFINITY), COLOUR_HIDDEN);
    ck_assert_int_eq(picture_index(&p, &s, INFINITY), COLOUR_NOT_FINITE);
}
END_TEST

/* With more than a thousand keys, several weights share a cell. It shows the greatest of them, also
 * at the picture's edges. */
START_TEST(cells_show_the_greatest_of_their_block) {
    enum { SIDE = 2500 };
    float *weights = calloc(SIDE * SIDE, sizeof *weights);
    picture p = picture_of(weights, SIDE, SIDE);
    const picture_layout l = picture_plan(&p);
    ck_assert_int_eq(l.block, 3);
    ck_assert_int_lt((int)l.width, 1500);
    weights[(SIDE - 1) * SIDE + SIDE - 1] = 1;
    weights[4 * SIDE + 5] = NAN;
    ck_assert(picture_greatest(&p, 0, SIDE - 1, SIDE - 1, 3, 3) == 1);
    ck_assert(isnan(picture_greatest(&p, 0, 3, 3, 3, 3)) && picture_greatest(&p, 0, 6, 6, 3, 3) == 0);
    for (int n = 0; n < SIDE * SIDE; n++) weights[n] = n / SIDE < 6 ? -INFINITY : -1;
    ck_assert(picture_greatest(&p, 0, 3, 3, 3, 3) == -INFINITY && picture_greatest(&p, 0, 5, 0, 3, 3) == -1);
    free(weights);
}
END_TEST

/* Axis labels are round numbers. The legend explains grey and red if they occur. */
START_TEST(axes_and_legend) {
    static char svg[1 << 20];
    float weights[640];
    for (int n = 0; n < 640; n++) weights[n] = 1;
    picture p = picture_of(weights, 1, 640);
    for (int n = 0; n < 3; n++) {
        if (n) weights[7] = n == 1 ? -INFINITY : NAN;
        p.signs = picture_signs_of(&p);
        ck_assert_msg(picture_svg(&p, in_folder("axes.svg"), error), "%s", error);
        read_back(in_folder("axes.svg"), svg, sizeof svg);
        ck_assert(strstr(svg, ">20</text>") && strstr(svg, ">620</text>") && !strstr(svg, ">18</text>"));
        ck_assert(!strstr(svg, "; grey is -inf") == (n != 1) &&
                  !strstr(svg, "; red is nan, inf") == (n != 2));
    }
}
END_TEST

#if defined(CLATTN_HAVE_PNG) && defined(CLATTN_HAVE_FONTS)
static void count_dot(void *state, int column, int row) {
    (void)column, (void)row;
    ++*(int *)state;
}

/* Returns true if the pictures of these two labels differ. */
static bool differ(const char *first_label, const char *second_label) {
    static char first[65536], second[65536];
    const float weights[] = {1};
    picture p = picture_of(weights, 1, 1);
    memset(first, 0, sizeof first), memset(second, 0, sizeof second);
    p.row_labels = p.column_labels = &first_label;
    ck_assert_msg(picture_png(&p, in_folder("a.png"), error), "%s", error);
    p.row_labels = p.column_labels = &second_label;
    ck_assert_msg(picture_png(&p, in_folder("b.png"), error), "%s", error);
    read_back(in_folder("a.png"), first, sizeof first);
    read_back(in_folder("b.png"), second, sizeof second);
    return memcmp(first, second, sizeof first) != 0;
}

/* A letter that a font of the machine has is not drawn as a box. A letter that no font has is. */
START_TEST(png_letters) {
    int dots = 0;
    glyphs *fonts = glyphs_open();
    const bool there = glyph_draw(fonts, 0x43a, 12, 14, count_dot, &dots);
    ck_assert(!glyph_draw(fonts, 0xf1234, 12, 14, count_dot, &dots));
    ck_assert(there == (dots > 10));
    glyphs_close(fonts);
    ck_assert(differ("\u043a", "\U000f1234") == there);
    ck_assert(!differ("\U000f1234", "\U000f1235"));
    /* the accent over a capital letter is not cut off */
    ck_assert(differ("\u0415", "\u0401") == there);
}
END_TEST

/* Letters that are two columns wide. Without any font they are drawn as boxes of the same width. */
START_TEST(png_wide_letters) {
    for (int bare = 0; bare < 2; bare++) {
        int dots = 0;
        FILE *none = fopen(in_folder("fonts.conf"), "w");
        ck_assert(none && fputs("<?xml version=\"1.0\"?><fontconfig></fontconfig>\n", none) >= 0);
        fclose(none);
        char whole[4096]; /* a relative name would be searched among the system's files */
        if (bare) setenv("FONTCONFIG_FILE", realpath(in_folder("fonts.conf"), whole), 1);
        glyphs *fonts = glyphs_open();
        const bool there = glyph_draw(fonts, 0x4e2d, 24, 14, count_dot, &dots);
        glyphs_close(fonts);
        ck_assert(there == (dots > 10) && !(there && bare));
        ck_assert(differ("\u4e2d", "\u56fd") == there && differ("\u4e2d", "\U0002fa1e") == there);
        ck_assert(differ("\u4e2d\u56fd", "\u4e2d") && differ("\u4e2d", "\u043a"));
        printf("%s: %s\n", bare ? "no fonts" : "the machine's fonts", there ? "letters" : "boxes");
    }
}
END_TEST
#endif

START_TEST(svg_text) {
    static char svg[65536];
    const char *const labels[] = {"<&>", "\xc4\xa0word\x01"};
    const float weights[] = {0, 1, 0.5f, 0.5f};
    const picture p = {.title = "a<b",
                       .weights = weights,
                       .head_stride = 0,
                       .row_stride = 2,
                       .heads = 1,
                       .rows = 2,
                       .columns = 2,
                       .head_numbers = (int[]){7},
                       .row_labels = labels,
                       .column_labels = labels};
    ck_assert_msg(picture_svg(&p, in_folder("p.svg"), error), "%s", error);
    read_back(in_folder("p.svg"), svg, sizeof svg);
    ck_assert(strstr(svg, ">&lt;&amp;&gt;</text>") && strstr(svg, ">_word\xef\xbf\xbd</text>"));
    ck_assert(strstr(svg, ">head 7</text>") && strstr(svg, ">a&lt;b</text>") && strstr(svg, "#fde725"));
    ck_assert(strstr(svg, "h64v32")); /* two cells of one colour become one box */
    ck_assert(strcmp(svg + strlen(svg) - 7, "</svg>\n") == 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("picture");
    TCase *group = tcase_create("pictures");
    tcase_set_timeout(group, 120);
    tcase_add_unchecked_fixture(group, enter, leave);
    tcase_add_test(group, palette_and_scale);
#ifdef CLATTN_HAVE_PNG
    tcase_add_test(group, png_pixels);
#endif
    tcase_add_test(group, svg_text);
    tcase_add_test(group, scales_place_weights);
    tcase_add_test(group, axes_and_legend);
    tcase_add_test(group, cells_show_the_greatest_of_their_block);
#if defined(CLATTN_HAVE_PNG) && defined(CLATTN_HAVE_FONTS)
    tcase_add_test(group, png_letters);
    tcase_add_test(group, png_wide_letters);
#endif
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_FORK_GETENV);
}
