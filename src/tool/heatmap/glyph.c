/* See glyph.h: fontconfig names a font that has the code point, FreeType draws it in black and white. */
#include "tool/heatmap/glyph.h"

#include <stdlib.h>

#ifdef CLATTN_HAVE_FONTS

#include <fontconfig/fontconfig.h>
#include <ft2build.h>
#include FT_FREETYPE_H

#define FACES 8   /* more scripts in one picture are rare, and draw as boxes */
#define PIXELS 20 /* of a line: a letter of a font of fixed width is 12 wide then */

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

/* The face of a font that has it, opened. */
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
    /* A wide letter is drawn smaller, so that it keeps to its place. */
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
