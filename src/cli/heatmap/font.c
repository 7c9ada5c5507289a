// font.c: letters as dots. ASCII letters come from the bitmap font below. Other letters come from
// the machine's fonts: fontconfig finds a font with the code point, and FreeType draws it in black
// and white.
#include "cli/heatmap/font.h"

#include <stdlib.h>

// ASCII from the space on, then a hollow box for any other code point. A glyph is nine rows of five
// bits. The lowest bit is the rightmost dot of the last row.
static const uint64_t dots_of[96] = {
    0x000000000000, 0x042108001000, 0x0a5280000000, 0x0a57d5f52800, 0x047d1c5f1000, 0x18c888898c00,
    0x0c9511593400, 0x042000000000, 0x022210820800, 0x082084222000, 0x00255d520000, 0x00213e420000,
    0x000000031844, 0x00003e000000, 0x000000031800, 0x010888884000, 0x0e8ceb98b800, 0x046108423800,
    0x0e8844447c00, 0x0e884c18b800, 0x0232a5f10800, 0x1f878218b800, 0x06443d18b800, 0x1f0888442000,
    0x0e8c5d18b800, 0x0e8c5e113000, 0x003180031800, 0x003180031844, 0x022220820800, 0x0007c1f00000,
    0x082082222000, 0x0e8844401000, 0x0e8deb783800, 0x0e8c7f18c400, 0x1e8c7d18f800, 0x0e8c2108b800,
    0x1e8c6318f800, 0x1f843d087c00, 0x1f843d084000, 0x0e8c2f18bc00, 0x118c7f18c400, 0x0e2108423800,
    0x071084293000, 0x119531494400, 0x108421087c00, 0x11dd6b18c400, 0x11cd6b38c400, 0x0e8c6318b800,
    0x1e8c7d084000, 0x0e8c63593400, 0x1e8c7d494400, 0x0f841c10f800, 0x1f2108421000, 0x118c6318b800,
    0x118c63151000, 0x118c6b5aa800, 0x118a88a8c400, 0x118a88421000, 0x1f0888887c00, 0x0e4210843800,
    0x108208208400, 0x0e1084213800, 0x045440000000, 0x0000000003e0, 0x082000000000, 0x000382f8bc00,
    0x1087a318f800, 0x0003a108b800, 0x010be318bc00, 0x0003a3f83c00, 0x064790842000, 0x0003e318bc2e,
    0x1087a318c400, 0x040308423800, 0x020184210a4c, 0x1084a98a4800, 0x0c2108423800, 0x0006ab5ad400,
    0x0007a318c400, 0x0003a318b800, 0x0007a318fa10, 0x0003e318bc21, 0x0005b3084000, 0x0003e0e0f800,
    0x084790849800, 0x00046319b400, 0x000463151000, 0x00046b5aa800, 0x000454454400, 0x00046318bc2e,
    0x0007c4447c00, 0x032110420c00, 0x042108421000, 0x182104426000, 0x00022a200000, 0x1f8c6318fc00,
};
// clang-format on

static bool font_dot(uint32_t code_point, int column, int row) {
    if (column < 0 || column >= FONT_COLUMNS || row < 0 || row >= FONT_ROWS) return false;
    const uint32_t glyph = code_point >= 0x20 && code_point < 0x7f ? code_point - 0x20 : 95;
    return dots_of[glyph] >> (FONT_COLUMNS * (FONT_ROWS - row) - 1 - column) & 1;
}

bool font_dot_double(uint32_t code_point, int column, int row) {
    int x = column / 2, y = row / 2;
    if (font_dot(code_point, x, y)) return true;
    int toward_x = column % 2 ? x + 1 : x - 1, toward_y = row % 2 ? y + 1 : y - 1;
    bool step = font_dot(code_point, toward_x, y) && font_dot(code_point, x, toward_y);
    // A set dot between the two makes a square corner, which stays square: D must not look like O.
    return step && !font_dot(code_point, toward_x, toward_y);
}

#ifdef CLATTN_HAVE_FONTS

#include <fontconfig/fontconfig.h>
#include <ft2build.h>
#include FT_FREETYPE_H

#define FACES 8   // most font files in use; letters of other scripts are drawn as boxes
#define PIXELS 20 // height of a line; a letter of a fixed-width font is then 12 pixels wide

struct glyphs {
    FT_Library library;
    FT_Face faces[FACES];
    int count;
    FcConfig *config;
};

glyphs *glyphs_open(void) {
    glyphs *g = calloc(1, sizeof *g);
    if (g && FT_Init_FreeType(&g->library) == 0) {
        g->config = FcInitLoadConfigAndFonts();
        if (g->config) return g;
        FT_Done_FreeType(g->library);
    }
    free(g);
    return NULL;
}

void glyphs_close(glyphs *g) {
    if (!g) return;
    for (int i = 0; i < g->count; i++) FT_Done_Face(g->faces[i]);
    FT_Done_FreeType(g->library);
    FcConfigDestroy(g->config);
    free(g);
}

// Open the face of a font that has the code point.
static FT_Face open_face(glyphs *g, uint32_t code_point) {
    FcChar8 *file = NULL;
    int index = 0;
    FT_Face face = NULL;
    FcResult result;
    FcPattern *wanted = FcPatternCreate(), *found = NULL;
    FcCharSet *letters = FcCharSetCreate();
    if (wanted && letters && FcCharSetAddChar(letters, code_point)) {
        FcPatternAddCharSet(wanted, FC_CHARSET, letters);
        FcPatternAddString(wanted, FC_FAMILY, (const FcChar8 *)"DejaVu Sans Mono");
        FcPatternAddBool(wanted, FC_SCALABLE, FcTrue);
        FcConfigSubstitute(g->config, wanted, FcMatchPattern);
        FcDefaultSubstitute(wanted);
        found = FcFontMatch(g->config, wanted, &result);
    }
    if (found && g->count < FACES && FcPatternGetString(found, FC_FILE, 0, &file) == FcResultMatch) {
        if (FcPatternGetInteger(found, FC_INDEX, 0, &index) != FcResultMatch) index = 0;
        if (FT_New_Face(g->library, (const char *)file, index, &face) == 0 &&
            (FT_Get_Char_Index(face, code_point) == 0 || FT_Set_Pixel_Sizes(face, 0, PIXELS) != 0)) {
            FT_Done_Face(face);
            face = NULL;
        }
    }
    if (found) FcPatternDestroy(found);
    if (letters) FcCharSetDestroy(letters);
    if (wanted) FcPatternDestroy(wanted);
    if (face) g->faces[g->count++] = face;
    return face;
}

static FT_Face face_with(glyphs *g, uint32_t code_point) {
    for (int i = 0; i < g->count; i++)
        if (FT_Get_Char_Index(g->faces[i], code_point)) return g->faces[i];
    return open_face(g, code_point);
}

bool glyph_draw(glyphs *g, uint32_t code_point, int width, int base,
                void (*dot)(void *state, int column, int row), void *state) {
    FT_Face face = g ? face_with(g, code_point) : NULL;
    if (!face || FT_Set_Pixel_Sizes(face, 0, PIXELS) || FT_Load_Char(face, code_point, FT_LOAD_DEFAULT))
        return false;
    // Draw a wide letter smaller, so that it fits its place.
    const long advance = face->glyph->advance.x / 64;
    if (advance > width && (FT_Set_Pixel_Sizes(face, 0, (FT_UInt)(PIXELS * width / advance)) ||
                            FT_Load_Char(face, code_point, FT_LOAD_DEFAULT)))
        return false;
    if (FT_Render_Glyph(face->glyph, FT_RENDER_MODE_MONO)) return false;
    const FT_Bitmap *bits = &face->glyph->bitmap;
    for (int row = 0; row < (int)bits->rows; row++)
        for (int column = 0; column < (int)bits->width; column++)
            if (bits->buffer[row * bits->pitch + column / 8] >> (7 - column % 8) & 1)
                dot(state, face->glyph->bitmap_left + column, base - face->glyph->bitmap_top + row);
    return true;
}

#else

glyphs *glyphs_open(void) {
    return NULL;
}

void glyphs_close(glyphs *g) {
    (void)g;
}

bool glyph_draw(glyphs *g, uint32_t code_point, int width, int base,
                void (*dot)(void *state, int column, int row), void *state) {
    (void)g, (void)code_point, (void)width, (void)base, (void)dot, (void)state;
    return false;
}
#endif
